"""The page around its data: one file, with style, script and data in it; nothing is fetched.

Needs   the data of a page, and the files in `page/`
Gives   HTML, alone or as a frame for a notebook
Keeps   no text of a program can end the script that holds it
Cost    linear in the data
"""

from __future__ import annotations

import html
import json
import re
from importlib.resources import files
from typing import Any

from tidegate.diag import visible

SCRIPTS = ("page.js", "listing.js", "details.js", "timeline.js", "steps.js", "start.js")
FRAME_HEIGHT = 760


def page_of(data: dict[str, Any]) -> str:
    """The whole file."""
    title = f"@{data['name']} on {data['target']}"
    text = _read("page.html")
    script = "\n".join(_read(name) for name in SCRIPTS)
    parts = {
        "title": html.escape(visible(title)),
        "style": _read("page.css"),
        "data": _as_script(data),
        "script": f'"use strict";\n(() => {{\n{script}\n}})();',
    }
    return re.sub(r"\{\{(title|style|data|script)\}\}", lambda mark: parts[mark[1]], text)


def notebook_frame(page: str) -> str:
    """The page in a frame of its own, so that its style stays its own."""
    style = "width: 100%; border: 1px solid #8884; border-radius: 6px"
    return f'<iframe srcdoc="{html.escape(page)}" height="{FRAME_HEIGHT}" style="{style}" title="Tidegate"></iframe>'


def _as_script(data: dict[str, Any]) -> str:
    """JSON in which nothing looks like a tag, no line ends where JavaScript sees one, and no text turns around."""
    text = visible(json.dumps(data, ensure_ascii=False, separators=(",", ":")))
    return text.replace("<", "\\u003c")


def _read(name: str) -> str:
    return (files("tidegate.report") / "page" / name).read_text(encoding="utf-8")
