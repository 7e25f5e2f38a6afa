"""Why each barrier stands, and why the other pairs of accesses need none."""

from tidegate.explanation.model import Barrier, Explained, Pair, Reason, Trial, Verdict
from tidegate.explanation.stages import explain
from tidegate.explanation.trials import judged

__all__ = ["Barrier", "Explained", "Pair", "Reason", "Trial", "Verdict", "explain", "judged"]
