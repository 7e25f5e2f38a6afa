"""Front ends for the programs of other compilers: each gives a `SyncGraph` and carries a `Plan` out in its own text."""
