"""Pages and pictures of programs: what `tidegate draw` makes.

Needs   a program, its target; for pictures an estimate that has recorded its events
Gives   a page about it all (`build_report`); one SVG of two halves of the waves over time, with a headline
Keeps   the same program gives the same text; nothing is fetched by a page
Cost    of a page that of explaining the program, of a picture linear in the events

The page: `build` gathers it, `program`, `windows`, `lanes`, `steps` and `player` make its parts, `html` puts them into
the files of `page/`. The picture: `wave_views` says what one wave did, `timeline_svg` where it stands on the paper,
`colours` how it looks.
"""

from tidegate.report.headline import headline
from tidegate.report.timeline_svg import Panel, draw_panels

__all__ = ["Panel", "draw_panels", "headline"]
