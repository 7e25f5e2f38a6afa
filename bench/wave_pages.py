"""Puts tables about Wave into docs/benchmarks.md: `python -m bench.wave_pages NAME TABLE.md`.

The benches about Wave run with a Python that has Wave, some of them in slices; what they print goes between the markers
`<!-- NAME -->` of the page.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

PAGE = Path(__file__).resolve().parent.parent / "docs" / "benchmarks.md"


def write(name: str, table: str) -> None:
    text = PAGE.read_text(encoding="utf-8")
    block = f"<!-- {name} -->\n\n{table.strip()}\n\n<!-- end of {name} -->"
    new, count = re.subn(rf"<!-- {name} -->.*?<!-- end of {name} -->", lambda _: block, text, flags=re.DOTALL)
    assert count == 1, f"docs/benchmarks.md has no place for `{name}`"
    PAGE.write_text(new, encoding="utf-8")


if __name__ == "__main__":
    write(sys.argv[1], Path(sys.argv[2]).read_text(encoding="utf-8"))
