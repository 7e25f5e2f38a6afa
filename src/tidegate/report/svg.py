"""Pieces of an SVG as text.

Needs   numbers and words
Gives   lines of XML
Keeps   numbers have at most one decimal, and all text is escaped: the same picture is the same text
Cost    constant for each piece
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from tidegate.diag import visible

Attribute = str | float
# The size of letters, unless something else is said.
SIZE = 13.0
# How wide a letter is, about, for each pixel of the size of its font.
LETTER = 0.54


def element(name: str, inside: str = "", /, **given: Attribute) -> str:
    """Underscores in names stand for hyphens; one at the end is dropped, so that words of Python can be given."""
    pairs = "".join(f' {key.rstrip("_").replace("_", "-")}="{_value(value)}"' for key, value in given.items())
    return f"<{name}{pairs}>{inside}</{name}>" if inside else f"<{name}{pairs}/>"


def rect(x: float, y: float, width: float, height: float, tip: str = "", /, **given: Attribute) -> str:
    return element("rect", _tip(tip), x=x, y=y, width=width, height=height, **given)


def line(x1: float, y1: float, x2: float, y2: float, tip: str = "", /, **given: Attribute) -> str:
    return element("line", _tip(tip), x1=x1, y1=y1, x2=x2, y2=y2, **given)


def text(x: float, y: float, words: str, /, **given: Attribute) -> str:
    return element("text", escape(visible(words)), x=x, y=y, **given)


def width_of(words: str, size: float) -> float:
    return len(words) * size * LETTER


def hatching(name: str, colour: str) -> str:
    """A pattern of slanted lines, to be used as `fill="url(#name)"`."""
    ground = rect(0, 0, 5, 5, fill=colour, fill_opacity=0.2)
    slant = line(0, 0, 0, 5, stroke=colour, stroke_width=2.2)
    turned = "rotate(45)"
    return element(
        "pattern", ground + slant, id=name, width=5, height=5, patternUnits="userSpaceOnUse", patternTransform=turned
    )


def document(width: float, height: float, title: str, about: str, body: Sequence[str]) -> str:
    """The whole file. `title` and `about` are for those who do not see it."""
    opening = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_value(width)} {_value(height)}" '
        f'width="{_value(width)}" height="{_value(height)}" role="img" aria-labelledby="title about" '
        f'font-family="sans-serif" font-size="{_value(SIZE)}">'
    )
    head = [f'<title id="title">{escape(visible(title))}</title>', f'<desc id="about">{escape(visible(about))}</desc>']
    return "\n".join([opening, *head, *body, "</svg>", ""])


def _tip(words: str) -> str:
    """What a viewer shows while the mouse is there."""
    return f"<title>{escape(visible(words))}</title>" if words else ""


def _value(value: Attribute) -> str:
    if isinstance(value, str):
        return escape(value)
    return f"{value:.1f}".rstrip("0").rstrip(".") if value % 1 else f"{value:.0f}"
