"""Waits for asynchronous copies: what a wait must see complete, as values, and the counts that see to it."""
