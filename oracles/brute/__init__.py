"""Answers by brute force: every order of a small program is tried."""
