"""What a folder of compiled kernels holds: one entry for each text of PTX, and how it is launched.

Needs   nothing but Python: it is read where neither Tidegate nor Triton is installed
Gives   `Entry`, `Manifest`, `read_manifest` and `write_manifest`
Keeps   an entry says all that a launch needs besides the arguments: threads, shared memory, scratch memory, and the
        types of the parameters in their order

A kernel takes the arguments of its case in their order, without constexprs, and then two pointers: to scratch memory
in global memory and to scratch memory for a profiler (`triton/backends/nvidia/driver.c`).
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

FILE = "manifest.json"
TRITON, TIDEGATE, REMOVED = "triton", "tidegate", "removed-"


class Refused(Exception):
    """Something that the caller can mend: one sentence, no traceback."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One kernel for one target with the barriers of one variant."""

    case: str
    target: str
    variant: str  # `triton`, `tidegate`, or `removed-K`: Tidegate's without its barrier number K
    ptx: str  # name of the file
    entry: str  # name of the kernel in it, which no other entry has
    threads: int
    shared: int  # bytes, dynamic
    ctas: int  # thread blocks in a cluster
    scratch: int  # bytes for each thread block
    profile: int
    parameters: tuple[str, ...]  # types as Triton writes them: `*fp16`, `i32`
    digest: str  # of the PTX, apart from the kernel's name
    barriers: int  # instructions in the PTX at which all threads of a block or of a group of warps meet
    fallback: str = ""  # why Triton's own barriers are in it, if they are
    verdict: str = ""  # what the verifier says, of `removed-K`

    @property
    def name(self) -> str:
        return f"{self.case}.{self.target}.{self.variant}"

    @property
    def pair(self) -> str:
        return f"{self.case}.{self.target}"


@dataclass(frozen=True, slots=True)
class Manifest:
    """A folder: its entries, and what did not compile with the reason."""

    versions: dict[str, str]  # of Triton and of Tidegate; with what `merge_waits`
    entries: tuple[Entry, ...]
    failed: dict[str, str]

    def named(self, name: str) -> Entry:
        return next(each for each in self.entries if each.name == name)

    def pairs(self) -> dict[str, tuple[Entry, Entry]]:
        """Triton's and Tidegate's entry of each kernel and target that has both."""
        found = {(each.pair, each.variant): each for each in self.entries}
        return {
            pair: (one, found[pair, TIDEGATE])
            for (pair, variant), one in found.items()
            if variant == TRITON and (pair, TIDEGATE) in found
        }


def is_control(pair: tuple[Entry, Entry]) -> bool:
    """Both variants are the same text: what differs between them is noise."""
    return pair[0].digest == pair[1].digest


def write_manifest(folder: Path, manifest: Manifest) -> None:
    (folder / FILE).write_text(json.dumps(asdict(manifest), indent=1) + "\n", encoding="utf-8")


def read_manifest(folder: Path) -> Manifest:
    path = folder / FILE
    if not path.is_file():
        raise Refused(f"{path} is not there: `python -m bench.gpu compile {folder}` writes it")
    read = json.loads(path.read_text(encoding="utf-8"))
    entries = tuple(Entry(**{**each, "parameters": tuple(each["parameters"])}) for each in read["entries"])
    return Manifest(read["versions"], entries, read["failed"])
