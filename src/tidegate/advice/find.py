"""What could be less in a clean program: taken away, weaker, looser.

Needs   a checked program without findings
Gives   `Advice`: barriers, waits and fences that can go; barriers that could do less; counts that could be larger;
        barriers that only the schedule needs
Keeps   what is said holds together: with all of it followed, the program is proved, or as good as the simulator shows.
        What is pinned stays, and so does the stagger: of those it is only said that no access needs them
Cost    a verification for each change that is tried: one for each barrier, a few more where something is found

    shared_memory_barrier wait_async_ops      1. without it   2. a wait   3. bare   4. LDS alone
    wait_count vmcnt(0)                       1. without it   2. vmcnt(1), vmcnt(3), vmcnt(2)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from tidegate.advice.model import Advice, Less, Proof
from tidegate.advice.say import say_less, say_looser
from tidegate.advice.trials import MOST_POINTS, Trials
from tidegate.advice.weaker import Waiting, things_of, weaker, with_count, without_thing
from tidegate.diag import Span
from tidegate.graph import model as g
from tidegate.language.ops import SharedMemoryBarrier, SyncOp, WaitCount
from tidegate.passes import Checked
from tidegate.placement.groups import SINGLE, STAGGER, WAITS
from tidegate.placement.pieces import Piece, find_pieces, removal_order
from tidegate.placement.redundant import find_redundant
from tidegate.placement.stores import find_stores, waits_for
from tidegate.placement.walks import Walks
from tidegate.session import Session
from tidegate.simulate.judge import Limits
from tidegate.synchronize.instructions import amdgcn_of

if TYPE_CHECKING:
    from tidegate.hosts.amdgcn.program import AmdgcnProgram
    from tidegate.synchronize.counts import Loosening

# Called with the number of pieces done and of all.
Progress = Callable[[int, int], None]


def advise(checked: Checked, limits: Limits | None = None, progress: Progress | None = None) -> Advice:
    """Everything there is to say. Only a program that was decided, and is clean, gets advice."""
    if not checked.is_decided or checked.session is None:
        return Advice(why_not="not judged")
    if any(each.severity == "error" for each in checked.findings):
        return Advice(why_not="there are findings")
    if checked.unmodelled:  # what would be proved is not the program
        return Advice(why_not="; ".join(checked.unmodelled))
    return _Adviser(checked, checked.session, limits, progress or (lambda *_: None)).advise()


class _Adviser:
    """Edits that are found are kept: what is tried next is tried with them."""

    def __init__(self, checked: Checked, session: Session, limits: Limits | None, progress: Progress) -> None:
        self.session, self.graph, self.target, self.progress = session, session.graph, session.target, progress
        self.trials = Trials(checked, session, limits)
        self.pieces = find_pieces(self.graph)
        self.stored = find_stores(self.graph)
        self.edits: dict[int, SyncOp | None] = {}
        self.less: list[Less] = []
        self.loosening = self.loosening_of(amdgcn_of(session))

    def advise(self) -> Advice:
        open_ = [each for each in self.pieces if not (_is_kept(each) or self.stores(each))]
        free = sorted((each for each in open_ if not self.is_held(each)), key=self.order)
        if len(free) * len(self.graph.points) > MOST_POINTS:  # what promises most is tried before the bound is reached
            likely = self.likely()
            free.sort(key=lambda each: not likely.issuperset(each.points))
        if self.loosening is not None:
            self.loosening.loosen()
        gone = self.remove(free)
        rest = [each for each in free if each not in gone]
        self.less += self.one_of(gone, rest)
        for number, piece in enumerate(rest):
            self.progress(len(free) + number, 2 * len(free))
            self.less += self.weaken(piece)
        looser = self.loosening.loosen(self.places(gone)) if self.loosening is not None else []
        self.less += self.kept(sorted((each for each in self.pieces if _is_kept(each)), key=self.order))
        self.less.sort(key=lambda each: each.piece.points)
        findings = [*(say_less(each, self.graph) for each in self.less), *map(say_looser, looser)]
        held = [each for each in open_ if self.is_held(each) and not (self.loosening and each.kind in WAITS)]
        return Advice(findings, self.less, self.trials.count, self.trials.left_out, len(held), self.why_not_waits())

    # --- waits of assembly ---

    def loosening_of(self, assembly: AmdgcnProgram | None) -> Loosening | None:
        if assembly is None:
            return None
        from tidegate.synchronize.counts import Loosening

        return Loosening(assembly, self.graph, self.is_proved_with)

    def may_go(self, pieces: Iterable[Piece]) -> bool:
        """Whether registers and global memory, of which no graph says anything, allow that all these go."""
        gone = self.places(pieces)
        return self.loosening is None or (self.loosening.program.keeps_order(gone) and self.loosening.fits(gone))

    def places(self, pieces: Iterable[Piece]) -> frozenset[Span]:
        return frozenset(self.graph.points[point].at for piece in pieces for point in piece.points)

    def is_proved_with(self, edits: Mapping[int, SyncOp | None]) -> bool:
        proof = self.trials.ask({**self.edits, **edits})
        found = proof is not None and proof.by == "verifier"
        if found:
            self.edits |= edits
        return found

    def why_not_waits(self) -> str:
        return self.loosening.needs.why_not if self.loosening is not None else ""

    def is_held(self, piece: Piece) -> bool:
        """Whether it may order what no graph says: accesses to global memory, of final instructions."""
        origin = self.session.origin
        return origin is not None and any(self.graph.points[each].at in origin.held for each in piece.points)

    def order(self, piece: Piece) -> tuple[object, ...]:
        return removal_order(piece, self.graph)

    def op(self, point: int) -> object:
        action = self.graph.points[point].action
        return action.op if isinstance(action, g.Sync) else None

    def stores(self, piece: Piece) -> bool:
        """Whether it waits for copies out of shared memory: who reads what they write is not known here."""
        return any(waits_for(self.op(point), self.stored) for point in piece.points)

    def likely(self) -> frozenset[int]:
        """Barriers that stand in no window alone: quick to find, and no proof."""
        found = self.session.hazards()
        return find_redundant(Walks(found.flow, self.target, found.stagger), found.hazards)

    # --- without it ---

    def remove(self, pieces: Sequence[Piece]) -> dict[Piece, Proof]:
        """What can go together."""
        found: dict[Piece, Proof] = {}
        for number, piece in enumerate(pieces):
            self.progress(number, 2 * len(pieces))
            if not self.may_go((*found, piece)):
                continue
            if (proof := self.trials.without(piece, given=self.edits)) is not None:
                found[piece] = proof
                self.edits |= dict.fromkeys(piece.points)
        return found

    def one_of(self, gone: dict[Piece, Proof], rest: Sequence[Piece]) -> list[Less]:
        """Each of what can go with those that could go in its place."""
        others: dict[Piece, list[Piece]] = {each: [] for each in gone}
        for other in rest if gone else ():
            if self.trials.without(other) is None:
                continue
            apart = [each for each in gone if self.trials.fails_without(each, other)]
            for each in apart or gone:
                others[each].append(other)
        return [
            Less("TG406" if each.kind in WAITS else "TG401", each, proof, or_else=tuple(others[each]))
            for each, proof in gone.items()
        ]

    # --- weaker ---

    def weaken(self, piece: Piece) -> list[Less]:
        """The weakest that is enough in its place, and then the loosest."""
        ops = {self.op(point) for point in piece.points}
        if piece.kind not in SINGLE.values() or len(ops) != 1:
            return []
        (op,) = ops
        found: Less | None = None
        for other, what in weaker(op, self.graph, self.target):
            if (proof := self.try_instead(piece, other)) is not None:
                found, op = Less("TG404", piece, proof, other, what), other
                break
        if isinstance(op, SharedMemoryBarrier | WaitCount):
            looser = self.loosen(piece, op)
            if looser is not None:
                found = replace(found, op=looser.op, proof=looser.proof) if found is not None else looser
        if found is None:
            return []
        self.edits |= dict.fromkeys(piece.points, found.op)
        return [found]

    def try_instead(self, piece: Piece, op: SyncOp) -> Proof | None:
        return self.trials.ask({**self.edits, **dict.fromkeys(piece.points, op)})

    def loosen(self, piece: Piece, op: Waiting) -> Less | None:
        """Waits for less, each thing in its turn; None if it needs all."""
        proof, more, said = None, "", []
        for word, other in self.needless(piece, op):
            op, proof = other, self.try_instead(piece, other)
            said.append(f"`{word}` is not needed")
        for name, count in op.counts if things_of(op) else ():
            most = self.largest(piece, op, name, count)
            if most > count:
                op = with_count(op, name, most)
                proof = self.try_instead(piece, op)
                said.append(f"`{name}({most})` is enough instead of `{name}({count})`")
                further = dict.fromkeys(piece.points, with_count(op, name, most + 1))
                is_last = most < self.limit(name, most) and self.trials.fails({**self.edits, **further})
                more = f"{name}({most + 1})" if is_last else ""
        return Less("TG405", piece, proof, op, "; ".join(said), more) if proof is not None else None

    def needless(self, piece: Piece, op: Waiting) -> Iterator[tuple[str, Waiting]]:
        """Things that need not be waited for, each with what is left of the operation.

        The newest first: who waits for a newer copy of a queue has waited for the older ones.
        """
        for word in reversed(things_of(op)):
            other = without_thing(op, word)
            if things_of(other) and self.try_instead(piece, other) is not None:
                op = other
                yield word, op

    def largest(self, piece: Piece, op: Waiting, name: str, count: int) -> int:
        """The largest count that is still enough: steps that double, then halves. A larger one only asks less."""
        most = self.limit(name, count)
        good, bad, step = count, most + 1, 1
        while bad - good > 1:
            middle = min(good + step, most) if bad > most else (good + bad) // 2
            if self.try_instead(piece, with_count(op, name, middle)) is not None:
                good, step = middle, 2 * step
            else:
                bad = middle
        return good

    def limit(self, name: str, count: int) -> int:
        """The largest count that a counter can tell apart; no more than this one if it is not known."""
        counter = self.target.counters.get(name)
        return max(counter.largest, count) if counter is not None else count

    # --- what stays whatever is said ---

    def kept(self, pieces: Sequence[Piece]) -> list[Less]:
        """Pinned barriers and staggers that no access needs, with the rest followed; staggers go first."""
        found: list[Less] = []
        for piece in pieces:
            gone = tuple(each.piece for each in found)
            staggers = tuple(each for each in gone if each.kind == STAGGER)
            for along in ((), staggers, gone):
                if (proof := self.trials.without(piece, *along, given=self.edits)) is not None:
                    found.append(Less("TG402", piece, proof, along=along))
                    break
        return found


def _is_kept(piece: Piece) -> bool:
    return piece.pinned or piece.kind == STAGGER
