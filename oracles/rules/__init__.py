"""Rules of the checkers, each of which can be switched off: a test must notice."""
