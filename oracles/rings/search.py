"""Explicit search over all orders of the steps of a program with given sizes.

Needs   the steps of each wave (`model.expand`)
Gives   a `Verdict`: race, overrun, hang, phase (which generation a step belongs to depends on the order), or right,
        with the run that shows it; `unknown` where a bound stopped the search
Keeps   every maximal run is equivalent to one that is followed, see below
Cost    one run where nothing depends on the order; exponential in the steps that do

**State.** The next step of each wave, the copies in flight, for each object its completed generations, arrivals and
outstanding bytes, and what each wave and object *knows*: a set of steps, as a number of bits. Knowledge moves with
arrivals and completed copies into the current generation of the object, and out of its completed generations into a
wave whose wait passes. An access that meets an earlier conflicting access that its wave does not know of is a race.
For the async proxy, generic accesses count as known once a wave that knows of them has executed a fence.

**Why one step may be enough.** Two steps of different waves depend on each other only if they are at one object, and
swapping them changes the generation that one of them belongs to or whether a wait passes. A step alone is a persistent
set if the others, as long as this step is not done, cannot do a step that it depends on. `Frozen` asks what they can
do at most, with one wave or copy held still: every wait passes that could pass after any of the completions that are
then possible. No state repeats, since every step moves something forward, so by Godefroid's theorem a representative
of each maximal run is followed. In particular both generations are seen of a step that can be in two, and both orders
of two accesses.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from oracles.rings.model import (
    ARRIVE,
    AWAIT,
    COPY,
    DRAIN,
    FENCE,
    LEAVE,
    READ,
    SIGNAL,
    STORE,
    WAIT,
    WRITE,
    Program,
    Step,
    Steps,
    expand,
)

RIGHT, RACE, OVERRUN, HANG, PHASE, UNKNOWN = "right", "race", "overrun", "hang", "phase", "unknown"
LOCAL = (READ, WRITE, FENCE, COPY, STORE, DRAIN)
WRONG = (RACE, OVERRUN, HANG)


@dataclass(frozen=True, slots=True)
class Verdict:
    kind: str
    says: str = ""
    sizes: tuple[tuple[str, int], ...] = ()
    run: tuple[str, ...] = ()
    states: int = 0

    @property
    def is_wrong(self) -> bool:
        return self.kind in WRONG

    def __str__(self) -> str:
        sizes = ", ".join(f"{name} = {value}" for name, value in self.sizes)
        return f"{self.kind}{' at ' + sizes if sizes else ''}{': ' + self.says if self.says else ''}"


@dataclass(slots=True)
class Object:
    """Knowledge is a pair: of all steps, and of those that the async proxy knows as well."""

    done: int
    arrived: int
    bytes: int
    past: tuple[int, int]
    now: tuple[int, int]
    left: int = 0  # waves that it no longer counts

    def key(self) -> tuple[object, ...]:
        return (self.done, self.arrived, self.bytes, self.past, self.now, self.left)

    def copy(self) -> Object:
        return Object(self.done, self.arrived, self.bytes, self.past, self.now, self.left)


@dataclass(slots=True)
class State:
    at: list[int]
    flying: dict[int, tuple[int, int]]  # copies in flight: what their waves knew when they were issued
    objects: list[Object]
    known: list[tuple[int, int]]
    awaits: dict[tuple[int, int], int]  # of a wave at a named barrier: the generation that its next wait is for
    cells: dict[int, tuple[int, int]]  # of each cell, the reads and writes so far

    def key(self) -> tuple[object, ...]:
        # Cells follow from the places of the waves, except for copies, which count when they are issued.
        objects = tuple(each.key() for each in self.objects)
        return (
            tuple(self.at),
            tuple(sorted(self.flying)),
            objects,
            tuple(self.known),
            tuple(sorted(self.awaits.items())),
        )

    def copy(self) -> State:
        objects = [each.copy() for each in self.objects]
        return State(self.at[:], dict(self.flying), objects, self.known[:], dict(self.awaits), dict(self.cells))


class Found(Exception):
    def __init__(self, kind: str, says: str) -> None:
        super().__init__(says)
        self.kind, self.says = kind, says


def joined(one: tuple[int, int], other: tuple[int, int]) -> tuple[int, int]:
    return one[0] | other[0], one[1] | other[1]


class Frozen:
    """What all but one wave (or one copy in flight) can do at most while that one stands still."""

    def __init__(self, search: Search, state: State, wave: int, copy: int) -> None:
        self.steps, self.state = search.steps, state
        self.arrivals: dict[int, int] = {}
        self.expected: dict[int, int] = {}
        self.landing: dict[int, int] = {}
        self.passed: list[Step] = []  # waits that they may come to
        self.waves = [each for each in range(len(state.at)) if each != wave]
        self.reach = state.at[:]
        for number in state.flying:
            if number != copy:
                self.land(self.steps.all[number])
        waiting = True
        while waiting:
            moved = [self.advance(each) for each in self.waves]
            waiting = any(moved)

    def land(self, step: Step) -> None:
        self.landing[step.object] = self.landing.get(step.object, 0) + step.amount

    def completions(self, number: int) -> int:
        """How many generations may complete, at most."""
        it = self.state.objects[number]
        count = self.steps.counts[number] - it.left
        more = self.arrivals.get(number, 0) - (count - it.arrived)
        if more < 0 or it.bytes > self.landing.get(number, 0):
            return 0
        return 1 + more // max(count, 1)

    def advance(self, wave: int) -> bool:
        mine, start = self.steps.waves[wave], self.reach[wave]
        at = start
        while at < len(mine) and self.may_pass(mine[at]):
            step = mine[at]
            if step.kind in (ARRIVE, SIGNAL, LEAVE):  # to leave is to arrive, once and ever after
                self.arrivals[step.object] = self.arrivals.get(step.object, 0) + 1
                self.expected[step.object] = self.expected.get(step.object, 0) + step.amount
            elif step.kind == COPY:
                self.land(step)
            elif step.kind == WAIT:
                self.passed.append(step)
            at += 1
        self.reach[wave] = at
        return at > start

    def may_pass(self, step: Step) -> bool:
        if step.kind == WAIT:
            return self.state.objects[step.object].done % 2 != step.amount or self.completions(step.object) > 0
        if step.kind == AWAIT:
            # It may be for another generation by then, never for an earlier one.
            awaited = self.state.awaits.get((step.wave, step.object), 0)
            return self.state.objects[step.object].done > awaited or self.completions(step.object) > 0
        return True


class Search:
    def __init__(self, steps: Steps, most_states: int = 20_000, reduced: bool = True) -> None:
        self.steps, self.most_states, self.reduced = steps, most_states, reduced
        self.generations: dict[tuple[int, bool], int] = {}
        self.before: dict[tuple[int, int], tuple[int, int]] = {}
        self.unclear = ""
        self.unclear_run: list[tuple[bool, int]] = []
        self.states = 0
        self.generic = sum(1 << each.number for each in steps.all if each.kind in (READ, WRITE))
        # Of each wave, the steps that only a drain performs.
        late = (STORE,) if steps.arrivals_perform else (STORE, READ, WRITE)
        self.late = [[1 << each.number if each.kind in late else 0 for each in mine] for mine in steps.waves]
        # The accesses of one wave are in order among themselves, except for those of the async proxy.
        self.own = [sum(1 << each.number for each in mine) & self.generic for mine in steps.waves]

    # --- steps ---

    def start(self) -> State:
        waves = len(self.steps.waves)
        objects = [Object(0, 0, 0, (0, 0), (0, 0)) for _ in self.steps.counts]
        return State([0] * waves, {}, objects, [(0, 0)] * waves, {}, {})

    def is_enabled(self, state: State, step: Step) -> bool:
        if step.kind == WAIT:
            return state.objects[step.object].done % 2 != step.amount
        if step.kind == AWAIT:
            return state.objects[step.object].done > state.awaits.get((step.wave, step.object), 0)
        return True

    def note(self, step: Step, landing: bool, generation: int) -> None:
        """The generation of a step must be the same in all runs."""
        if self.generations.setdefault((step.number, landing), generation) != generation and not self.unclear:
            other = self.generations[step.number, landing]
            self.unclear = f"{step.says} is in generation {other} or {generation} of {self.steps.names[step.object]}"

    def take(self, state: State, step: Step) -> None:
        """Executes a step of a wave, in place."""
        wave = step.wave
        state.at[wave] += 1
        match step.kind:
            case 0 | 2:  # ARRIVE, SIGNAL
                it = state.objects[step.object]
                self.note(step, False, it.done)
                if step.kind == SIGNAL:
                    state.awaits[wave, step.object] = it.done
                it.now = joined(it.now, state.known[wave])
                it.bytes += step.amount
                it.arrived += 1
                if it.arrived > self.steps.counts[step.object]:
                    raise Found(OVERRUN, f"{step.says}: generation {it.done} has all of its arrivals")
                self.complete(step.object, it)
            case 10:  # LEAVE
                it = state.objects[step.object]
                it.now = joined(it.now, state.known[wave])
                it.left += 1
                self.complete(step.object, it)
            case 1 | 3:  # WAIT, AWAIT
                it = state.objects[step.object]
                if step.kind == WAIT:
                    self.note(step, False, it.done - 1)
                else:
                    generation = state.awaits.get((wave, step.object), 0)
                    self.note(step, False, generation)
                    state.awaits[wave, step.object] = generation + 1  # unless the wave arrives there again before
                state.known[wave] = joined(state.known[wave], it.past)
            case 8:  # STORE
                self.touch(state, step)
            case 9:  # DRAIN
                done = sum(self.late[wave][: state.at[wave]])
                state.known[wave] = joined(state.known[wave], (done, done))
            case 4:  # COPY
                self.touch(state, step)
                state.flying[step.number] = state.known[wave]
            case 5 | 6:  # READ, WRITE
                self.touch(state, step)
                if self.steps.arrivals_perform:
                    known, fenced = state.known[wave]
                    state.known[wave] = known | 1 << step.number, fenced
            case 7:  # FENCE
                known, _ = state.known[wave]
                state.known[wave] = known, known

    def land(self, state: State, number: int) -> None:
        """A copy in flight completes: it is performed, and reports its bytes."""
        step, it = self.steps.all[number], state.objects[self.steps.all[number].object]
        self.note(step, True, it.done)
        known, fenced = state.flying.pop(number)
        bit = 1 << number
        it.now = joined(it.now, (known | bit, fenced | bit))
        it.bytes -= step.amount
        self.complete(step.object, it)

    def complete(self, number: int, it: Object) -> None:
        if it.arrived and it.arrived == self.steps.counts[number] - it.left and it.bytes == 0:
            it.past = joined(it.past, it.now)
            it.now, it.arrived = (0, 0), 0
            it.done += 1

    def touch(self, state: State, step: Step) -> None:
        """Every earlier access that conflicts must be known, and be the same in all runs."""
        known, fenced = state.known[step.wave]
        writes = step.kind not in (READ, STORE)
        if step.kind in (COPY, STORE):  # what the generic proxy did must be fenced as well
            known &= fenced | ~self.generic
        else:
            known |= self.own[step.wave]
        bit = 1 << step.number
        for cell in step.cells:
            reads, written = state.cells.get(cell, (0, 0))
            against = (reads | written) if writes else written
            unknown = against & ~known
            if unknown:
                self.race(step, unknown, state.known[step.wave][0])
            if self.before.setdefault((step.number, cell), (reads if writes else 0, written)) != (
                reads if writes else 0,
                written,
            ):
                raise Found(RACE, f"{step.says}: other accesses come before or after it, depending on the order")
            state.cells[cell] = (reads, written | bit) if writes else (reads | bit, written)

    def race(self, step: Step, unknown: int, known: int) -> None:
        first = self.steps.all[(unknown & -unknown).bit_length() - 1]
        why = "no fence for the async proxy between" if known >> first.number & 1 else "nothing orders"
        pair = f"{self.of(first)}: {first.says} and {self.of(step)}: {step.says}"
        raise Found(RACE, f"{why} {pair}")

    def of(self, step: Step) -> str:
        return self.steps.of_role[step.wave]

    # --- which steps have to be tried ---

    def choices(self, state: State) -> list[tuple[bool, int]]:
        """Steps of waves (False, wave) and completions (True, copy): one, or all that are possible."""
        enabled: list[tuple[bool, int]] = []
        for wave, at in enumerate(state.at):
            if at < len(self.steps.waves[wave]):
                step = self.steps.waves[wave][at]
                if self.reduced and step.kind in LOCAL:
                    return [(False, wave)]
                if self.is_enabled(state, step):
                    if self.reduced and step.kind == AWAIT:
                        return [(False, wave)]
                    enabled.append((False, wave))
        enabled += [(True, number) for number in sorted(state.flying)]
        if self.reduced and len(enabled) > 1:
            for each in enabled:
                if self.is_alone(state, each):
                    return [each]
        return enabled

    def is_alone(self, state: State, choice: tuple[bool, int]) -> bool:
        """Whether nothing that the others can do before this step depends on it."""
        lands, number = choice
        step = self.steps.all[number] if lands else self.steps.waves[number][state.at[number]]
        frozen = Frozen(self, state, -1 if lands else number, number if lands else -1)
        if step.kind == WAIT:
            return frozen.completions(step.object) == 0
        it = state.objects[step.object]
        arrivals = it.arrived + frozen.arrivals.get(step.object, 0) + (not lands)
        missing = self.steps.counts[step.object] - it.left - arrivals
        if missing > 0:  # the generation stays incomplete: all before and behind this step belong to it
            return True
        awaited = it.bytes + frozen.expected.get(step.object, 0) + (0 if lands else step.amount)
        landing = frozen.landing.get(step.object, 0) + (step.amount if lands else 0)
        if missing < 0 or landing > awaited:
            return False
        # This step may complete the generation, and then waits that pass now would no longer.
        return not any(each.object == step.object and it.done % 2 != each.amount for each in frozen.passed)

    # --- the search ---

    def run(self) -> Verdict:
        seen: set[object] = set()
        path: list[tuple[bool, int]] = []
        stack: list[tuple[State, Iterator[tuple[bool, int]], int]] = []
        state: State | None = self.start()
        try:
            while state is not None or stack:
                if state is not None:
                    choices = self.forward(state, path)
                    key = state.key()
                    if key not in seen:
                        seen.add(key)
                        stack.append((state, iter(choices), len(path)))
                    state = None
                if self.states > self.most_states:
                    return self.verdict(UNKNOWN, f"more than {self.most_states} states", path)
                last, rest, depth = stack[-1]
                choice = next(rest, None)
                del path[depth:]
                if choice is None:
                    stack.pop()
                    continue
                state = last.copy()
                self.follow(state, choice, path)
        except Found as found:
            return self.verdict(found.kind, found.says, path)
        if self.unclear:
            return self.verdict(PHASE, self.unclear, self.unclear_run)
        return Verdict(RIGHT, "", (), (), self.states)

    def forward(self, state: State, path: list[tuple[bool, int]]) -> list[tuple[bool, int]]:
        """Follows the only step there is to try, until there are none or several."""
        while True:
            choices = self.choices(state)
            if not choices:
                self.end(state)
            if len(choices) != 1:
                return choices
            self.follow(state, choices[0], path)

    def follow(self, state: State, choice: tuple[bool, int], path: list[tuple[bool, int]]) -> None:
        lands, number = choice
        step = self.steps.all[number] if lands else self.steps.waves[number][state.at[number]]
        path.append((lands, step.number))
        self.states += 1
        if lands:
            self.land(state, number)
        else:
            self.take(state, step)
        if self.unclear and not self.unclear_run:
            self.unclear_run = path[:]

    def end(self, state: State) -> None:
        stuck = [mine[at] for mine, at in zip(self.steps.waves, state.at, strict=True) if at < len(mine)]
        if stuck:
            raise Found(HANG, "; ".join(f"{self.of(each)} waits for ever in {each.says}" for each in stuck))

    def verdict(self, kind: str, says: str, path: list[tuple[bool, int]]) -> Verdict:
        steps = ((lands, self.steps.all[number]) for lands, number in path)
        run = tuple(f"{self.of(step)}: {'done ' if lands else ''}{step.says}" for lands, step in steps)
        return Verdict(kind, says, (), run, self.states)


def search(program: Program, sizes: Mapping[str, int], most_states: int = 20_000, reduced: bool = True) -> Verdict:
    """The verdict for these sizes. Without the reduction every order of the steps is followed."""
    it = Search(expand(program, sizes), most_states, reduced).run()
    return Verdict(it.kind, it.says, tuple(sizes.items()), it.run, it.states)


def sizes_to_try(program: Program) -> list[dict[str, int]]:
    """Rounds up to 3S + 4, and 13: some mistakes first show at 13."""
    stages = program.stages
    most = max(3 * stages + 4, 13)
    least = 0 if program.given_by == "argument" else 1  # a size is at least 1
    if program.sizes == ("N",):
        return [{"N": each} for each in range(least, most + 1)]
    tiles, rounds = program.sizes
    pairs = sorted((t * n, t, n) for t in range(least, 6) for n in range(least, most + 1) if t * n <= most + stages)
    return [{tiles: t, rounds: n} for _, t, n in pairs]


def search_all(program: Program, most_states: int = 20_000) -> Verdict:
    """The first wrong verdict, else the first that is not `right`, else `right`."""
    other: Verdict | None = None
    states = 0
    for sizes in sizes_to_try(program):
        it = search(program, sizes, most_states)
        states += it.states
        if it.is_wrong:
            return it
        if it.kind != RIGHT:
            other = other or it
    return other or Verdict(RIGHT, "", (), (), states)
