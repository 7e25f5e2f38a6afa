"""Programs with barrier objects, and with roles, for all trip counts."""
