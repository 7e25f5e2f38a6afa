"""Rules of the verifier, to be switched off: which pairs meet, and which barriers are met; see `verify_rules.py`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from oracles.rules.verify_rules import Patch, cautious, changed, rule
from tidegate.index import Binary, Compare, Cond, Const, Index, Name
from tidegate.verify import events, meet, paths, protocol, verify
from tidegate.verify.asked import Waves
from tidegate.verify.meet import Meet
from tidegate.verify.paths import U
from tidegate.verify.protocol import Protocol
from tidegate.verify.tables import Table

# --- which pairs --------------------------------------------------------------------------------------------------


@rule("within a wave", "a copy and an access of its own wave need a wait between them")
def _within_a_wave(patch: Patch) -> None:
    def others(old: Any) -> Any:
        return lambda self, head: (mode for mode in old(self, head) if not mode.waves.same)

    changed(patch, verify._Verifier, "modes", others)


@rule("one statement", "one statement in two waves has no order")
def _one_statement(patch: Patch) -> None:
    def together(old: Any) -> Any:
        def found(self: verify._Verifier, first: int, second: int, iterations: Any, waves: Waves) -> None:
            if first != second:
                old(self, first, second, iterations, waves)

        return found

    changed(patch, verify._Verifier, "together", together)


@rule("arms", "two arms that different waves take have no order")
def _arms(patch: Patch) -> None:
    patch.setattr(verify._Verifier, "arms", lambda self, branch, join: None)


@rule("arms of lanes", "lanes of one wave may take both arms, and a copy in one is in flight in the other")
def _arms_of_lanes(patch: Patch) -> None:
    def together(old: Any) -> Any:
        def found(self: verify._Verifier, first: int, second: int, iterations: Any, waves: Waves) -> None:
            if not waves.same:
                old(self, first, second, iterations, waves)

        return found

    changed(patch, verify._Verifier, "together", together)


@rule("loops in arms", "an arm holds the loops in it")
def _loops_in_arms(patch: Patch) -> None:
    def straight(old: Any) -> Any:
        def found(flow: Any, start: int, join: int, branch: int) -> set[int]:
            loop = flow.loop_of[branch]
            return {node for node in old(flow, start, join, branch) if flow.loop_of[node] == loop}

        return found

    changed(patch, verify, "between", straight)


def _no(first: str, second: str) -> Callable[[Patch], None]:
    def off(patch: Patch) -> None:
        def without(old: Any) -> Any:
            return lambda x, y: old(x, y) and (x.effect, y.effect) != (first, second)

        changed(patch, verify, "conflict", without)

    return off


rule("read after write", "a read after a write needs order")(_no("write", "read"))
rule("write after read", "a write after a read needs order")(_no("read", "write"))
rule("write after write", "two writes need order")(_no("write", "write"))


@rule("atomics", "an atomic is a write, too")
def _atomics(patch: Patch) -> None:
    def without(old: Any) -> Any:
        return lambda x, y: old(x, y) and "atomic" not in (x.effect, y.effect)

    changed(patch, verify, "conflict", without)


@rule(
    "results of atomics",
    "atomics commute only if nobody looks at what they give",
)
def _fetched(patch: Patch) -> None:
    changed(
        patch, verify, "conflict", lambda old: lambda x, y: old(replace(x, fetches=False), replace(y, fetches=False))
    )


@rule("what nobody described", "an operation without a description may write")
def _unknown(patch: Patch) -> None:
    changed(patch, events, "_anything", lambda old: lambda queues: replace(old(queues), effect="read"))


# --- do they meet -------------------------------------------------------------------------------------------------


@rule("shared bytes", "buffers at one place share bytes")
def _shared(patch: Patch) -> None:
    patch.setattr(Meet, "shift", lambda self, one, other: 0 if one.buffer == other.buffer else None)


@rule("unknown places", "an access that may be anywhere in a buffer meets all others there")
def _unknown_places(patch: Patch) -> None:
    def touches(old: Any) -> Any:
        def found(self: Meet, touch: Any, spot: Any, side: str, iterations: Any, wave: str, shift: int) -> Any:
            conds, sure = old(self, touch, spot, side, iterations, wave, shift)
            known = spot.start is not None
            return (conds, sure) if known else ([*conds, Compare("<", Name(meet.BYTE), Const(shift))], sure)

        return found

    changed(patch, Meet, "touches", touches)


@rule("masks that nobody knows", "an access that may touch a byte counts as one that does")
def _masks(patch: Patch) -> None:
    def touches(old: Any) -> Any:
        def found(self: Meet, touch: Any, spot: Any, side: str, iterations: Any, wave: str, shift: int) -> Any:
            conds, sure = old(self, touch, spot, side, iterations, wave, shift)
            return ([*conds, Compare("<", Name(meet.BYTE), Const(shift))] if touch.may else conds), sure

        return found

    changed(patch, Meet, "touches", touches)


@rule("places by wave", "a place that is affine in no general form is one for each wave")
def _by_wave(patch: Patch) -> None:
    def first(old: Any) -> Any:
        def found(place: Index, wave: str, *given: Any) -> Any:
            index, conds = old(place, wave, *given)
            return index, [*conds, Compare("==", Name(wave), Const(0))] if conds else conds

        return found

    def tried(old: Any) -> Any:
        def found(self: Meet, *given: Any) -> Any:
            question = old(self, *given)
            if question is None:
                return None
            return replace(question, conds=(*question.conds, Compare("==", Name(U), Const(0))))

        return found

    changed(patch, meet, "by_wave", first)
    changed(patch, Meet, "tried", tried)


@rule("tried values", "what is not affine is tried for all waves, and not for the first one only")
def _tried(patch: Patch) -> None:
    def first(old: Any) -> Any:
        def found(self: Table, *given: Any) -> Any:
            return {shift: truths & (self.env[meet.U] == 0) for shift, truths in old(self, *given).items()}

        return found

    changed(patch, Table, "overlaps", first)


@rule("other waves", "the other wave is any, not the next one only")
def _other_waves(patch: Patch) -> None:
    def neighbours(old: Any) -> Any:
        def found(self: Waves, count: int) -> Iterator[Cond]:
            yield from old(self, count)
            if not self.same:
                yield Compare("==", Name(meet.V), _plus(meet.U, 1))

        return found

    changed(patch, Waves, "conds", neighbours)


def _plus(name: str, value: int) -> Index:
    return Binary("+", Name(name), Const(value))


@rule("last iteration", "iterations are counted up to the last one")
def _last_iteration(patch: Patch) -> None:
    def facts(old: Any) -> Any:
        def found(self: Meet, touch: Any, iterations: Any, wave: str) -> list[Cond]:
            known: list[Cond] = list(old(self, touch, iterations, wave))
            for loop, step in zip(self.paths.around[touch.node], iterations, strict=True):
                most = self.flow.loops[loop].most
                if most is not None and step[0] != paths.WILD:
                    known.append(Compare("<", paths.value_of(step), Const(most - 1)))
            return known

        return found

    changed(patch, Meet, "facts", facts)


# --- barriers that are met ----------------------------------------------------------------------------------------


def _without_reason(text: str) -> Callable[[Patch], None]:
    def off(patch: Patch) -> None:
        def fewer(old: Any) -> Any:
            return lambda *args: [each for each in old(*args) if text not in each]

        changed(patch, protocol, "_reasons", fewer)

    return off


rule("barrier objects", "barrier objects are not those of the workgroup")(_without_reason("barrier objects"))
rule("different programs", "waves with different programs may arrive differently often")(
    _without_reason("different programs")
)
rule("waves that disagree", "all waves come to every barrier")(_without_reason("waves disagree"))
rule("other barriers", "a pair may belong to another barrier than the workgroup's")(
    _without_reason("other than the workgroup's")
)


rule("calls", "a call that leads back to itself may arrive any number of times")(_without_reason("recursive calls"))


@rule("turns", "signals and waits take turns")
def _turns(patch: Patch) -> None:
    patch.setattr(protocol._Turns, "mistakes", lambda self: iter(()))


@rule("signals are waited for", "no signal is left over at the end")
def _last_turn(patch: Patch) -> None:
    def mistakes(old: Any) -> Any:
        return lambda self: (each for each in old(self) if "signal without a wait" not in each)

    changed(patch, protocol._Turns, "mistakes", mistakes)


@rule("conditional barriers match", "both halves arrive equally often")
def _matched(patch: Patch) -> None:
    def unasked(old: Any) -> Any:
        def found(flow: Any, known: Any) -> Protocol:
            result: Protocol = old(flow, known)
            return Protocol(dict.fromkeys(range(len(flow.origin)), 0)) if result.undecided else result

        return found

    changed(patch, protocol, "_ahead", unasked)


@cautious("guards", "of signals and waits under conditions those take turns that can be")
def _guards(patch: Patch) -> None:
    patch.setattr(protocol._Turns, "is_possible", lambda self, start, met: True)


@cautious("slots", "accesses to different slots do not meet")
def _slots(patch: Patch) -> None:
    changed(
        patch,
        Meet,
        "find",
        lambda old: (
            lambda self, x, y, iterations, ways, waves: old(self, x, y, self.anywhere(x), (frozenset(),), waves)
        ),
    )
