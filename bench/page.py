"""docs/benchmarks.md: tables between two markers, `<!-- NAME -->`; what is around them is written by hand.

`python -m bench.page NAME TABLE.md` puts in a table that was made elsewhere: the benches about Wave run with a Python
that has Wave, some of them in slices.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

PAGE = Path(__file__).resolve().parent.parent / "docs" / "benchmarks.md"


def put(name: str, table: str) -> None:
    """Puts a table in the place of the one that stands there."""
    text = PAGE.read_text(encoding="utf-8")
    block = f"<!-- {name} -->\n\n{table}\n\n<!-- end of {name} -->"
    new, count = re.subn(rf"<!-- {name} -->.*?<!-- end of {name} -->", lambda _: block, text, flags=re.DOTALL)
    assert count == 1, f"docs/benchmarks.md has no place for `{name}`"
    PAGE.write_text(new, encoding="utf-8")


if __name__ == "__main__":
    put(sys.argv[1], Path(sys.argv[2]).read_text(encoding="utf-8").strip())
