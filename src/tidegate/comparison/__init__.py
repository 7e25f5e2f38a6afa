"""Assembly beside the plan that it was made from: what the compiler has added, moved and dropped."""

from tidegate.comparison.compare import Against, Difference, compare, compare_unit

__all__ = ["Against", "Difference", "compare", "compare_unit"]
