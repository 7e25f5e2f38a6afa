"""Programs with barrier objects, judged by explicit search: the independent check of the proof for all trip counts.

Nothing here imports `tidegate`, except `compare.py`, which asks it for its verdict.
"""
