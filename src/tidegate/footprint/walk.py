"""What every name stands for at every node.

Needs   a flow
Gives   for every access its places and extents over canonical names, the conditions under which it is reached, and
        notes on what nobody can compute
Keeps   each node is visited once; a loop is solved when it is left, its names standing for themselves until then
Cost    near-linear: environments are shared, a join looks at what its arms changed, a loop at what is set in it

    assign %s = 0                          %s = 0
    loop 2:                                %s = @2.%s, which turns out to be #2 mod 3
      assign %s = (%s + 1) mod 3           %s = (@2.%s + 1) mod 3
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from tidegate.footprint.arithmetic import both, negate
from tidegate.footprint.environment import Environment, differences, levels_for
from tidegate.footprint.expressions import MOST_SIZE, Env, Expressions
from tidegate.footprint.model import ObjectUse
from tidegate.footprint.names import set_by
from tidegate.footprint.order import order_of
from tidegate.footprint.sequences import kept_range
from tidegate.footprint.values import Spot, Value, View, size_of
from tidegate.graph import model as g
from tidegate.graph.flow import Flow
from tidegate.index import INDEX_TYPES, TRUE, WAVE, ZERO, Cond, Const, Flag, Index, Name, names, show
from tidegate.language import ops

MOST_WAYS = 16  # edges into a join that are told apart


@dataclass(frozen=True, slots=True, eq=False)
class Facts:
    """What holds at a node: a condition, and all that held before it."""

    before: Facts | None
    cond: Cond
    depth: int


@dataclass(frozen=True, slots=True)
class Raw:
    """An access before the loops around it are solved. `limits` belong to its extents."""

    view: View
    limits: tuple[Index | None, ...]
    facts: Facts | None
    reason: str = ""  # why its places are not exact


class Walk(Expressions):
    """The state of one walk. Values of nodes are kept until the loops around them are solved."""

    def __init__(self, flow: Flow) -> None:
        super().__init__(flow)
        self.order = order_of(flow)
        self.params = {name for each in flow.graph.functions for name in each.params}
        # A name from outside that is set as well has its first value until then (test_believed).
        given: list[tuple[int, Value]] = [
            (key, Name(name)) for name, key in self.names.number.items() if name in self.outside
        ]
        nothing: Env = Environment(levels_for(len(self.names.number)))
        self.at_start = nothing.put(given)
        self.entered: dict[int, Env] = {}  # node → its environment, before it acts
        self.left: dict[int, Env] = {}  # and after
        self.facts: dict[int, Facts | None] = {}
        self.conds: dict[int, tuple[Cond, ...]] = {}  # branch or dispatch → when it goes to each successor
        self.started: dict[int, Env] = {}  # loop → the environment in which it is entered
        self.steering: list[set[str]] = [set() for _ in flow.loops]  # loop → names that decide where waves go in it
        self.parting: set[int] = set()  # branches on what differs between waves or lanes
        self.raw: dict[int, Raw] = {}
        self.uses: dict[int, ObjectUse] = {}  # of barrier objects
        self.starting = frozenset(flow.entries)
        self.heads: dict[str, tuple[int, int]] = {}  # @ name → loop, name
        self.exit_value: Callable[[str, Value, int, int], Value]  # set by the solver of loops

    # --- nodes ---

    def run(self) -> None:
        heads = {loop.head: number for number, loop in enumerate(self.flow.loops) if loop.reducible}
        for node in self.order.nodes:
            env, facts = self.arrive(node, heads.get(node, -1))
            if node in heads:
                env = self.begin(heads[node], env)
            self.entered[node], self.facts[node] = env, facts
            self.left[node] = self.act(node, env, facts)

    def arrive(self, node: int, loop: int) -> tuple[Env, Facts | None]:
        """The environment and the facts on all ways to a node, but for the ends of its own loop."""
        before = self.flow.before[node]
        if len(before) == 1 and loop < 0 and self.is_plain(before[0], node):
            return self.left[before[0]], self.facts[before[0]]
        inside = set(self.flow.loops[loop].latches) if loop >= 0 else ()
        ways = [each for each in dict.fromkeys(self.flow.before[node]) if each in self.left and each not in inside]
        envs = [self.along(before, node) for before in ways]
        facts = [self.facts_along(before, node) for before in ways]
        if node in self.flow.entries:
            ways.append(-1)
            envs.append(self.at_start)
            facts.append(self.program_facts(node))
        scope = self.flow.loops[loop].parent if loop >= 0 else self.flow.loop_of[node]
        if any(each not in self.left and each not in inside for each in self.flow.before[node]):
            # A way back into a loop with several entries: nobody has seen yet what holds on it.
            env = self.join(ways, envs, node, scope)
            unseen = sorted(self.set_on_the_way_to(node))
            return env.put([(key, self.no_value(node, self.names.given[key])) for key in unseen]), None
        return self.join(ways, envs, node, scope), _common(facts)

    def set_on_the_way_to(self, node: int) -> set[int]:
        """Names that may be set between the last node that every way passes and this one. What enters the loop at
        another entry may hold other values, though nothing in the loop sets them (test_believed_more)."""
        last = self.order.above.get(node, -1)
        found: set[str] = set()
        seen: set[int] = set()
        stack = [*self.flow.before[node]]
        while stack:
            each = stack.pop()
            if each in seen or each == last:
                continue
            seen.add(each)
            stack += self.flow.before[each]
            call = self.flow.calls[each] if isinstance(self.flow.action(each), g.Return) else -1
            for at in (each, call) if call >= 0 else (each,):
                found.update(self.names.free_running if at in self.flow.closed else set_by(self.flow.action(at), set()))
        return {self.names.number[name] for name in found}

    def is_plain(self, before: int, node: int) -> bool:
        """Whether an edge changes nothing: it is the only one there, and stays in its loop."""
        return (
            len(self.flow.successors[before]) == 1
            and self.flow.loop_of[before] == self.flow.loop_of[node]
            and before in self.left
            and node not in self.starting
            and not isinstance(self.flow.action(before), g.Return)
        )

    def along(self, before: int, node: int) -> Env:
        """What an edge does: it leaves loops, and comes back from functions."""
        env = self.left[before]
        if isinstance(self.flow.action(before), g.Return) and self.flow.calls[before] >= 0:
            call = self.flow.calls[before]
            action, old = self.flow.action(call), self.entered[call]
            assert isinstance(action, g.Call)
            keys = [self.names.number[name] for name, _ in action.args]
            env = env.put([(key, old.get(key)) for key in keys if old.get(key) is not None])
        loop = self.left_loop(before, node)
        return env if loop < 0 else self.leave(env, loop, before, node)

    def left_loop(self, before: int, node: int) -> int:
        """The outermost loop that an edge leaves, or -1."""
        chain = self.chains[self.flow.loop_of[node]]
        around = self.chains[self.flow.loop_of[before]]
        return next((loop for loop in around if loop not in chain), -1)

    def leave(self, env: Env, loop: int, before: int, node: int) -> Env:
        new: list[tuple[int, Value | None]] = []
        for key in sorted(self.names.set_in[loop]):
            name = self.names.given[key]
            home = self.names.home.get(name)
            value = env.get(key)
            is_read = home is not None and loop not in self.chains[home]
            if value is None or not (is_read or name in self.outside):
                new.append((key, None))  # nobody reads it from here on
            elif key in self.lost[loop]:
                new.append((key, self.no_value(node, name)))
            else:
                new.append((key, self.exit_value(name, value, before, loop)))
        return env.put(new)

    def no_value(self, node: int, name: str) -> Value:
        if name in self.names.views:
            return self.book.everything
        return self.book.opaque(node, name, "arrives", self.chains[self.flow.loop_of[node]], None)

    def begin(self, loop: int, env: Env) -> Env:
        """At a head, what is set in the loop stands for itself."""
        self.started[loop] = env
        new: list[tuple[int, Value]] = []
        for key in sorted(self.names.set_in[loop]):
            name = self.names.given[key]
            symbol = f"@{loop}.{name}"
            self.heads[symbol] = (loop, key)
            start = env.get(key)
            if isinstance(start, INDEX_TYPES):
                sizes = {buffer.slots for buffer in self.graph.buffers}
                size = kept_range(self.names.given_in[loop][key], name, sizes, self.math.bounds(start))
                if size:
                    self.book.ranges[symbol] = (0, size - 1)
            new.append((key, (Spot(TRUE, symbol, ZERO),) if name in self.names.views else Name(symbol)))
        return env.put(new)

    # --- joins ---

    def join(self, ways: Sequence[int], envs: list[Env], node: int, scope: int) -> Env:
        if not envs:
            return self.at_start
        new: list[tuple[int, Value]] = []
        for key in differences(envs) if len(envs) > 1 else ():
            values = [each.get(key) for each in envs]
            known = [(way, value) for way, value in zip(ways, values, strict=True) if value is not None]
            if key in self.lost[scope]:
                continue  # every node makes up its own
            name = self.names.given[key]
            # A parameter that nobody had set keeps what the callee was given, on this way or on that.
            is_sure = len(known) == len(values) or name not in self.params
            found = self.merge(known, node, scope) if is_sure else None
            new.append((key, found if found is not None else self.no_value(node, name)))
        return envs[0].put(new)

    def merge(self, known: list[tuple[int, Value]], node: int, scope: int) -> Value | None:
        """One value for several ways: a choice between them where a branch decides; None if nobody can tell."""
        first = known[0][1]
        if all(value is first or value == first for _, value in known):
            return first
        if len(known) > MOST_WAYS or any(way < 0 for way, _ in known):
            return None
        branch = self.order.common([way for way, _ in known])
        if branch not in self.conds or self.flow.loop_of[branch] not in (*self.chains[scope], -1):
            return None
        arms: dict[int, list[tuple[int, Value]]] = {}
        for way, value in known:
            arm = self.arm(branch, way, node)
            if arm < 0:
                return None
            arms.setdefault(arm, []).append((way, value))
        merged = {arm: self.merge(part, node, scope) for arm, part in arms.items() if len(part) < len(known)}
        if len(merged) < len(arms) or any(value is None for value in merged.values()):
            return None
        found: Value | None = None
        for arm in sorted(merged, reverse=True):
            part = merged[arm]
            assert part is not None
            found = part if found is None else self.choose(self.conds[branch][arm], part, found)
        return found

    def arm(self, branch: int, way: int, node: int) -> int:
        """Which successor of a branch leads to `way`, and no other one does."""
        following = self.flow.successors[branch]
        if way == branch:
            arms = [arm for arm, each in enumerate(following) if each == node]
        else:
            arms = [
                arm
                for arm, each in enumerate(following)
                if self.flow.before[each] == (branch,) and self.order.dominates(each, way)
            ]
        return arms[0] if len(arms) == 1 else -1

    def choose(self, cond: Cond, then: Value, otherwise: Value) -> Value:
        if isinstance(then, tuple) or isinstance(otherwise, tuple):
            if isinstance(then, tuple) and isinstance(otherwise, tuple):
                return self.book.either(cond, then, otherwise)
            return then if isinstance(then, tuple) else otherwise
        return self.math.select(cond, then, otherwise)

    # --- facts ---

    def facts_along(self, before: int, node: int) -> Facts | None:
        facts = self.facts[before]
        loop = self.left_loop(before, node)
        if loop >= 0:
            head = self.flow.loops[loop].head
            return _common([facts, self.facts.get(head)])
        arms = [arm for arm, each in enumerate(self.flow.successors[before]) if each == node]
        if before in self.conds and len(arms) == 1:
            return _more(facts, self.conds[before][arms[0]])
        return facts

    def program_facts(self, node: int) -> Facts | None:
        facts: Facts | None = None
        starting = [each for each, entry in zip(self.graph.programs, self.flow.entries, strict=True) if entry == node]
        if len(starting) == 1:
            facts = _more(facts, self.math.compare(">=", Name(WAVE), Const(starting[0].first)))
            facts = _more(facts, self.math.compare("<", Name(WAVE), Const(starting[0].last)))
        return facts

    # --- actions ---

    def act(self, node: int, env: Env, facts: Facts | None) -> Env:
        action = self.flow.action(node)
        match action:
            case g.Access(footprint=foot, mbarrier=told):
                if told is not None:
                    self.uses[node] = ObjectUse(told.base, self.value(told.slot, env, node))
                limits = tuple(
                    None if each.limit is None else self.value(each.limit, env, node) for each in foot.extents
                )
                self.raw[node] = Raw(self.place(foot.place, env, node), limits, facts)
            case g.Unknown(reaches):
                self.raw[node] = self.unknown(reaches, env, node, facts)
            case g.Sync(ops.MbarrierArrive(barrier=at)):
                self.uses[node] = ObjectUse(at.base.name, self.value(at.slot, env, node))
            case g.Sync(ops.MbarrierWait(barrier=at, parity=parity)):
                slot = self.value(at.slot, env, node)
                self.uses[node] = ObjectUse(at.base.name, slot, self.value(parity, env, node))
            case g.Assign(pairs):
                return env.put(self.assigned(pairs, env, node))
            case g.Havoc(given, agree):
                return env.put(self.forgotten(given, node, agree))
            case g.Branch(cond):
                self.branch(cond, env, node)
            case g.Dispatch(ranges):
                self.conds[node] = tuple(self.dispatched(ranges))
                self.steered(node, (WAVE,))
            case g.Call(_, args):
                if node not in self.flow.closed:
                    return env.put(self.assigned(args, env, node))
                self.raw[node] = Raw(self.book.everything, (), facts, "the effect of the call is unknown")
                return env.put(self.forgotten(sorted(self.names.free_running), node, False))
            case _:
                pass
        return env

    def unknown(self, reaches: tuple[str, ...], env: Env, node: int, facts: Facts | None) -> Raw:
        spots = [Spot(spot.cond, spot.buffer, None) for name in reaches for spot in self.place(g.Ref(name), env, node)]
        view = self.book.trim(spots) if reaches else self.book.everything
        return Raw(view, (), facts, "the effect of the operation is unknown")

    def assigned(
        self, pairs: Iterable[tuple[str, Index | g.Where | g.Token]], env: Env, node: int
    ) -> Iterator[tuple[int, Value]]:
        for name, value in pairs:
            if isinstance(value, g.Token):
                continue
            if isinstance(value, g.Ref | g.Either):
                yield self.names.number[name], self.place(value, env, node)
            else:
                yield self.names.number[name], self.value(value, env, node)

    def forgotten(self, given: Iterable[str], node: int, agree: bool) -> Iterator[tuple[int, Value]]:
        loops = self.chains[self.flow.loop_of[node]]
        for name in given:
            if name in self.names.views:
                yield self.names.number[name], self.book.everything
            else:
                new = self.book.opaque(node, name, "leaves", loops, () if agree else None, differs=not agree)
                yield self.names.number[name], new

    def branch(self, cond: Cond | None, env: Env, node: int) -> None:
        loops = self.chains[self.flow.loop_of[node]]
        if cond is None:
            on = () if self.is_agreed(node) else None
            if on is None:
                self.parting.add(node)
            found: Cond = Flag(self.book.opaque(node, "any", "branch", loops, on, (0, 1)).name)
        else:
            found = self.cond(cond, env, node)
            differs = self.book.is_differing(found)
            if differs or size_of(found, MOST_SIZE) > MOST_SIZE:
                found = Flag(self.book.opaque(node, show(cond), "branch", loops, names(found), (0, 1)).name)
            if differs:
                self.parting.add(node)
        self.conds[node] = (found, negate(found))
        self.steered(node, names(found))

    def is_agreed(self, node: int) -> bool:
        """Whether all waves that come to a free choice go the same way. Of waves or lanes that are apart nobody says
        that."""
        rank, under = g.VARIATIONS.index, self.flow.point(node).under
        follows = all(rank(self.flow.point(each).under) <= rank(under) for each in self.flow.successors[node])
        return follows and under == "uniform"

    def steered(self, node: int, by: Iterable[str]) -> None:
        found = set(by)
        for loop in self.chains[self.flow.loop_of[node]]:
            self.steering[loop] |= found

    def dispatched(self, ranges: tuple[tuple[int, int], ...]) -> Iterator[Cond]:
        rest: Cond = TRUE
        for first, last in ranges:
            low = self.math.compare(">=", Name(WAVE), Const(first))
            mine = both(low, self.math.compare("<", Name(WAVE), Const(last)))
            yield both(rest, mine)
            rest = both(rest, negate(mine))
        yield rest


def _more(facts: Facts | None, cond: Cond) -> Facts | None:
    return facts if cond == TRUE else Facts(facts, cond, facts.depth + 1 if facts else 1)


def _common(several: list[Facts | None]) -> Facts | None:
    """What holds on all ways."""
    if not several:
        return None
    found = several[0]
    for other in several[1:]:
        while found is not other:
            if found is None or other is None:
                return None
            if found.depth >= other.depth:
                found = found.before
            else:
                other = other.before
    return found
