"""Assembly beside the plan that it was made from: what the compiler has added, moved and dropped."""

from tidegate.against.compare import Against, Difference, compare

__all__ = ["Against", "Difference", "compare"]
