"""Where barriers go, of which kind, and what they cost."""
