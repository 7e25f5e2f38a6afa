"""Triton: TTGIR in, as a `SyncGraph`; a `Plan` carried out in the same text."""
