"""Published fixes of races in CUDA kernels, each as one small kernel that is right with `-D FIXED`.

Needs   the `.cu` files of this folder; NVRTC to judge them
Gives   `FIXES`: source of the fix, block shape, the code of the finding, the lines of the race
Keeps   every kernel is written anew after its fix: the same barriers, arrays and loops around them, nothing copied.
        Lines that end in `// race` are those of the race in the kernel as it was
Cost    none
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from tidegate import check
from tidegate.hosts.cuda.options import CudaOptions
from tidegate.results import CheckResult

_HEAD = re.compile(
    r"// (?P<source>https://\S+)\n// (?P<what>.+)\n// check --block (?P<block>\S+), before the fix: (?P<code>TG\d+)\n"
)


@dataclass(frozen=True, slots=True)
class Fix:
    """A kernel before and after a published fix. `what`: what was wrong, in a sentence."""

    path: Path
    source: str
    what: str
    block: str
    code: str

    @property
    def name(self) -> str:
        return self.path.stem

    @property
    def lines(self) -> set[int]:
        """Where the race is."""
        text = self.path.read_text(encoding="utf-8")
        return {number for number, line in enumerate(text.split("\n"), 1) if line.endswith("// race")}

    def before(self) -> CheckResult:
        return self._check(())

    def after(self) -> CheckResult:
        return self._check(("FIXED",))

    def _check(self, defines: tuple[str, ...]) -> CheckResult:
        return check(self.path, block=self.block, cuda=CudaOptions(defines=defines))


def _read(path: Path) -> Fix:
    found = _HEAD.match(path.read_text(encoding="utf-8"))
    assert found is not None, f"{path.name} does not begin as the others do"
    return Fix(path, **found.groupdict())


FIXES = tuple(_read(path) for path in sorted(Path(__file__).parent.glob("*.cu")))
