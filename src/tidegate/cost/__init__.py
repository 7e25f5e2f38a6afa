"""What things cost: how long an operation takes on a target, and how long waves take that do many at once.

Needs   a target, and abstract steps of waves
Gives   `Prices`, which turn bytes and operations into steps; `play`, which says when each step happens
Keeps   the same steps give the same cycles; every number comes from the `[cost]` table of the target's file
Cost    logarithmic in the waves for each step, linear in those of a workgroup for each arrival

`prices` knows the target, `steps` is what waves do, `engine` plays it. Which steps a graph takes, `simulate.cycles`
says.
"""

from tidegate.cost.engine import Event, Played, Stuck, play
from tidegate.cost.prices import Prices, prices_of
from tidegate.cost.steps import Arrive, Await, Commit, Depart, Do, Machine, Meeting, Prefer, Program, Step, Wait

__all__ = [
    "Arrive",
    "Await",
    "Commit",
    "Depart",
    "Do",
    "Event",
    "Machine",
    "Meeting",
    "Played",
    "Prefer",
    "Prices",
    "Program",
    "Step",
    "Stuck",
    "Wait",
    "play",
    "prices_of",
]
