"""Which bytes each access touches, and when two accesses can meet.

find_footprints(flow_of(graph)) says what every access of a graph touches, over canonical names; `Conflicts` says which
of them touch one byte, in which waves, and how many iterations apart.
"""

from tidegate.footprint.conflicts import Conflicts
from tidegate.footprint.meetings import Meeting, Pairs, Witness
from tidegate.footprint.model import Footprints, Note, Touch, show_footprints
from tidegate.footprint.resolve import find_footprints

__all__ = [
    "Conflicts",
    "Footprints",
    "Meeting",
    "Note",
    "Pairs",
    "Touch",
    "Witness",
    "find_footprints",
    "show_footprints",
]
