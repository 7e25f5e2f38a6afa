"""What is proved beside what an independent twin finds: random programs about lanes, counts and atomics.

Needs   `oracles.twin`, whose author has read the machine model and nothing of the verifier
Gives   for each kind how many programs are wrong, how many of the right ones are proved, and every false proof
Keeps   the twin reads the model in the conservative way wherever it can be read in two, but for `READINGS`

`python -m bench.twins` writes the table; `python -m bench.twins KIND START COUNT` judges some programs of one kind.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import partial

from bench.slices import in_order
from oracles.twin import STRICT, Rules, generate, judge, to_tide
from tidegate.graph.build import build_graph
from tidegate.language.parse import parse
from tidegate.targets import load_target
from tidegate.verify.verify import is_ordered

KINDS = ("lanes", "counts", "atomics")
FULL, QUICK, SLICE = 10_000, 200, 50
# Where the twin may read the model in two ways, and a target file says with its source which one holds.
READINGS: Rules = replace(
    STRICT,
    amd_wait_is_wave_fence=True,  # `fence.waits`
    nvidia_fence_performs=True,  # `fence.wave_performs`: bar.warp.sync orders memory among its lanes
    ended_waves_leave=True,  # `barrier.wave_end`
    wait_async_ops_covers_uncommitted=True,  # it is cp.async.wait_all, which commits what is in no group
    masks_are_known=True,  # elements outside of a mask of iota and constants are not touched, as the language says
)


@dataclass(slots=True)
class Compared:
    """How many programs of each verdict; seeds of those on which the two differ."""

    programs: int = 0
    wrong: int = 0
    proved: int = 0
    false: list[int] = field(default_factory=list)  # proved, and wrong
    unproved: list[int] = field(default_factory=list)  # right, and not proved

    @property
    def right(self) -> int:
        return self.programs - self.wrong

    def join(self, other: Compared) -> None:
        self.programs += other.programs
        self.wrong += other.wrong
        self.proved += other.proved
        self.false += other.false
        self.unproved += other.unproved

    @property
    def share_proved(self) -> float:
        return 1 - len(self.unproved) / max(1, self.right)


def compare_slice(kind: str, start: int) -> Compared:
    return compare(kind, range(start, start + SLICE))


def compare(kind: str, seeds: Iterable[int]) -> Compared:
    found = Compared()
    for seed in seeds:
        program = generate(kind, seed)
        (kernel,) = parse(to_tide(program)).kernels
        target = load_target(kernel.target)
        proved, safe = is_ordered(build_graph(kernel, target).graph, target), judge(program, rules=READINGS).safe
        found.programs += 1
        found.wrong += not safe
        found.proved += proved
        if proved and not safe:
            found.false.append(seed)
        if safe and not proved:
            found.unproved.append(seed)
    return found


def run(quick: bool | None = None) -> tuple[str, bool]:
    """The table, and whether nothing wrong is proved and at least 95 % of what is right is."""
    quick = "--quick" in sys.argv if quick is None else quick
    lines = ["| kind | programs | wrong | false proofs | right | of these proved |", "|---|---|---|---|---|---|"]
    good = True
    for kind in KINDS:
        found = Compared()
        for part in in_order(partial(compare_slice, kind), range(0, QUICK if quick else FULL, SLICE)):
            found.join(part)
        good = good and not found.false and found.share_proved >= 0.95
        wrong = f"{found.wrong:,} ({found.wrong / found.programs:.1%})"
        proved = f"{found.right - len(found.unproved):,} ({found.share_proved:.1%})"
        lines.append(f"| {kind} | {found.programs:,} | {wrong} | {len(found.false)} | {found.right:,} | {proved} |")
    return "\n".join(lines) + "\n", good


def main(kind: str, start: str, count: str) -> int:
    found = compare(kind, range(int(start), int(start) + int(count)))
    print(f"{kind}: {found.programs} programs, {found.wrong} wrong, {found.share_proved:.1%} of the right ones proved")
    print(f"false proofs: {found.false}\nright, not proved: {found.unproved}")
    return bool(found.false)


if __name__ == "__main__":
    if len(sys.argv) == 4:
        raise SystemExit(main(*sys.argv[1:]))
    text, fine = run()
    print(text, end="")
    raise SystemExit(not fine)
