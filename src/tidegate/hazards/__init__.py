"""Every ordered pair of accesses that needs order, and how much of it."""
