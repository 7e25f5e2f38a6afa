"""What a clean program could do without: barriers, kinds and counts that nothing needs."""

from tidegate.advice.find import advise
from tidegate.advice.model import Advice

__all__ = ["Advice", "advise"]
