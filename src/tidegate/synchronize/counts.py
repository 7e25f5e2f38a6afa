"""The loosest count for every wait of AMD assembly.

Needs   a program that is proved; someone who says of a changed program whether it is proved
Gives   `Loosening`: waits that could wait for less, or for nothing, in the order of the text
Keeps   with all of them together shared memory is proved, and whatever registers and global memory rely on is certain
        (`hosts.amdgcn.needs`): waits are loosened one after another, each with those before it as they are then, and
        barriers go only if all that holds without them
Cost    for each wait that registers allow to be looser a few proofs; none for the others

    s_waitcnt vmcnt(0)     registers and global memory: vmcnt(8); shared memory: vmcnt(4)      ─▶   vmcnt(4)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tidegate.diag import Span
from tidegate.graph import model as g
from tidegate.hosts.amdgcn import model as a
from tidegate.hosts.amdgcn.needs import GONE, Needs, Reliance
from tidegate.hosts.amdgcn.program import AmdgcnProgram
from tidegate.hosts.amdgcn.waits import waits_of
from tidegate.hosts.amdgcn.write import Counts, own_text, with_counts
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


class Loosening:
    """Of one program, together with barriers that go: `loosen`, and `fits` for what more may go."""

    def __init__(self, program: AmdgcnProgram, graph: g.SyncGraph, ask: Ask) -> None:
        """`graph`: that of the program, whose points `ask` knows by their numbers."""
        self.program, self.ask = program, ask
        self.needs = program.needs()
        self.given = {item.at: dict(waits_of(item)) for item in program.kernel.body if isinstance(item, a.AsmLine)}
        self.changed: dict[Span, dict[str, int]] = {}
        self.next_: dict[tuple[Span, str], str] = {}
        self.ops: dict[Span, dict[int, WaitCount]] = {}
        for number, point in enumerate(graph.points):
            if isinstance(point.action, g.Sync) and isinstance(point.action.op, WaitCount):
                self.ops.setdefault(point.at, {})[number] = point.action.op

    def fits(self, gone: frozenset[Span]) -> bool:
        """Whether registers and global memory allow the counts found so far without these barriers."""
        return not self.changed or self._without(gone) is not None

    def _without(self, gone: frozenset[Span]) -> Needs | None:
        needs = self.program.needs(gone)
        for place in sorted(needs.counts, key=lambda place: self._order(needs, place)):
            for counter, count in self.changed.get(needs.body[place].at, {}).items():
                if not needs.is_enough(place, counter, count):
                    return None
                needs.loosen(place, counter, count)
        return needs

    def loosen(self, gone: frozenset[Span] = frozenset()) -> list[Looser]:
        """Every wait as far as it goes, without these barriers; all that was found, in the order of the text.

        Waits in loops first: what they leave in flight is left to those behind the loop.
        """
        needs = self._without(gone) if gone else self.needs
        self.needs = needs if needs is not None else self.needs
        for place in sorted(self.needs.counts, key=lambda place: self._order(self.needs, place)):
            self._one(place)
        found = (self._said(each) for each in self.program.kernel.body if each.at in self.changed)
        return list(found)

    def _order(self, needs: Needs, place: int) -> tuple[bool, int]:
        return place not in needs.repeated, place

    def _one(self, place: int) -> None:
        item = self.needs.body[place]
        assert isinstance(item, a.AsmLine)
        own = own_text(self.program.text, item.at)
        for counter, count in self.needs.counts[place].copy().items():
            most = self._largest(place, item, own, counter)
            if most > count:
                self.needs.loosen(place, counter, most)
                self.changed.setdefault(item.at, {})[counter] = most

    def _said(self, item: a.AsmLine | a.Mark) -> Looser:
        assert isinstance(item, a.AsmLine)
        own, changed = own_text(self.program.text, item.at), self.changed[item.at]
        parts = tuple((name, old, changed[name]) for name, old in self.given[item.at].items() if name in changed)
        next_ = tuple(self.next_[item.at, name] for name, _, most in parts if most < GONE)
        text = _text(item, own, _kept({**self.given[item.at], **changed}))
        assert text is not None
        return Looser(item.at, own, text, parts, next_)

    def _largest(self, place: int, item: a.AsmLine, own: str, counter: str) -> int:
        """Of one counter, the others as they are."""
        counts = self.needs.counts[place]
        count, most = counts[counter], self.needs.largest(place, counter)
        if most <= count or _text(item, own, _kept({**counts, counter: most})) is None:
            return count
        is_shared = any(counter in dict(op.counts) for op in self.ops.get(item.at, {}).values())
        best = self.proved(item.at, counter, count, most, counts) if is_shared else most
        if best < GONE:
            reason = self.needs.reasons.get((place, counter))
            self.next_[item.at, counter] = SHARED if best < most or reason is None else self.said(reason)
        return best

    def proved(self, at: Span, counter: str, count: int, most: int, counts: Counts) -> int:
        """The largest up to a bound with which shared memory is proved: the bound first, then steps that double and
        halves; a larger count only asks less."""
        if self.try_count(at, counter, most, counts):
            return most
        good, bad, step = count, most, 1
        limit = min(most, self.program.target.counters[counter].largest)
        while bad - good > 1:
            middle = min(good + step, limit) if bad > limit else (good + bad) // 2
            if middle <= good:
                break
            if middle < bad and self.try_count(at, counter, middle, counts):
                good, step = middle, 2 * step
            else:
                bad = middle
        return good

    def try_count(self, at: Span, counter: str, count: int, counts: Counts) -> bool:
        """Where the counter is not named, it says nothing about shared memory anyway."""
        wanted = _kept({**counts, counter: count})
        edits: dict[int, SyncOp | None] = {}
        for number, op in self.ops[at].items():
            left = tuple((name, wanted[name]) for name, _ in op.counts if name in wanted)
            edits[number] = WaitCount(left) if left else None
        return self.ask(edits)

    def said(self, reason: Reliance) -> str:
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


def _kept(counts: Counts) -> dict[str, int]:
    """What is still waited for."""
    return {name: count for name, count in counts.items() if count < GONE}


def _text(item: a.AsmLine, own: str, counts: Counts) -> str | None:
    """None if no text says it; empty if nothing is left to wait for."""
    return with_counts(item, own, counts) if counts else ""
