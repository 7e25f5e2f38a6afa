"""Counts that do not wait for what stands beside them: facts on small kernels, and random ones against all their paths.

The brute force walks every path of a kernel, trip by trip, with a list of what is in flight, and knows nothing of
graphs. It reads the same statements that the text is made of.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from tidegate.diag import Finding
from tidegate.graph.build import build_graph
from tidegate.graph.flow import flow_of
from tidegate.graph.parse import parse_graph
from tidegate.graph.show import show_graph
from tidegate.language.parse import parse
from tidegate.passes import run_stages
from tidegate.session import Session
from tidegate.targets import Target, load_target
from tidegate.verify.stale import find_stale

# Wait, name, counter, copy → the count that stands there, and the largest that is safe; lines stand for statements.
Facts = dict[tuple[int, str, str, int], tuple[int | None, int | None]]

HEAD = """target {target}
kernel @k(%X: global<8x64xf32>, %Y: global<8x64xf32>) sizes(N = 4) waves 4 {{
  %a = alloc : lds<8x64xf32>
"""
COPY = "gather_to_lds %X[0, 0] to %a[0, 0] : tile<1x64xf32>"
TENSOR = "tensor_load_to_lds %X[0, 0] to %a[0, 0] : tile<1x64xf32>"
FIRST = 4  # the line after the head


def text_of(body: str, target: str) -> str:
    return HEAD.format(target=target) + body.replace("COPY", COPY).replace("TENSOR", TENSOR) + "\n}\n"


def facts(text: str) -> Facts:
    (kernel,) = parse(text).kernels
    target = load_target(kernel.target)
    graph = build_graph(kernel, target).graph
    line = [point.at.line for point in graph.points]
    return {
        (line[each.wait], each.name, each.counter, line[each.copy]): (each.count, each.safe)
        for each in find_stale(flow_of(graph), target)
    }


def stale(body: str, target: str = "gfx950") -> Facts:
    """What is found in a body; its lines count from 0."""
    return {
        (wait - FIRST, name, counter, copy - FIRST): found
        for (wait, name, counter, copy), found in facts(text_of(body, target)).items()
    }


def checked(body: str, target: str = "gfx950", *, prove: bool = True) -> list[Finding]:
    (kernel,) = parse(text_of(body, target), "k.tide").kernels
    unit = Session("k", load_target(target), kernel, None)
    found = run_stages(unit, print_after=None, stop_after=None, show=lambda *_: None, prove=prove).findings
    return [each for each in found if each.code == "TG107"]


# --- facts --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wait", ["wait_count vmcnt({n}) deps(%t)", "shared_memory_barrier vmcnt({n}) deps(%t)"])
def test_as_many_may_be_left_as_are_younger(wait: str) -> None:
    body = "%t = COPY\nCOPY\nCOPY\n" + wait
    assert stale(body.format(n=2)) == {}
    assert stale(body.format(n=3)) == {(3, "%t", "vmcnt", 0): (3, 2)}


def test_copies_on_the_counter_count_and_other_operations_do_not() -> None:
    body = "%t = COPY\n{}\nwait_count vmcnt(1) deps(%t)"
    assert stale(body.format("COPY")) == {}
    for other in ("global_read %X[0, 0]", "local_read %a[0, 0]"):
        assert stale(body.format(f"%v = {other} : tile<1x64xf32>")) == {(2, "%t", "vmcnt", 0): (1, 0)}


def test_without_counts_the_names_are_waited_for_and_without_names_nothing_is_promised() -> None:
    assert stale("%t = COPY\nwait_count deps(%t)") == {}
    assert stale("%t = COPY\nwait_count vmcnt(5)") == {}


def test_all_copies_are_never_stale() -> None:
    assert stale("%t = COPY\nshared_memory_barrier vmcnt(5) wait_async_ops deps(%t)") == {}


def test_another_counter_does_not_help() -> None:
    body = "%t = TENSOR\nCOPY\nwait_count asynccnt(0) deps(%t)"
    assert stale(body, "gfx1250") == {(2, "%t", "tensorcnt", 0): (None, 0)}
    assert stale(body.replace("asynccnt(0)", "asynccnt(0) tensorcnt(0)"), "gfx1250") == {}
    assert stale(body.replace("asynccnt(0)", "tensorcnt(1)"), "gfx1250") == {(2, "%t", "tensorcnt", 0): (1, 0)}


def test_a_token_carried_round_a_loop_is_the_copy_of_the_iteration_before() -> None:
    body = """%none = null_async_dep
%last = iterate %k in 0 .. N carry(%old = %none : dep) {{
wait_count vmcnt({n}) deps(%old)
%t = COPY
COPY
yield %t
}}
wait_count vmcnt({m}) deps(%last)"""
    assert stale(body.format(n=1, m=1)) == {}
    assert stale(body.format(n=2, m=1)) == {(2, "%old", "vmcnt", 3): (2, 1)}
    assert stale(body.format(n=1, m=3)) == {(7, "%last", "vmcnt", 3): (3, 1)}


def test_two_iterations_back() -> None:
    body = """%none = null_async_dep
%x, %y = iterate %k in 0 .. N carry(%older = %none : dep, %old = %none : dep) {{
%t = COPY
wait_count vmcnt({n}) deps(%older)
yield %old, %t
}}"""
    assert stale(body.format(n=2)) == {}
    assert stale(body.format(n=3)) == {(3, "%older", "vmcnt", 2): (3, 2)}


def test_the_path_that_brings_no_copy_asks_for_nothing() -> None:
    body = """%none = null_async_dep
%w = conditional N mod 2 == 0 : dep {{
%t = COPY
COPY
yield %t
}} else {{
{other}
}}
wait_count vmcnt({n}) deps(%w)"""
    assert stale(body.format(n=1, other="yield %none")) == {}
    assert stale(body.format(n=2, other="yield %none")) == {(8, "%w", "vmcnt", 2): (2, 1)}
    assert stale(body.format(n=1, other="%s = COPY\nyield %s")) == {(9, "%w", "vmcnt", 6): (1, 0)}


def test_trips_that_are_certain_count() -> None:
    body = "%t = COPY\niterate %k in 0 .. {upper} {{\nCOPY\n}}\nwait_count vmcnt({n}) deps(%t)"
    assert stale(body.format(upper=3, n=3)) == {}
    assert stale(body.format(upper=3, n=4)) == {(4, "%t", "vmcnt", 0): (4, 3)}
    assert stale(body.format(upper="N", n=1)) == {}
    assert stale(body.format(upper="N", n=2)) == {(4, "%t", "vmcnt", 0): (2, 1)}
    assert stale(body.format(upper="N - 1", n=1)) == {(4, "%t", "vmcnt", 0): (1, 0)}
    assert stale(body.format(upper=0, n=1)) == {(4, "%t", "vmcnt", 0): (1, 0)}


def test_trips_are_told_apart_as_far_as_states_go() -> None:
    body = "%t = COPY\niterate %k in 0 .. 40 {{\nCOPY\n}}\nwait_count vmcnt({n}) deps(%t)"
    assert stale(body.format(n=40)) == {}
    assert stale(body.format(n=41)) == {(4, "%t", "vmcnt", 0): (41, 40)}
    deep = "%t = COPY\n" + "".join(f"iterate %k{n} in 0 .. 40 {{{{\n" for n in range(4))
    deep += "COPY\n" + "}}\n" * 4 + "wait_count vmcnt({n}) deps(%t)"
    assert stale(deep.format(n=1)) == {(10, "%t", "vmcnt", 0): (1, 0)}  # too many states: trips are not told apart


def test_what_has_been_seen_complete_asks_for_nothing() -> None:
    body = "%t = COPY\nwait_count {first}\nwait_count vmcnt(3) deps(%t)"
    for first in ("vmcnt(0)", "deps(%t)", "vmcnt(0) deps(%t)"):
        assert stale(body.format(first=first)) == {}
    assert stale(body.format(first="vmcnt(1)")) == {(2, "%t", "vmcnt", 0): (3, 0)}
    assert stale(body.format(first="lgkmcnt(0)")) == {(2, "%t", "vmcnt", 0): (3, 0)}
    again = "%t = COPY\nCOPY\nshared_memory_barrier wait_async_ops\nwait_count vmcnt(5) deps(%t)"
    assert stale(again) == {}


def test_groups_count_and_the_copy_must_be_in_one() -> None:
    body = "%t = COPY\ncommit_group\nCOPY\n{more}\nwait_count group({n}) deps(%t)"
    assert stale(body.format(more="commit_group", n=1), "sm_80") == {}
    assert stale(body.format(more="", n=1), "sm_80") == {(4, "%t", "group", 0): (1, 0)}
    assert stale("%t = COPY\nwait_count group(0) deps(%t)", "sm_80") == {(1, "%t", "group", 0): (0, None)}
    assert stale("COPY\n%g = commit_group\ncommit_group\nwait_count group(1) deps(%g)", "sm_80") == {}
    named = stale("COPY\n%g = commit_group\nwait_count group(1) deps(%g)", "sm_80")
    assert named == {(2, "%g", "group", 1): (1, 0)}


def test_where_operations_complete_out_of_turn_only_0_is_safe() -> None:
    graph = parse_graph("""graph @k target gfx950 waves 2
buffer %a bytes 64 slots 1
program entry 0 waves 0 .. 2
{
  0: write %a[0, 0] box() width 4 async token %t issues vmcnt 1 .. 1 -> 1
  1: compute issues vmcnt 1 .. 1 unordered -> 2
  2: compute issues vmcnt 1 .. 1 -> 3
  3: sync wait_count vmcnt(1) deps(%t) -> 4
  4: end
}
""")
    (found,) = find_stale(flow_of(graph), load_target("gfx950"))
    assert (found.wait, found.copy, found.count, found.safe) == (3, 0, 1, 0)
    assert not find_stale(flow_of(parse_graph(show_graph(graph).replace(" unordered", ""))), load_target("gfx950"))


def test_no_more_is_safe_than_the_counter_can_tell() -> None:
    copies = "\n".join(["COPY"] * 70)
    body = "%t = COPY\n" + copies + "\nwait_count vmcnt({n}) deps(%t)"
    assert stale(body.format(n=62)) == {}
    assert stale(body.format(n=63)) == {(71, "%t", "vmcnt", 0): (63, 62)}


# --- findings -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("prove", [True, False])
def test_a_stale_count_is_an_error_with_both_places(prove: bool) -> None:
    (finding,) = checked("%t = COPY\nCOPY\nCOPY\nwait_count vmcnt(3) deps(%t)", prove=prove)
    assert finding.message == "`vmcnt(3)` does not wait for `%t`: at most 2 is safe"
    assert finding.severity == "error"
    assert [label.at.line - FIRST for label in finding.labels] == [3, 0]
    assert "--tighten-waits" in finding.help
    assert dict(finding.witness) == {"name": "%t", "counter": "vmcnt", "count": 3, "safe": 2}


def test_the_other_forms() -> None:
    (other,) = checked("%t = TENSOR\nwait_count asynccnt(0) deps(%t)", "gfx1250")
    assert other.message == "nothing here waits for `%t`: no count of `tensorcnt`"
    assert other.notes == ("`tensorcnt`: only 0 is safe",)
    (loose,) = checked("%t = COPY\nwait_count group(0) deps(%t)", "sm_80")
    assert loose.message == "no count waits for `%t` here: the copy is not in a group yet"
    assert "commit_group" in loose.help


def test_one_finding_for_all_copies_that_a_name_may_stand_for() -> None:
    body = """%w = conditional N mod 2 == 0 : dep {
%t = COPY
COPY
yield %t
} else {
%s = COPY
yield %s
}
wait_count vmcnt(4) deps(%w)"""
    (finding,) = checked(body)
    assert finding.message == "`vmcnt(4)` does not wait for `%w`: only 0 is safe"
    assert [label.at.line - FIRST for label in finding.labels] == [8, 1, 5]


AHEAD = """%none = null_async_dep
%t0 = COPY
%x, %y = iterate %k in 0 .. N carry(%older = %none : dep, %old = %t0 : dep) {
%new = conditional %k + 1 < N : dep {
%t = COPY
yield %t
} else {
yield %none
}
conditional %k + 1 < N {
wait_count vmcnt({n}) deps(%old)
} else {
wait_count vmcnt(0) deps(%old)
}
yield %old, %new
}"""


def test_conditions_that_hold_together_are_seen_in_runs() -> None:
    """A copy is only left in flight in iterations that issue a newer one; paths alone do not tell."""
    assert stale(AHEAD.replace("{n}", "1"))
    assert checked(AHEAD.replace("{n}", "1")) == []
    (finding,) = checked(AHEAD.replace("{n}", "2"))
    assert finding.message.startswith("`vmcnt(2)` does not wait for `%old`")


# --- random kernels -----------------------------------------------------------------------------------------------

COUNTERS = {"gfx950": ("vmcnt",), "gfx1250": ("asynccnt", "tensorcnt"), "sm_80": ("group",)}
MOST_PATHS = 3_000


@dataclass
class Op:
    """A statement: its kind, the line of its text, and what it says."""

    kind: str
    line: int = 0
    name: str = ""
    counts: dict[str, int] = field(default_factory=dict)
    names: tuple[str, ...] = ()
    arms: tuple[list[Op], ...] = ()
    carried: tuple[tuple[str, str], ...] = ()  # name inside, first value
    yields: tuple[tuple[str, ...], ...] = ()  # of each arm
    results: tuple[str, ...] = ()
    trips: int | None = None


class Maker:
    """A random kernel: its statements, and its text."""

    def __init__(self, rng: random.Random, target: str) -> None:
        self.rng, self.target = rng, target
        self.number = 0
        self.lines: list[str] = []
        self.left = rng.choice((6, 8, 10))
        self.ops = [self.add(Op("null", name=self.fresh("n")), "{} = null_async_dep")]
        self.ops += self.block([self.ops[0].name], 0)
        self.ops.append(self.wait(self.names_after))

    def fresh(self, hint: str) -> str:
        self.number += 1
        return f"%{hint}{self.number}"

    def add(self, op: Op, text: str) -> Op:
        op.line = FIRST + len(self.lines)
        self.lines.append(text.replace("{}", op.name))
        return op

    def block(self, names: list[str], depth: int) -> list[Op]:
        names, ops = list(names), []
        for _ in range(self.rng.choice((2, 3, 4)) if depth else self.left):
            self.left -= 1
            ops.append(self.statement(names, depth))
            names += [ops[-1].name] if ops[-1].name else []
            names += ops[-1].results
        self.names_after = names
        return ops

    def statement(self, names: list[str], depth: int) -> Op:
        kind = self.rng.random()
        if kind < 0.15 and depth < 2 and self.left > 0:
            return self.conditional(names, depth)
        if kind < 0.32 and depth < 2 and self.left > 0:
            return self.loop(names, depth)
        if kind < 0.62:
            return self.copy()
        if kind < 0.7 and self.target == "sm_80":
            return self.add(Op("commit", name=self.fresh("g")), "{} = commit_group")
        if kind < 0.7:
            return self.add(Op("read", name=""), f"{self.fresh('v')} = global_read %X[0, 0] : tile<1x64xf32>")
        return self.wait(names)

    def copy(self) -> Op:
        rows = self.rng.choice((1, 1, 8)) if self.target == "gfx950" else 1
        if self.target == "gfx1250" and self.rng.random() < 0.4:
            return self.add(Op("tensor", name=self.fresh("t")), "{} = " + TENSOR)
        op = Op(f"copy{rows}", name=self.fresh("t"))
        copy = self.add(op, "{} = " + COPY.replace("tile<1x", f"tile<{rows}x"))
        if self.target == "sm_80" and self.rng.random() < 0.6:
            self.lines[-1] += " commit_group"
            op.kind = "copy and commit"
        return copy

    def wait(self, names: list[str]) -> Op:
        counts = {name: self.rng.choice((0, 1, 1, 2, 3)) for name in COUNTERS[self.target] if self.rng.random() < 0.85}
        deps = tuple(self.rng.sample(names, min(len(names), self.rng.choice((0, 1, 1, 2)))))
        kind = self.rng.choice(("wait_count", "wait_count", "wait_count", "shared_memory_barrier"))
        if kind == "wait_count" and not counts and not deps:
            counts = {COUNTERS[self.target][0]: 1}
        every = kind == "shared_memory_barrier" and self.rng.random() < 0.15
        words = [kind, *(f"{name}({count})" for name, count in sorted(counts.items()))]
        words += ["wait_async_ops"] * every + [f"deps({', '.join(deps)})"] * bool(deps)
        return self.add(Op("every" if every else "wait", counts=counts, names=deps), " ".join(words))

    def conditional(self, names: list[str], depth: int) -> Op:
        op = Op("conditional", results=(self.fresh("c"),))
        self.add(op, f"{op.results[0]} = conditional N mod 2 == 0 : dep {{")
        arms, yields = [], []
        for number in range(2):
            arms.append(self.block(names, depth + 1))
            yields.append((self.rng.choice(self.names_after[-4:]),))
            self.lines += [f"yield {yields[-1][0]}", "} else {" if number == 0 else "}"]
        op.arms, op.yields = tuple(arms), tuple(yields)
        return op

    def loop(self, names: list[str], depth: int) -> Op:
        carried = tuple((self.fresh("o"), self.rng.choice(names)) for _ in range(self.rng.choice((1, 1, 2))))
        trips = self.rng.choice((None, None, 0, 1, 2, 3))
        op = Op("loop", carried=carried, results=tuple(self.fresh("r") for _ in carried), trips=trips)
        said = ", ".join(f"{name} = {first} : dep" for name, first in carried)
        upper = "N" if trips is None else str(trips)
        self.add(op, f"{', '.join(op.results)} = iterate {self.fresh('k')} in 0 .. {upper} carry({said}) {{")
        body = self.block([*names, *(name for name, _ in carried)], depth + 1)
        after = tuple(self.rng.choice(self.names_after[-4:]) for _ in carried)
        self.lines += [f"yield {', '.join(after)}", "}"]
        op.arms, op.yields = (body,), (after,)
        return op

    @property
    def text(self) -> str:
        return HEAD.format(target=self.target) + "\n".join(self.lines) + "\n}\n"


class TooMany(Exception):
    pass


Copy = tuple[int, int]  # number of its issue, and line


@dataclass
class Walk:
    """One path: decisions as they are listed, then the first of each."""

    target: Target
    decisions: list[int]
    seen: Facts
    waits: Counter[str]
    taken: list[int] = field(default_factory=list)  # of how many, at each decision
    issued: dict[str, list[Copy]] = field(default_factory=dict)  # on a counter, oldest first; or its groups' ends
    flight: dict[Copy, str] = field(default_factory=dict)  # copies in flight, and their counters
    open: list[Copy] = field(default_factory=list)
    group_of: dict[Copy, int] = field(default_factory=dict)
    groups: int = 0
    number: int = 0

    def choose(self, among: int) -> int:
        place = len(self.taken)
        self.taken.append(among)
        return self.decisions[place] if place < len(self.decisions) else 0

    def run(self, ops: list[Op], names: dict[str, frozenset[Copy]]) -> dict[str, frozenset[Copy]]:
        for op in ops:
            match op.kind:
                case "null":
                    names = {**names, op.name: frozenset()}
                case "conditional":
                    arm = self.choose(2)
                    inside = self.run(op.arms[arm], names)
                    names = {**names, op.results[0]: inside[op.yields[arm][0]]}
                case "loop":
                    names = self.loop(op, names)
                case "wait" | "every":
                    self.wait(op, names)
                case "commit":
                    names = {**names, op.name: frozenset(self.commit(op.line))}
                case "read":
                    pass  # a compiler may delete it or make it a scalar load: nothing may rely on it
                case _:
                    kind = "tensor_load_to_lds" if op.kind == "tensor" else "gather_to_lds"
                    copy = self.issue(kind, 256 * (8 if op.kind == "copy8" else 1), op.line, is_copy=True)
                    names = {**names, op.name: frozenset((copy,))}
                    if op.kind == "copy and commit":
                        self.commit(op.line)
        return names

    def loop(self, op: Op, names: dict[str, frozenset[Copy]]) -> dict[str, frozenset[Copy]]:
        trips = op.trips if op.trips is not None else 1 + self.choose(4)
        values = [names[first] for _, first in op.carried]
        for _ in range(trips):
            inside = {**names, **{name: value for (name, _), value in zip(op.carried, values, strict=True)}}
            after = self.run(op.arms[0], inside)
            values = [after[name] for name in op.yields[0]]
        return {**names, **dict(zip(op.results, values, strict=True))}

    def issue(self, kind: str, size: int, line: int, *, is_copy: bool = False) -> Copy:
        self.number += 1
        copy, counter = (self.number, line), self.target.counter_of(kind)
        least, _ = self.target.instructions(kind, size)
        if self.target.counters and counter:
            self.issued.setdefault(counter, []).extend([copy] * least)
        if is_copy:
            self.flight[copy] = counter
            self.open.append(copy)
        return copy

    def commit(self, line: int) -> list[Copy]:
        """The copies in the group; by its name, a group is one thing, and the line that closes it."""
        for copy in self.open:
            self.group_of[copy] = self.groups
        self.number += 1
        whole = (self.number, line)
        self.group_of[whole] = self.groups
        self.flight[whole] = "group"
        self.open = []
        self.groups += 1
        return [whole]

    def younger(self, copy: Copy) -> int | None:
        """Instructions or groups that come after it; None in no group."""
        counter = self.flight[copy]
        if self.target.counters[counter].unit == "groups":
            return self.groups - self.group_of[copy] - 1 if copy in self.group_of else None
        return sum(each > copy for each in self.issued[counter])

    def wait(self, op: Op, names: dict[str, frozenset[Copy]]) -> None:
        if op.kind == "every":
            self.flight.clear()
            return
        if op.counts and op.names:
            for name in op.names:
                for copy in sorted(names[name] & set(self.flight)):
                    self.note(op, name, copy)
        for copy in list(self.flight):
            younger, count = self.younger(copy), op.counts.get(self.flight[copy])
            if younger is not None and count is not None and count <= younger:
                del self.flight[copy]
        for name in () if op.counts else op.names:
            for copy in names[name]:
                self.flight.pop(copy, None)

    def note(self, op: Op, name: str, copy: Copy) -> None:
        key = (op.line, name, self.flight[copy], copy[1])
        younger, count = self.younger(copy), op.counts.get(self.flight[copy])
        known = self.seen.get(key)
        least = min((-1 if each is None else each) for each in (younger, *([known[1]] if known else [])))
        self.seen[key] = (count, None if least < 0 else least)
        self.waits["in time" if count is not None and younger is not None and count <= younger else "late"] += 1


def brute(maker: Maker) -> tuple[Facts, Counter[str]]:
    """Every path, one after the other."""
    seen: Facts = {}
    waits: Counter[str] = Counter()
    decisions: list[int] = []
    for number in itertools.count():
        if number >= MOST_PATHS:
            raise TooMany
        walk = Walk(load_target(maker.target), decisions, seen, waits)
        walk.run(maker.ops, {})
        decisions = [*decisions, *[0] * (len(walk.taken) - len(decisions))][: len(walk.taken)]
        while decisions and decisions[-1] + 1 >= walk.taken[len(decisions) - 1]:
            decisions.pop()
        if not decisions:
            break
        decisions[-1] += 1
    late = {key: (count, safe) for key, (count, safe) in seen.items() if safe is None or count is None or count > safe}
    return late, waits


def programs(target: str, wanted: int) -> Iterator[tuple[Maker, Facts, Counter[str]]]:
    """Programs of which all paths can be walked."""
    for seed in itertools.count():
        maker = Maker(random.Random(f"{target} {seed}"), target)
        try:
            found, waits = brute(maker)
        except TooMany:
            continue
        yield maker, found, waits
        wanted -= 1
        if not wanted:
            return


@pytest.mark.parametrize("target", ["gfx950", "gfx1250", "sm_80"])
def test_random_kernels_against_all_their_paths(target: str) -> None:
    """Equal, but for waits without counts: what they complete beside their own names is not followed."""
    seen: Counter[str] = Counter()
    for maker, expected, waits in programs(target, 80):
        found = facts(maker.text)
        if by_name_alone(maker.ops):
            assert expected.keys() <= found.keys(), maker.text
            seen["by name"] += 1
        else:
            assert found == expected, maker.text
            seen["exact"] += 1
        seen["stale"] += bool(expected)
        seen["clean"] += not expected
        seen += waits
    assert seen["exact"] >= 40
    assert min(seen["stale"], seen["clean"]) >= 10
    assert min(seen["in time"], seen["late"]) >= 20


def by_name_alone(ops: list[Op]) -> bool:
    return any(
        (op.kind == "wait" and bool(op.names) and not op.counts) or any(by_name_alone(arm) for arm in op.arms)
        for op in ops
    )
