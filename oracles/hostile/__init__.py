"""Command lines and files at their worst, and a runner for them."""
