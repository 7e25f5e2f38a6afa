"""The waist: every front end makes a `SyncGraph`, every analysis reads only that, every result is a `Plan`."""
