"""Brute force that judges what the product judges, and shares no code with it."""
