"""The drop-in for Wave: Tidegate in the place of its own passes. `tidegate.wave` is what users import."""
