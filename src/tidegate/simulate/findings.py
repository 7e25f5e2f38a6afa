"""Races and inversions as findings: both places, a witness, and what would have ordered them.

Needs   what the machine found, and for each statement its place and its text
Gives   findings TG101 to TG105, TG108 and TG109
Keeps   one finding for each pair of statements; the text depends on the witness alone, and on what else the same wait
        left in flight: what is called safe is so for all of it
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tidegate.allowing import fence_help
from tidegate.codes import PROXY_READ
from tidegate.diag import Facts, Finding, Label, Span
from tidegate.simulate.atomics import why_apart
from tidegate.simulate.program_order import compare
from tidegate.simulate.races import Clash, Party
from tidegate.simulate.steps import Touch


@dataclass(frozen=True, slots=True)
class Statement:
    """Where a step comes from: its place, its text, the memory that it touches and, of a buffer, where that lies."""

    at: Span
    text: str
    memory: str = ""
    offset: int | None = None  # of the buffer, from the start of its space; None: of a view, which may move
    slot_bytes: int = 0
    slots: int = 1


HAZARDS = {
    "TG101": "read after write",
    "TG102": "write after read",
    "TG103": "write after write",
}
VERBS = {"read": "reads", "write": "writes", "atomic": "adds to"}
NOUNS = {"read": "read", "write": "write", "atomic": "atomic"}
PASSIVE = {"read": "read", "write": "written", "atomic": "changed"}


Safe = Mapping[tuple[int, str], int]


def clash_finding(
    clash: Clash,
    statements: Sequence[Statement],
    notes: Sequence[str] = (),
    *,
    phases: bool = True,
    safe: Safe | None = None,
) -> Finding:
    """The later access first: that is where it shows. `phases`: whether waves meet at the workgroup's barrier.

    `safe`: of waits and counters the largest counts with which nothing clashes that clashed.
    """
    return _Clash(clash, statements, phases, safe or {}).finding(notes)


def code_of(clash: Clash) -> str:
    if clash.why == "unfenced" and clash.first.touch.effect == "read":
        return PROXY_READ
    if clash.kind == "own":
        return "TG108" if clash.why == "lanes" else "TG105"
    return "TG104" if clash.kind == "inversion" else _hazard(clash)


def cause_of(clash: Clash, statements: Sequence[Statement]) -> str:
    """The same for clashes on one buffer that one wait, or one barrier between two phases, would end."""
    memory = (statements[clash.second.touch.where].memory, statements[clash.first.touch.where].memory)
    left = clash.left
    missing = (left.where, left.counter) if left is not None else (clash.first.phase, clash.second.phase)
    return f"{code_of(clash)} {clash.why} {memory} {missing}"


def _hazard(clash: Clash) -> str:
    if clash.first.touch.effect == "read":
        return "TG102"
    return "TG101" if clash.second.touch.effect == "read" else "TG103"


@dataclass(frozen=True, slots=True)
class _Clash:
    """A clash in words."""

    clash: Clash
    statements: Sequence[Statement]
    phases: bool
    safe: Safe

    def finding(self, notes: Sequence[str]) -> Finding:
        clash = self.clash
        code = code_of(clash)
        first, second = self.statement(clash.first), self.statement(clash.second)
        labels = (Label(second.at, self.label(clash.second)), Label(first.at, self.label(clash.first)))
        texts = "" if second.at.line else f"first `{first.text}`, then `{second.text}`"
        missing = f"hazard: {HAZARDS[_hazard(clash)]}, {self.missing()}"
        own = (missing, texts, self.left_in_flight(), self.not_counted(), self.elements())
        notes_ = tuple(filter(None, (*own, *notes)))
        cause = cause_of(clash, self.statements)
        return Finding(code, self.message(code), labels, notes_, self.help(code), self.witness(), cause)

    def witness(self) -> Facts:
        """The same for programs."""
        clash = self.clash
        return (
            ("hazard", {"TG101": "RAW", "TG102": "WAR", "TG103": "WAW"}[_hazard(clash)]),
            ("why", clash.why),
            ("bytes", clash.bytes),
            ("first", self.party(clash.first)),
            ("second", self.party(clash.second)),
            *((("wait", self.wait()),) if clash.left is not None else ()),
        )

    def wait(self) -> Facts:
        """The wait that let the first access go on."""
        left = self.clash.left
        assert left is not None
        statement = self.statements[left.where]
        return (
            ("statement", statement.text),
            ("line", statement.at.line),
            ("counter", left.counter),
            ("count", left.count),
            ("safe", self.most()),
        )

    def most(self) -> int | None:
        """The largest count that is safe at that wait, as far as this was run."""
        left = self.clash.left
        if left is None or left.safe is None:
            return None
        return min(left.safe, self.safe.get((left.where, left.counter), left.safe))

    def left_in_flight(self) -> str:
        """Who comes too early, and which wait could have held it up."""
        left, first, second = self.clash.left, self.clash.first, self.clash.second
        if left is None:
            return ""
        whose = "its" if first.wave == second.wave else f"wave {first.wave}'s"
        copy = f"{whose} {'store' if first.touch.effect == 'read' else 'copy'}"
        since = f" from {_iteration(first.touch)}" if first.touch.loops else ""
        verb = "may touch" if second.touch.may else VERBS[second.touch.effect]
        when = f"{_iteration(second.touch)} of " if second.touch.loops else ""
        most = self.most()
        safe = (
            "it is in no group yet"
            if most is None
            else f"at most {most} is safe here"
            if most
            else "only 0 is safe here"
        )
        wait = f"`{left.counter}({left.count})` in {self.place(left.where)}"
        return (
            f"{when}wave {second.wave} {verb} {self.what(second)} while {copy}{since} may be in flight: {wait}, {safe}"
        )

    def what(self, party: Party) -> str:
        """`slot 1`, or the memory."""
        slot = self.bytes(party).partition(" of ")[2]
        return slot if slot.startswith("slot ") else f"`{self.statement(party).memory.removeprefix('%') or 'it'}`"

    def not_counted(self) -> str:
        """Instructions on which a count seems to rely, and must not."""
        left = self.clash.left
        if left is None or left.doubtful < 0:
            return ""
        if self.statements[left.doubtful].at == self.statement(self.clash.first).at:
            return ""  # other accesses of the very operation that is in flight
        why = "they may be merged, deleted, skipped, or issued on another counter"
        return f"the instructions of {self.place(left.doubtful)} do not count: {why}"

    def elements(self) -> str:
        """Why the order of two atomics matters, where one would think that it does not."""
        one, other = self.clash.first.touch, self.clash.second.touch
        alike = one.effect == other.effect == "atomic" and one.operator == other.operator
        return why_apart(one, other) if alike and not (one.fetches or other.fetches) else ""

    def place(self, where: int) -> str:
        statement = self.statements[where]
        return f"line {statement.at.line}" if statement.at.line else f"`{statement.text}`"

    def party(self, party: Party) -> Facts:
        statement, touch = self.statement(party), party.touch
        return (
            ("wave", party.wave),
            ("effect", touch.effect),
            ("async", touch.is_async),
            ("phase", party.phase),
            ("iterations", tuple(touch.loops)),
            ("statement", statement.text),
            ("line", statement.at.line),
        )

    def statement(self, party: Party) -> Statement:
        return self.statements[party.touch.where]

    def label(self, party: Party) -> str:
        touch = party.touch
        verb = "may touch" if touch.may else VERBS[touch.effect]
        copy = " asynchronously" if touch.is_async else ""
        phase = f" in phase {party.phase}" if self.phases else ""
        loops = "".join(f", {name} = {value}" for name, value in touch.loops)
        return f"wave {party.wave} {verb} {self.bytes(party)}{copy}{phase}{loops}"

    def bytes(self, party: Party) -> str:
        """The bytes that clash, counted in the buffer that the statement names; for a view, in shared memory."""
        low, high = self.clash.bytes
        statement = self.statement(party)
        if statement.offset is None:
            return f"bytes {low}..{high} of shared memory"
        low, high = low - statement.offset, high - statement.offset
        slot = low // statement.slot_bytes if statement.slot_bytes else 0
        if statement.slots == 1 or high > (slot + 1) * statement.slot_bytes:
            return f"bytes {low}..{high}"
        low, high = low - slot * statement.slot_bytes, high - slot * statement.slot_bytes
        return f"bytes {low}..{high} of slot {slot}"

    def name(self, party: Party) -> str:
        """`the read in line 12`."""
        line = self.statement(party).at.line
        return f"the {NOUNS[party.touch.effect]}{f' in line {line}' if line else ''}"

    def message(self, code: str) -> str:
        clash = self.clash
        names = [self.statement(party).memory.removeprefix("%") for party in (clash.second, clash.first)]
        memory = next((f"`{name}`" for name in names if name), "shared memory")
        done = PASSIVE[clash.second.touch.effect]
        match code:
            case "TG101":
                return f"{memory} is read while another wave may still be writing it"
            case "TG102":
                return f"{memory} is written while another wave may still be reading it"
            case "TG103":
                return f"{memory} is written while another wave may still be writing it"
            case "TG104":
                return f"{memory} is always {done} too early: before an access of another wave that must come first"
            case "TG108":
                before = "reading" if clash.first.touch.effect == "read" else "writing"
                return f"{memory} is {done} while another lane of the same wave may still be {before} it"
        if code == PROXY_READ:
            return f"{memory} is {done} through the async proxy behind generic reads, without a fence"
        if clash.why == "unfenced":
            return f"{memory} is accessed through another proxy without a fence"
        still = "asynchronous access" if clash.first.touch.is_async else "access"
        return f"{memory} is {done} while an {still} of the same wave may still be in flight"

    def missing(self) -> str:
        """What is not there, in words."""
        first, second = self.clash.first, self.clash.second
        if self.clash.kind == "inversion":
            return (
                f"always in the wrong order: {self.name(second)} completes before wave {first.wave} reaches the other"
            )
        match self.clash.why:
            case "unmet" if self.clash.kind == "own":
                return f"nothing between them waits for {self.name(first)}"
            case "unmet":
                where = f": {self.name(first)} is in phase {first.phase}, {self.name(second)} in phase {second.phase}"
                return f"no barrier of both waves between them{where if self.phases else ''}"
            case "undrained":
                return (
                    f"the waves meet between them, but wave {first.wave} has not waited for {self.name(first)} by then"
                )
            case "unfenced":
                return "performed for generic accesses, but there is no `fence proxy_async` between them"
            case "varies":
                return "their order depends on which wave arrives first"
            case "lanes":
                return "nothing between them orders the lanes of the wave, and two lanes may share a byte"

    def help(self, code: str) -> str:
        clash = self.clash
        first, second = clash.first.touch, clash.second.touch
        if code == "TG104":
            return "extra arrivals delay a wave: insert a barrier before them or one more for each"
        if code == PROXY_READ:
            apart = clash.kind == "race"
            return fence_help(self.name(clash.first), self.name(clash.second), apart=apart)
        if clash.why == "unfenced":
            return f"insert `fence proxy_async` after {self.name(clash.first)}, before the barrier"
        if clash.why == "varies":
            return "insert a barrier of both waves between the two accesses"
        if clash.why == "lanes":
            return f"insert `fence wave` before {self.name(clash.second)}; any workgroup barrier also works"
        if clash.kind == "race" and first.where == second.where and first.key == second.key:
            return "give each wave its own bytes, or let a single wave do it"
        if first.reports is not None:
            return "the phase that the copy reports to must not complete before it: check `expect`, slot and parity"
        if clash.left is not None and (most := self.most()) is not None:
            return f"lower the count to `{clash.left.counter}({most})` in {self.place(clash.left.where)}"
        if first.is_async and (code == "TG105" or clash.why == "undrained"):
            place = f"before {self.name(clash.second)}" if code == "TG105" else "before the barrier where both meet"
            if any(queue.in_groups for queue in first.queues):
                return f"wait for the copy's group {place}; a copy is in a group only after `commit_group`"
            return f"insert a `wait_count` {place} whose count does not leave the copy in flight"
        if code == "TG105":
            return f"wait for {self.name(clash.first)}"
        if clash.why == "undrained":
            return f"make wave {clash.first.wave} wait before that barrier; `shared_memory_barrier` does both"
        return self.place_barrier()

    def place_barrier(self) -> str:
        first, second = self.clash.first.touch, self.clash.second.touch
        order = compare(first.key, second.key)
        if order == 0:
            return "insert a barrier of all waves between the two, in each arm or program, or use separate bytes"
        barrier = f"`shared_memory_barrier{' wait_async_ops' if first.is_async else ''}`"
        if first.where >= second.where:
            after, before = self.name(self.clash.first), self.name(self.clash.second)
            return f"insert {barrier} after {after}: {before} is in a later iteration"
        return f"insert {barrier} between the two"


def _iteration(touch: Touch) -> str:
    """`iteration 3`, or of several loops `iteration %i = 1, %k = 3`."""
    if len(touch.loops) == 1:
        return f"iteration {touch.loops[0][1]}"
    return f"iteration {', '.join(f'{name} = {value}' for name, value in touch.loops)}"
