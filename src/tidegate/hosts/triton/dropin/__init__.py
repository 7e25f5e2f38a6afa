"""The drop-in for Triton: Tidegate in the place of its own passes. `tidegate.triton` is what users import."""
