"""Which counts of waits the registers of a wave need, and the order of its accesses to global memory.

Needs   a kernel's body, its target; whether all waves take the same way to every barrier
Gives   `Needs`: the largest count of a counter at a wait, `loosened` to be kept; `why_not` for kernels of which nothing
        is said
Keeps   on every path, whatever a wait made certain before something relied on it is certain there with the new counts.
        Relying are: an instruction that reads or writes a register which a load fills, or writes one that an access
        still reads; for accesses that read global memory, also stores, atomics, fences, the end, and a barrier behind
        which a store comes before the next one. Waits that complete a store, an atomic, a fence, or a load with a scope
        keep doing so. Counts of stores, exports, and of what is not listed are never changed
Cost    the first pass is linear in the text times what is in flight; a question follows what a wait lets go, until
        something else completes it

    global_load v1 …        in flight: v1 with 0 behind it
    ds_read v2 …
    global_load v3 …        v1 with 1 behind it, v3 with 0
    s_waitcnt vmcnt(0)      the line behind it uses v1: 1 is enough, if v3 is waited for before it is used
    v_add v4, v1, v2
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

from tidegate.graph.model import reached_from
from tidegate.hosts.amdgcn import model as a
from tidegate.hosts.amdgcn.flight import (
    FENCES,
    Flight,
    Queues,
    flight_of,
    is_atomic,
    is_global_store,
    registers_of,
    why_unknown,
    written_by,
)
from tidegate.hosts.amdgcn.held import find_successors
from tidegate.hosts.amdgcn.waits import waits_of
from tidegate.targets import Target

FAR = 64  # how many are behind something is not counted further
GONE = FAR + 1  # a count that waits for nothing
LOOSENED = ("vmcnt", "lgkmcnt", "loadcnt", "dscnt", "kmcnt", "asynccnt", "tensorcnt")
_ENDS = ("s_endpgm", "s_sendmsg", "s_trap", "s_sethalt")
_ARRIVES = ("s_barrier_signal", "s_barrier_leave")
TRANSLATES, UNREAD = 1, 2  # why an access may still read its registers: it is repeated, or has not begun
MOST_STEPS = 3_000_000

# What is in flight: the number of the instruction, with the fewest and the most of its stream behind it.
Interval = tuple[int, int]
State = dict[int, Interval]


@dataclass(frozen=True, slots=True)
class Reliance:
    """Why a count cannot be larger: `user` relies on what `source` does; both are places in the body."""

    source: int
    user: int
    what: str


@dataclass(frozen=True, slots=True)
class _Underway:
    """Something let go by a wait, on its way: how many are behind it, and why its sources may still be read."""

    low: int
    high: int
    reading: int = TRANSLATES | UNREAD

    def joined(self, other: _Underway) -> _Underway:
        return _Underway(min(self.low, other.low), max(self.high, other.high), self.reading | other.reading)


@dataclass
class Needs:
    body: tuple[a.AsmLine | a.Mark, ...]
    target: Target
    together: bool  # whether all waves come to the same barriers
    steps: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self.queues = Queues.of(self.target, self.body)
        lines = [each if isinstance(each, a.AsmLine) else None for each in self.body]
        self.flights = [None if each is None else flight_of(each, self.queues) for each in lines]
        self.registers = [frozenset[str]() if each is None else registers_of(each) for each in lines]
        self.written = [frozenset[str]() if each is None else written_by(each) for each in lines]
        self.counts: dict[int, dict[str, int]] = {}
        for place, item in enumerate(lines):
            if item is not None and item.name.startswith("s_wait") and (known := dict(waits_of(item))):
                self.counts[place] = known
        self.after = find_successors(self.body)
        self.before_wait: dict[int, State] = {}
        self.reasons: dict[tuple[int, str], Reliance] = {}
        if not self.why_not:
            self._spread()

    @cached_property
    def why_not(self) -> str:
        """Why no count of this kernel is changed."""
        marks = {item.name for item in self.body if isinstance(item, a.Mark)}
        for item in self.body:
            if isinstance(item, a.AsmLine):
                if why := why_unknown(item):
                    return why
                if item.name.startswith(("s_branch", "s_cbranch")):
                    to = item.operands[-1] if item.operands else None
                    if not isinstance(to, a.Symbol) or to.name not in marks:
                        return f"the jump of line {item.at.line} leads to no label"
        return ""

    # --- what may be in flight ------------------------------------------------------------------------------------

    def _spread(self) -> None:
        """What may be in flight before each wait, over all paths."""
        heads = self._heads()
        at: dict[int, State] = {0: {}}
        work = [0] if self.body else []
        while work:
            head = work.pop()
            state, place = dict(at[head]), head
            while True:
                if place in self.counts:
                    self._note(place, state)
                self._step(place, state)
                following = self.after[place]
                if len(following) == 1 and following[0] == place + 1 and place + 1 not in heads:
                    place += 1
                    continue
                for each in following:
                    if each not in at or _grew(at[each], state):
                        at[each] = _joined(at.get(each, {}), state)
                        work.append(each)
                break

    def _heads(self) -> set[int]:
        before: dict[int, int] = {}
        found = {0}
        for place, following in enumerate(self.after):
            for each in following:
                before[each] = before.get(each, 0) + 1
                if each != place + 1 or len(following) > 1:
                    found.add(each)
        return found | {each for each, count in before.items() if count > 1}

    def _note(self, place: int, state: State) -> None:
        self.before_wait[place] = _joined(self.before_wait.get(place, {}), state)

    def _step(self, place: int, state: State) -> None:
        self.steps += 1
        for counter, count in self.counts.get(place, {}).items():
            self._complete(state, counter, count)
        flight = self.flights[place]
        if flight is None:
            return
        for each, (low, high) in state.items():
            if self._is_behind(each, flight):
                state[each] = (min(low + flight.certain, FAR), min(high + 1, FAR))
        if flight.matters:
            state[place] = (0, state.get(place, (0, 0))[1])

    def _is_behind(self, place: int, newer: Flight) -> bool:
        """Whether a newer one of the same stream tells that this one is done sooner."""
        older = self.flights[place]
        return (
            older is not None and (older.counter, older.stream) == (newer.counter, newer.stream) and bool(newer.stream)
        )

    def _complete(self, state: State, counter: str, count: int) -> None:
        own = [each for each in state if self._counter(each) == counter]
        if count and any(self._is_unordered(each) for each in own):
            return  # a count above 0 says nothing then
        for each in own:
            low, high = state[each]
            if low >= count:
                del state[each]
            else:
                state[each] = (low, min(high, count - 1))

    def _counter(self, place: int) -> str:
        flight = self.flights[place]
        assert flight is not None
        return flight.counter

    def _is_unordered(self, place: int) -> bool:
        flight = self.flights[place]
        return flight is not None and not flight.stream

    # --- questions ------------------------------------------------------------------------------------------------

    def largest(self, wait: int, counter: str) -> int:
        """The largest count that keeps everything that relies on this wait; `GONE`: nothing does."""
        count = self.counts[wait][counter]
        if self.why_not or counter not in LOOSENED or self.steps > MOST_STEPS:
            return count
        own = self._own(wait, counter)
        if any(self._is_unordered(each) for each in own):
            return GONE if self.is_enough(wait, counter, GONE) else count
        largest = self.target.counters[counter].largest if counter in self.target.counters else count
        if self.is_enough(wait, counter, GONE):
            return GONE
        good, bad, step = count, largest + 1, 1
        while bad - good > 1:
            middle = min(good + step, largest) if bad > largest else (good + bad) // 2
            if self.is_enough(wait, counter, middle):
                good, step = middle, 2 * step
            else:
                bad = middle
        return good

    def _own(self, wait: int, counter: str) -> State:
        known = self.before_wait.get(wait, {})
        return {each: interval for each, interval in known.items() if self._counter(each) == counter}

    def is_enough(self, wait: int, counter: str, count: int) -> bool:
        return all(self._relies(wait, each, way, count) is None for each, way in self._let_go(wait, counter, count))

    def _let_go(self, wait: int, counter: str, count: int) -> Iterator[tuple[int, _Underway]]:
        """What the wait may complete with its count, and would not with another."""
        old = self.counts[wait][counter]
        for each, (low, high) in self._own(wait, counter).items():
            if high >= old and max(low, old) < count:
                yield each, _Underway(max(low, old), high)

    def _relies(self, wait: int, source: int, way: _Underway, count: int) -> Reliance | None:
        """Who relies on the completion of something that this wait lets go; None: nobody does, before it is completed
        elsewhere."""
        flight = self.flights[source]
        assert flight is not None
        counter = flight.counter
        if flight.kept:
            return self._because(wait, counter, Reliance(source, wait, "memory"))
        for place, now in self._ways(wait, source, way, {counter: count}):
            what = self._why(place, flight, now)
            if what:
                return self._because(wait, counter, Reliance(source, place, what))
        return None

    def _because(self, wait: int, counter: str, reason: Reliance) -> Reliance:
        return self.reasons.setdefault((wait, counter), reason)

    def _ways(self, wait: int, source: int, way: _Underway, instead: dict[str, int]) -> Iterator[tuple[int, _Underway]]:
        """Places to which something comes that is in flight behind a wait, until something completes it."""
        seen: dict[int, _Underway] = {}
        work = [(each, way) for each in self.after[wait]]
        while work:
            place, now = work.pop()
            known = seen.get(place)
            now = now if known is None else known.joined(now)
            if now == known:
                continue
            seen[place] = now
            self.steps += 1
            yield place, now
            behind = self._passed(place, source, now, instead if place == wait else {})
            if behind is not None:
                work += [(each, behind) for each in self.after[place]]

    def _passed(self, place: int, source: int, way: _Underway, instead: dict[str, int]) -> _Underway | None:
        """The same behind an instruction; None if it is completed there."""
        flight, item = self.flights[source], self.body[place]
        assert flight is not None
        low, high, reading = way.low, way.high, way.reading
        if place in self.counts:
            count = (self.counts[place] | instead).get(flight.counter, GONE)
            own = self._own(place, flight.counter)
            says = count == 0 or not (self._is_unordered(source) or any(map(self._is_unordered, own)))
            if says and low >= count:
                return None
            high = min(high, max(count - 1, 0)) if says else high
        if isinstance(item, a.AsmLine):
            reading &= ~_read_behind(item)
        newer = self.flights[place]
        if newer is not None and self._is_behind(source, newer):
            low, high = min(low + newer.certain, FAR), min(high + 1, FAR)
        return _Underway(low, max(low, high), reading)

    def _why(self, place: int, flight: Flight, way: _Underway) -> str:
        """Why this place relies on it; empty if it does not."""
        item = self.body[place]
        if not isinstance(item, a.AsmLine):
            return ""
        if not flight.fills.isdisjoint(self.registers[place]):
            return "uses"
        if way.reading and not flight.holds.isdisjoint(self.written[place]):
            return "overwrites"
        if item.name.startswith(_ENDS):
            return "ends"
        if not flight.stream and self.counts.get(place, {}).get(flight.counter):
            return "waits"  # a count above 0 says nothing beside it
        if flight.reads and (FENCES.match(item.name) or is_atomic(item) or is_global_store(item)):
            return "orders"
        return "orders" if flight.reads and place in self._publishing else ""

    @cached_property
    def _publishing(self) -> frozenset[int]:
        """Barriers behind which, before the next one, some wave may write to global memory."""
        return frozenset(each for each, item in enumerate(self.body) if _arrives(item) and self._writes_behind(each))

    def _writes_behind(self, barrier: int) -> bool:
        """Until the wave meets the others again: with two instructions for a barrier, at the second departure."""
        split = not _is_whole(self.body[barrier])
        work = [(each, 0) for each in self.after[barrier]]
        seen = set(work)
        while work:
            place, met = work.pop()
            item = self.body[place]
            if isinstance(item, a.AsmLine):
                if is_global_store(item):
                    return True
                met += _is_whole(item) or item.name == "s_barrier_wait"
            if self.together and met > split:
                continue
            following = {(each, min(met, 2)) for each in self.after[place]} - seen
            seen |= following
            work += following
        return False

    @cached_property
    def repeated(self) -> frozenset[int]:
        """Waits in loops."""
        return frozenset(each for each in self.counts if each in reached_from(set(self.after[each]), self.after))

    # --- changes --------------------------------------------------------------------------------------------------

    def loosen(self, wait: int, counter: str, count: int) -> None:
        """Takes another count for granted in all further questions."""
        gone = list(self._let_go(wait, counter, count))
        if count > FAR:
            del self.counts[wait][counter]
        instead = {counter: count}
        found: list[tuple[int, int, _Underway]] = []
        for source, way in gone:
            found += [(place, source, now) for place, now in self._ways(wait, source, way, instead)]
        if count <= FAR:
            self.counts[wait][counter] = count
        for place, source, now in found:
            if place in self.before_wait:
                self._note(place, {source: (now.low, now.high)})


def _read_behind(item: a.AsmLine) -> int:
    """Why no earlier access reads its registers any more: X_CNT and VM_VSRC at 0 (LLVM, SIInsertWaitcnts.cpp)."""
    text = " ".join(each.name for each in item.operands if isinstance(each, a.Symbol))
    if item.name == "s_wait_xcnt":
        return TRANSLATES if text in ("0", "0x0") else 0
    return UNREAD if item.name == "s_wait_alu" and "depctr_vm_vsrc(0)" in text else 0


def _arrives(item: a.AsmLine | a.Mark) -> bool:
    return isinstance(item, a.AsmLine) and (_is_whole(item) or item.name.startswith(_ARRIVES))


def _is_whole(item: a.AsmLine | a.Mark) -> bool:
    return isinstance(item, a.AsmLine) and item.name == "s_barrier"


def _joined(known: State, other: State) -> State:
    found = dict(known)
    for each, (low, high) in other.items():
        if each in found:
            low, high = min(low, found[each][0]), max(high, found[each][1])
        found[each] = (low, high)
    return found


def _grew(known: State, other: State) -> bool:
    return any(
        each not in known or low < known[each][0] or high > known[each][1] for each, (low, high) in other.items()
    )
