"""Moments of a program, as points that isl can compare.

Needs   loops around nodes, and an order of the nodes in which each comes after all that lead to it
Gives   sets and maps over `[role, place, iteration, place, iteration, ..., place, end]`, conditions among them
Keeps   program order of one role is the lexicographic order of its moments; what is no affine function of iterations is
        a parameter if it is the same in all iterations, and `None` otherwise
Cost    isl reads each condition once

    `local_read` in loop 2, the 7th node, in its fourth iteration, by role 1:   [1, 2, 3, 7, 0]

A wait begins at `end` = 0 and ends at 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import islpy as isl

from tidegate.footprint.model import Footprints
from tidegate.graph.flow import Flow
from tidegate.graph.model import reached_from
from tidegate.index import (
    LANE,
    WAVE,
    Binary,
    Compare,
    Cond,
    Flag,
    Index,
    Inexact,
    Logic,
    Name,
    Not,
    Select,
    Truth,
    names,
    why_not_affine,
)
from tidegate.language.points import IslText
from tidegate.verify.isl_questions import Questions
from tidegate.verify.paths import Paths
from tidegate.verify.phase_counting import Counting
from tidegate.verify.phase_model import Instant, Outside, Role

MAX_OPERATIONS = 30_000_000  # of isl, for one program: some seconds
CONDS = Truth | Flag | Compare | Not | Logic
NO_NAMES: Mapping[str, str] = {}


@cache
def context() -> Any:
    return isl.Context()


@dataclass
class Space:
    """Moments of one program. `params` are what isl calls them, by the names or expressions that they stand for.

    `counting`: how rounds are counted over tiles, if they are.
    """

    flow: Flow
    footprints: Footprints
    paths: Paths
    questions: Questions
    rank: Sequence[int]
    depth: int
    counting: Counting | None = None
    params: dict[Index | str, str] = field(default_factory=dict)

    # --- names ---

    def param(self, what: Index | str) -> str:
        return self.params.setdefault(what, f"q{len(self.params)}")

    @property
    def head(self) -> str:
        """What declares the parameters, for isl."""
        return f"[{', '.join(self.params.values())}] -> "

    def is_fixed(self, name: str) -> bool:
        """Whether a name has one value for the whole run, and for all waves."""
        if name in (WAVE, LANE) or name.startswith("#"):
            return False
        opaque = self.footprints.opaques.get(name)
        return opaque is None or (opaque.agree and not opaque.differs and not opaque.loops and opaque.when != "branch")

    def affine(self, expr: Index | Cond) -> Any:
        """The same, with a parameter for each part that is not affine; None where one of these varies."""
        if self.counting is not None and any(name in self.counting.values for name in names(expr)):
            put: Any = self.paths.math.put_cond if isinstance(expr, CONDS) else self.paths.math.put
            expr = put(expr, self.counting.values)
        if any(not (self.is_fixed(name) or name.startswith("#")) for name in names(expr)):
            return None
        return expr if not why_not_affine(expr) else self.without_products(expr)

    def without_products(self, expr: Any) -> Any:
        if not why_not_affine(expr):
            return expr
        if not isinstance(expr, CONDS) and all(self.is_fixed(each) for each in names(expr)):
            return Name(f"!{self.param(expr)}")
        match expr:
            case Binary(op, left, right) | Compare(op, left, right) | Logic(op, left, right):
                parts = (self.without_products(left), self.without_products(right))
                made: Any = type(expr)(op, *parts) if None not in parts else None
            case Select(cond, then, otherwise):
                three = (self.without_products(cond), self.without_products(then), self.without_products(otherwise))
                made = Select(*three) if None not in three else None
            case Not(inner):
                part = self.without_products(inner)
                made = Not(part) if part is not None else None
            case Inexact(inner):
                made = self.without_products(inner)
            case _:
                made = None
        return made if made is not None and not why_not_affine(made) else None

    def counted(self, index: Index) -> Any:
        """The same, where numbers that are carried may vary; None if something else does, or if it is not affine."""
        found = self.affine(index)
        if found is not None or self.counting is None or not self.counting.is_symbolic:
            return found
        fixed = all(self.is_fixed(name) or name.startswith("#") or name in self.counting.lines for name in names(index))
        return index if fixed and not why_not_affine(index) else None

    # --- text ---

    def text(self, chain: Sequence[int], letter: str = "i", more: Mapping[str, str] = NO_NAMES) -> IslText:
        """Writes conditions over the iterations of these loops, and over further variables."""
        own = {f"#{loop}": f"{letter}{place}" for place, loop in enumerate(chain)}
        return IslText(_Variables(self, {**own, **more}))

    def name(self, moment: Instant) -> str:
        return f"r{moment.role.number}n{moment.node}e{moment.end}"

    def named(self, moment: Instant, letter: str = "i") -> str:
        """A moment as isl sees it: the iterations of the loops around its node, in a space of its own."""
        inner = ", ".join(f"{letter}{place}" for place in range(len(self.paths.around[moment.node])))
        return f"{self.name(moment)}[{inner}]"

    def moments(self, moment: Instant, points: Any) -> Any:
        """Iterations as moments."""
        return points.set_tuple_name(self.name(moment))

    def pairs(self, one: Instant, other: Instant, *, every: bool) -> Any:
        """All pairs of two moments, or none."""
        inside = "" if every else " : 1 = 0"
        return self.read_map(f"{{ {self.named(one)} -> {self.named(other, 'j')}{inside} }}")

    def only(self, relation: Any, one: Instant, other: Instant) -> Any:
        """What a relation between several spaces says of two moments."""
        empty = self.pairs(one, other, every=False)
        return relation.extract_map(empty.get_space()).union(empty) if not relation.is_empty() else empty

    def outermost(self, node: int) -> int:
        """The place of a node, or of the outermost loop around it."""
        chain = self.paths.around[node]
        return self.rank[self.flow.loops[chain[0]].head if chain else node]

    def order_text(self, one: Instant, other: Instant) -> str:
        """That one moment is not behind another one of its role; empty if it always is."""
        first, second = self.paths.around[one.node], self.paths.around[other.node]
        common = self.in_common(one, other)
        here = self.rank[self.flow.loops[first[common]].head if len(first) > common else one.node]
        there = self.rank[self.flow.loops[second[common]].head if len(second) > common else other.node]
        return self.lexicographic(one, other, (here, one.end) <= (there, other.end))

    def program_order_text(self, one: Instant, other: Instant) -> str:
        """That one comes before another one in the program that both run; arms of one branch have no order."""
        common = self.paths.around[one.node][: self.in_common(one, other)]
        again = {self.flow.loops[loop].head for loop in common}
        onward = [[each for each in following if each not in again] for following in self.flow.successors]
        leads = one.node != other.node and other.node in reached_from([one.node], onward)
        return self.lexicographic(one, other, leads)

    def in_common(self, one: Instant, other: Instant) -> int:
        """How many loops are around both."""
        first, second = self.paths.around[one.node], self.paths.around[other.node]
        common = next((n for n, (a, b) in enumerate(zip(first, second, strict=False)) if a != b), None)
        return min(len(first), len(second)) if common is None else common

    def lexicographic(self, one: Instant, other: Instant, within: bool) -> str:
        """By the iterations of common loops, and `within` one iteration of all of them."""
        ways, equal = [], ""
        for place in range(self.in_common(one, other)):
            ways.append(f"{equal}i{place} < j{place}")
            equal += f"i{place} = j{place} and "
        if within:
            ways.append(f"{equal}1 = 1")
        if not ways:
            return ""
        body = " or ".join(f"({each})" for each in ways)
        return f"{{ {self.named(one)} -> {self.named(other, 'j')} : {body} }}"

    def at(self, role: Role, node: int, iterations: Sequence[int]) -> tuple[int, ...]:
        """The same as numbers."""
        parts = [role.number]
        for loop, number in zip(self.paths.around[node], iterations, strict=True):
            parts += [self.rank[self.flow.loops[loop].head], number]
        return (*parts, self.rank[node], *[0] * (2 * (self.depth - len(iterations))))

    # --- sets ---

    def read_set(self, text: str) -> Any:
        return isl.Set.read_from_str(context(), self.head + text)

    def read_map(self, text: str) -> Any:
        return isl.Map.read_from_str(context(), self.head + text)

    def where(self, cond: Cond, chain: Sequence[int]) -> Any:
        """The iterations in which a condition holds; None if that cannot be said."""
        affine = self.affine(cond)
        if affine is None:
            return None
        text = self.text(chain)
        body = text.cond(affine)
        return self.read_set(f"{{ [{_iterations(chain)}] : {self.closed(text, body)} }}")

    def known(self) -> Any:
        """What is known of the parameters."""
        used = [name for name in self.params if isinstance(name, str)]
        text = self.text(())
        conds: list[str] = []
        for name in used:
            low, high = self.questions.range_of(name)
            conds += [f"{self.params[name]} >= {low}"] if low is not None else []
            conds += [f"{self.params[name]} <= {high}"] if high is not None else []
        for what, param in self.params.items():
            if not isinstance(what, str):
                low, high = self.paths.math.bounds(what)
                conds += [f"{param} >= {low}"] if low is not None else []
                conds += [f"{param} <= {high}"] if high is not None else []
        if self.counting is not None:
            unit, size = self.affine(self.counting.unit), self.counting.size
            conds += [f"{text.index(unit)} = {text.index(size)}", f"{text.index(size)} >= {self.counting.least}"]
        for cond in self.questions.where:
            if not why_not_affine(cond) and all(name in self.params for name in names(cond)):
                conds.append(f"({text.cond(cond)})")
        return self.read_set(f"{{ : {self.closed(text, ' and '.join(conds) or '1 = 1')} }}")

    def closed(self, text: IslText, body: str) -> str:
        """A condition with the variables that stand for choices."""
        hidden = f"exists {', '.join(text.hidden)} : " if text.hidden else ""
        return hidden + "".join(f"({each}) and " for each in text.defined) + f"({body})"


class _Variables(dict[str, str]):
    """isl's names; those that no loop has are parameters."""

    def __init__(self, space: Space, own: dict[str, str]) -> None:
        super().__init__(own)
        self.space = space

    def __missing__(self, name: str) -> str:
        if name.startswith("!"):
            return name[1:]
        if name.startswith("#"):
            raise Outside("a value of one loop is used in another one")
        if not self.space.is_fixed(name):
            raise Outside("a value that changes is used as if it did not")
        return self.space.param(name)


def _iterations(chain: Sequence[int]) -> str:
    return ", ".join(f"i{place}" for place in range(len(chain)))


def union(parts: Iterable[Any]) -> Any:
    """Of sets or maps; None of nothing."""
    found = None
    for each in parts:
        found = each if found is None else found.union(each)
    return found.coalesce() if found is not None else None


def several(parts: Iterable[Any]) -> Any:
    """One relation between several spaces."""
    found = isl.UnionMap.read_from_str(context(), "{ }")
    for each in parts:
        found = found.union(each if isinstance(each, isl.UnionMap) else isl.UnionMap.from_map(each))
    return found


def several_sets(parts: Iterable[Any]) -> Any:
    """One set over several spaces."""
    found = isl.UnionSet.read_from_str(context(), "{ }")
    for each in parts:
        found = found.union(isl.UnionSet.from_set(each))
    return found


def maps_of(relation: Any) -> list[Any]:
    found = relation.get_map_list()
    return [found.get_at(place) for place in range(found.n_map())]


def sets_of(points: Any) -> list[Any]:
    found = points.get_set_list()
    return [found.get_at(place) for place in range(found.n_set())]
