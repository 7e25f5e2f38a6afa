"""Programs to judge: random ones, and families that grow with a size."""
