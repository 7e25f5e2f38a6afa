"""From a program with little or no synchronization to one that is correct: propose, apply, judge."""

from tidegate.synchronize.model import Synchronized, SyncOptions
from tidegate.synchronize.readback import Written, read_back
from tidegate.synchronize.stages import (
    SYNC,
    judge_result,
    place_in,
    propose,
    racing_in,
    synchronize,
    synchronize_graph,
    trust,
)
from tidegate.synchronize.written import write_programs

__all__ = [
    "SYNC",
    "SyncOptions",
    "Synchronized",
    "Written",
    "judge_result",
    "place_in",
    "propose",
    "racing_in",
    "read_back",
    "synchronize",
    "synchronize_graph",
    "trust",
    "write_programs",
]
