"""AMD assembly as text, and whether it keeps the order of a trace."""
