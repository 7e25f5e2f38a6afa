"""Which bytes each wave touches at each access, and which accesses can meet."""
