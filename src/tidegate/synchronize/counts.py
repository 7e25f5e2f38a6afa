"""The loosest count for every wait of AMD assembly.

Needs   a program that is proved; someone who says of a changed program whether it is proved
Gives   `find_looser`: waits that could wait for less, or for nothing, in the order of the text
Keeps   with all of them together shared memory is proved, and whatever registers and global memory rely on is certain
        (`hosts.amdgcn.needs`): waits are loosened one after another, each with those before it as they are then
Cost    for each wait that registers allow to be looser a few proofs; none for the others

    s_waitcnt vmcnt(0)     registers and global memory: vmcnt(8); shared memory: vmcnt(4)      ─▶   vmcnt(4)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tidegate.diag import Span
from tidegate.graph import model as g
from tidegate.hosts.amdgcn import model as a
from tidegate.hosts.amdgcn.needs import GONE, Needs, Reason
from tidegate.hosts.amdgcn.program import AmdgcnProgram
from tidegate.hosts.amdgcn.write import own_text, with_counts
from tidegate.language.ops import SyncOp, WaitCount

# What stands at points instead of what is there, None for nothing: is the program proved with it, and what was asked
# before and found right?
Ask = Callable[[Mapping[int, SyncOp | None]], bool]
SHARED = "shared memory"


@dataclass(frozen=True, slots=True)
class Looser:
    """A wait that could wait for less. `text`: what is enough, empty for nothing at all; `parts`: each counter with
    its count and the largest that is enough, `GONE` if none is needed; `next_`: why one more would not be."""

    at: Span
    own: str
    text: str
    parts: tuple[tuple[str, int, int], ...]
    next_: tuple[str, ...] = ()


@dataclass(slots=True)
class _Found:
    counts: dict[str, int] = field(default_factory=dict)
    parts: list[tuple[str, int, int]] = field(default_factory=list)
    next_: list[str] = field(default_factory=list)


def find_looser(
    program: AmdgcnProgram, graph: g.SyncGraph, ask: Ask, gone: frozenset[Span] = frozenset()
) -> list[Looser]:
    """`graph`: that of the program, whose points `ask` knows by their numbers. `gone`: barriers that are left out."""
    return _Loosening(program, program.needs(gone), graph, ask).run()


class _Loosening:
    def __init__(self, program: AmdgcnProgram, needs: Needs, graph: g.SyncGraph, ask: Ask) -> None:
        self.program, self.needs, self.ask = program, needs, ask
        self.ops: dict[Span, dict[int, WaitCount]] = {}
        for number, point in enumerate(graph.points):
            if isinstance(point.action, g.Sync) and isinstance(point.action.op, WaitCount):
                self.ops.setdefault(point.at, {})[number] = point.action.op

    def run(self) -> list[Looser]:
        found = (self.one(place) for place in sorted(self.needs.counts))
        return [each for each in found if each is not None]

    def one(self, place: int) -> Looser | None:
        item = self.needs.body[place]
        assert isinstance(item, a.AsmLine)
        own = own_text(self.program.amdgcn.text, item.at)
        state = _Found(dict(self.needs.counts[place]))
        for counter, count in self.needs.counts[place].copy().items():
            most = self.largest(place, item, own, counter, state)
            if most > count:
                self.needs.loosen(place, counter, most)
                state.parts.append((counter, count, most))
        if not state.parts:
            return None
        return Looser(item.at, own, _text(item, own, state.counts) or "", tuple(state.parts), tuple(state.next_))

    def largest(self, place: int, item: a.AsmLine, own: str, counter: str, state: _Found) -> int:
        """Of one counter, the others as they are; `state` is brought up to date."""
        count, most = self.needs.counts[place][counter], self.needs.largest(place, counter)
        if most <= count or _text(item, own, _with(state.counts, counter, most)) is None:
            return count
        is_shared = any(counter in dict(op.counts) for op in self.ops.get(item.at, {}).values())
        best = self.proved(item.at, counter, count, most, state) if is_shared else most
        state.counts = _with(state.counts, counter, best)
        if best < GONE:
            reason = self.needs.reasons.get((place, counter))
            state.next_.append(SHARED if best < most or reason is None else self.said(reason))
        return best

    def proved(self, at: Span, counter: str, count: int, most: int, state: _Found) -> int:
        """The largest up to a bound with which shared memory is proved: the bound first, then steps that double and
        halves; a larger count only asks less."""
        if self.try_count(at, counter, most, state):
            return most
        good, bad, step = count, most, 1
        limit = min(most, self.program.target.counters[counter].largest)
        while bad - good > 1:
            middle = min(good + step, limit) if bad > limit else (good + bad) // 2
            if middle <= good:
                break
            if middle < bad and self.try_count(at, counter, middle, state):
                good, step = middle, 2 * step
            else:
                bad = middle
        return good

    def try_count(self, at: Span, counter: str, count: int, state: _Found) -> bool:
        """Where the counter is not named, it says nothing about shared memory anyway."""
        edits: dict[int, SyncOp | None] = {}
        for number, op in self.ops[at].items():
            wanted = _with(state.counts, counter, count)
            counts = tuple((name, wanted[name]) for name, _ in op.counts if name in wanted)
            edits[number] = WaitCount(counts) if counts else None
        return self.ask(edits)

    def said(self, reason: Reason) -> str:
        source, user = (self.needs.body[each] for each in (reason.source, reason.user))
        words = {
            "uses": f"line {user.at.line} uses what line {source.at.line} loads",
            "overwrites": f"line {user.at.line} writes a register that line {source.at.line} may still read",
            "ends": f"line {source.at.line} would be in flight at the end, line {user.at.line}",
            "orders": f"line {user.at.line} may order memory that line {source.at.line} reads",
            "memory": f"it completes line {source.at.line}, for which others may wait",
            "waits": f"the count of line {user.at.line} says nothing while line {source.at.line} is in flight",
        }
        return words[reason.what]


def _with(counts: Mapping[str, int], counter: str, count: int) -> dict[str, int]:
    found = {**counts, counter: count}
    if count >= GONE:
        del found[counter]
    return found


def _text(item: a.AsmLine, own: str, counts: Mapping[str, int]) -> str | None:
    """None if no text says it; empty if nothing is left to wait for."""
    return with_counts(item, own, counts) if counts else ""
