"""Which tiles keep to the canonical map from lanes to elements, and whose atomic results somebody uses.

§2: a tile of one shape and element type has one canonical map unless a matrix operand or a transposition fixes another.
What the canonical map is nobody says, so an owner is a name, not a number: (shape, type, element). Two elements have
the same owner for certain only if the names are equal.
"""

from __future__ import annotations

from collections.abc import Iterator

from .program import Compute, Cond, Loop, Program, Statement


def statements(body: tuple[Statement, ...]) -> Iterator[Statement]:
    """All statements, outer before inner."""
    for statement in body:
        yield statement
        if isinstance(statement, Loop):
            yield from statements(statement.body)
        elif isinstance(statement, Cond):
            yield from statements(statement.then)
            yield from statements(statement.otherwise)


def fixed_values(program: Program) -> dict[str, str]:
    """Values whose lanes a matrix operand or a transposition fixes → a name for all that are tied together."""
    parent: dict[str, str] = {}

    def root(name: str) -> str:
        while parent.setdefault(name, name) != name:
            name = parent[name]
        return name

    anchors: list[str] = []
    for statement in statements(program.body):
        if not isinstance(statement, Compute):
            continue
        if statement.fixed:
            anchors += statement.links
        else:
            for name in statement.links[1:]:
                parent[root(name)] = root(statement.links[0])
    roots = {root(name) for name in anchors}
    return {name: root(name) for name in list(parent) if root(name) in roots}


def used_values(program: Program, dead_counts: bool) -> frozenset[str]:
    """Values that an operation names; with `dead_counts` dead operations count as well."""
    used: set[str] = set()
    for statement in statements(program.body):
        if isinstance(statement, Compute) and (dead_counts or not statement.dead):
            used |= set(statement.uses)
        else:
            used.add(getattr(statement, "value", ""))
    return frozenset(used - {""})
