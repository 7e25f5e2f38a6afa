"""What a compiler has made of the barriers and waits of a program: added, moved, dropped.

Needs   the text of an assembly, and the graph of the program that it was made of
Gives   `Against`: differences by lines of the assembly and of the program, and how many barriers both have
Keeps   each way through the assembly is one through the program, as far as nothing is said: the same barriers in their
        order, between two of them no access of a kind that the program has not there, and nothing in flight where the
        program drains. Loops may be unrolled or peeled, blocks copied, accesses joined, split or taken away
Cost    the events of the one times those of the other, at worst

    added       a barrier that the program does not have there
    dropped     a barrier of the program that no way through the assembly comes to
    moved       an access between two barriers where the program has none
    in flight   an access that a barrier drains in the program, and that the assembly does not wait for
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tidegate.comparison.code import SIGNAL, read_assembly
from tidegate.comparison.match import Mismatch, mismatches
from tidegate.comparison.paths import END, KINDS, WITHOUT_END, Events, Weights, events_of
from tidegate.comparison.plan import PlanText, plan_of, why_not
from tidegate.diag import NOWHERE, BadInput, Finding, Span
from tidegate.graph import model as g
from tidegate.session import Session
from tidegate.targets import Target

ADDED, DROPPED, MOVED, IN_FLIGHT = "added", "dropped", "moved", "in flight"
_KINDS = {"order": ADDED, "between": MOVED, "undrained": IN_FLIGHT}


@dataclass(frozen=True, slots=True)
class Difference:
    """`line`: of the assembly, 0 where it has none; `at`: of the program."""

    kind: str
    line: int
    what: str
    at: Span = NOWHERE

    def __str__(self) -> str:
        where = f"line {self.line}: " if self.line > 0 else "at the end: " if self.line == END else ""
        return f"{self.kind}: {where}{self.what}"


@dataclass(frozen=True, slots=True)
class Against:
    """`planned`, `made`: barriers of the program and of the assembly. `one_wave`: compilers leave out barriers of a
    workgroup that is one wave. `why_not`: why nothing was compared."""

    planned: int = 0
    made: int = 0
    differences: tuple[Difference, ...] = ()
    one_wave: bool = False
    why_not: str = ""
    counts: tuple[int, int] = (0, 0)  # waits for copies before barriers: with their counts, with others

    @property
    def is_weaker(self) -> bool:
        """Whether the assembly may order less than the program does."""
        return any(each.kind != ADDED for each in self.differences)

    @property
    def said(self) -> str:
        if self.why_not:
            return f"not compared: {self.why_not}"
        barriers = f"barriers {self.planned} → {self.made}"
        if self.one_wave and not self.made:
            return f"{barriers}: the workgroup is one wave, which needs none"
        kinds = {each.kind: sum(other.kind == each.kind for other in self.differences) for each in self.differences}
        listed = ", ".join(f"{count} {kind}" for kind, count in kinds.items())
        return f"{barriers}: {listed or 'as planned'}"

    def to_json(self) -> dict[str, object]:
        return {
            "planned": self.planned,
            "made": self.made,
            "one_wave": self.one_wave,
            "weaker": self.is_weaker,
            "waits": {"kept": self.counts[0], "changed": self.counts[1]},
            "why_not": self.why_not or None,
            "differences": [
                {"kind": each.kind, "line": each.line or None, "what": each.what, "of_line": each.at.line or None}
                for each in self.differences
            ],
        }


def compare(text: str, graph: g.SyncGraph, target: Target, kernel: str = "") -> Against:
    """`kernel`: the name of the one that is meant, where the text holds several."""
    if reason := why_not(graph):
        return Against(why_not=reason)
    one_wave = _is_one_wave(text)
    made = events_of(read_assembly(_only(text, kernel))[0])
    plan = plan_of(graph, target, split=any(each.startswith(SIGNAL) for each in made.names.values()))
    told = events_of(*read_assembly(plan.text))
    if one_wave and not made.barriers:
        return Against(told.barriers, 0, one_wave=True)
    _widen(told)
    wrong, matched = mismatches(made, told, goes_on=True)
    found = [*_differences(wrong), *_dropped(told, matched, plan, graph)]
    return Against(told.barriers, made.barriers, tuple(found), one_wave, counts=_counts(made, told, matched))


def compare_unit(text: str, unit: Session, kernels: Sequence[str]) -> Against:
    """A program beside the kernel of its name, or the only one. `kernels`: those of the assembly."""
    if len(kernels) > 1 and unit.name not in kernels:
        return Against(why_not=f"the assembly has {len(kernels)} kernels, and none is called `{unit.name}`")
    if unit.origin is not None and unit.origin.unmodelled:
        return Against(why_not=unit.origin.unmodelled[0])
    return compare(text, unit.graph, unit.target, unit.name if len(kernels) > 1 else "".join(kernels))


def _only(text: str, kernel: str) -> str:
    """The text of one function."""
    if not kernel:
        return text
    found = re.search(rf"^{re.escape(kernel)}:.*?^\.Lfunc_end\d+:", text, re.MULTILINE | re.DOTALL)
    if found is None:
        raise BadInput(Finding("TG007", f"the assembly has no code of `{kernel}`"))
    before = text.count("\n", 0, found.start())
    return "\n" * before + found[0]


def _widen(told: Events) -> None:
    """A program does not say how many bytes a lane touches: where it has an access of a kind, there may be any."""
    for following in told.after.values():
        for place, weights in following.items():
            following[place] = _any(weights)
    told.copies = dict.fromkeys(told.names, WITHOUT_END)


def _any(weights: Weights) -> Weights:
    return tuple(WITHOUT_END if each else 0 for each in weights)


def _differences(wrong: list[Mismatch]) -> Iterator[Difference]:
    for each in wrong:
        if each.kind == "order" and each.line == END:
            yield Difference(DROPPED, each.line, f"the assembly ends, where the program goes on: {each.what}")
        elif each.kind in _KINDS:
            yield Difference(_KINDS[each.kind], each.line, _without_bytes(each.what))


def _without_bytes(what: str) -> str:
    return re.sub(rf"({'|'.join(KINDS)}) (?:\d+|without end)", r"\1", what)


def _dropped(told: Events, matched: dict[int, set[int]], plan: PlanText, graph: g.SyncGraph) -> Iterator[Difference]:
    """Barriers of the program that no way through the assembly comes to."""
    found = set().union(*matched.values()) if matched else set()
    for line, name in told.names.items():
        if line > 0 and line not in found:
            at = graph.points[plan.points[line]].at
            where = f" of line {at.line}" if at.line else ""
            yield Difference(DROPPED, 0, f"`{name}`{where} of the program is nowhere", at)


def _counts(made: Events, told: Events, matched: dict[int, set[int]]) -> tuple[int, int]:
    """Waits that leave copies in flight right before a barrier."""
    kept = others = 0
    for line, places in matched.items():
        wanted = {told.counts[each] for each in places if told.counts.get(each)}
        if wanted:
            kept, others = (kept + 1, others) if made.counts.get(line) in wanted else (kept, others + 1)
    return kept, others


def _is_one_wave(text: str) -> bool:
    threads = re.search(r"\.max_flat_workgroup_size: *(\d+)", text)
    lanes = re.search(r"\.wavefront_size: *(\d+)", text)
    return bool(threads and lanes) and int(threads[1]) <= int(lanes[1])  # type: ignore[index]
