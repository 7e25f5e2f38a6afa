"""Pictures of what the cost model says: the two halves of the waves of a program over time.

Needs   a graph, a target, and an estimate that has recorded its events
Gives   one SVG; a headline for each of its panels
Keeps   the same panels give the same text
Cost    linear in the events

`wave_views` says what one wave did, `timeline_svg` where it stands on the paper, `colours` how it looks.
"""

from tidegate.report.headline import headline
from tidegate.report.timeline_svg import Panel, draw_panels

__all__ = ["Panel", "draw_panels", "headline"]
