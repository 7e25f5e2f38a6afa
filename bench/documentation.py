"""`python -m bench documentation`: how many pages there are, and how many blocks on them are run by the tests.

Blocks are counted as `test_docs.py` finds them. What is shown and not run (`text` blocks that are no output) is
counted apart; programs and targets are checked, consoles and Python run and compared.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
RUN = {
    "console": "commands, what they print compared",
    "python": "Python, what it prints compared",
    "tide": "kernels, checked as the page says",
    "sync": "graphs, checked",
    "toml": "targets, loaded",
}


def run() -> tuple[str, bool]:
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md"))]
    count: Counter[str] = Counter()
    commands = 0
    for path in pages:
        text = path.read_text(encoding="utf-8")
        for language, rest, body in re.findall(r"(?ms)^```(\w+)(.*?)\n(.*?)^```$", text):
            count["output" if language == "text" and "output" in rest else language] += 1
            commands += body.count("$ tidegate") if language == "console" else 0
    rows = ["| on the pages | blocks |", "|---|---:|"]
    rows += [f"| `{language}`: {words} | {count[language]} |" for language, words in RUN.items()]
    rows.append(f"| output of Python, compared | {count['output']} |")
    others = sum(number for language, number in count.items() if language not in RUN and language != "output")
    rows.append(f"| shown only | {others} |")
    total = sum(count[language] for language in RUN) + count["output"]
    head = f"{len(pages)} pages; {total} blocks are run or compared, {commands} commands of `tidegate` among them."
    return f"{head}\n\n" + "\n".join(rows), True
