"""Changes to a program, most of which break it.

Needs   a Program and a seed
Gives   `mutate(program, seed)`: the program with one change, of a drawn or given kind
Keeps   the same program, kind and seed give the same mutant; its text stays a valid kernel
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from oracles.rings.model import (
    PART,
    Arrive,
    Copy,
    Depart,
    Drain,
    Elected,
    Expr,
    Fence,
    Guard,
    Loop,
    Program,
    Read,
    Signal,
    Statement,
    Store,
    Sync,
    Wait,
    Write,
    as_expr,
    less,
    statements,
)

Body = tuple[Statement, ...]

Path = tuple[int, ...]
Edit = Callable[[random.Random, Program], Program | None]


def edited(program: Program, role: int, path: Path, new: Callable[[Statement], Body]) -> Program:
    """The statement at this path becomes these."""

    def inside(body: Body, path: Path) -> Body:
        at = path[0]
        if len(path) == 1:
            return (*body[:at], *new(body[at]), *body[at + 1 :])
        outer = body[at]
        assert isinstance(outer, Loop | Guard | Elected)
        return (*body[:at], replace(outer, body=inside(outer.body, path[1:])), *body[at + 1 :])

    it = program.roles[role]
    changed = replace(it, body=inside(it.body, path))
    return replace(program, roles=(*program.roles[:role], changed, *program.roles[role + 1 :]))


def places(program: Program, kinds: type | tuple[type, ...]) -> list[tuple[int, Path, Statement]]:
    return [
        (number, path, each)
        for number, role in enumerate(program.roles)
        for path, each in statements(role.body)
        if isinstance(each, kinds)
    ]


def pick(
    rng: random.Random, program: Program, kinds: type | tuple[type, ...], new: Callable[[Statement], Body]
) -> Program | None:
    found = places(program, kinds)
    if not found:
        return None
    role, path, _ = rng.choice(found)
    return edited(program, role, path, new)


def flip_parity(rng: random.Random, program: Program) -> Program | None:
    def new(op: Statement) -> Body:
        assert isinstance(op, Wait)
        return (replace(op, parity=(op.parity + 1) % 2),)

    return pick(rng, program, Wait, new)


def lose_arrival(rng: random.Random, program: Program) -> Program | None:
    return pick(rng, program, (Arrive, Signal, Sync), lambda op: ())


def double_arrival(rng: random.Random, program: Program) -> Program | None:
    return pick(rng, program, (Arrive, Signal, Sync), lambda op: (op, op))


def lose_wait(rng: random.Random, program: Program) -> Program | None:
    return pick(rng, program, (Wait, Depart), lambda op: ())


def lose_copy(rng: random.Random, program: Program) -> Program | None:
    return pick(rng, program, Copy, lambda op: ())


def lose_drain(rng: random.Random, program: Program) -> Program | None:
    return pick(rng, program, Drain, lambda op: ())


def lose_fence(rng: random.Random, program: Program) -> Program | None:
    return pick(rng, program, Fence, lambda op: ())


def wrong_count(rng: random.Random, program: Program) -> Program | None:
    at = rng.randrange(len(program.barriers))
    it = program.barriers[at]
    count = it.count + rng.choice((1, -1))
    changed = replace(it, count=count if count > 0 else 2)
    return replace(program, barriers=(*program.barriers[:at], changed, *program.barriers[at + 1 :]))


def wrong_bytes(rng: random.Random, program: Program) -> Program | None:
    more = rng.choice((PART, -PART, PART // 2, -PART // 2))

    def new(op: Statement) -> Body:
        assert isinstance(op, Arrive)
        return (replace(op, expect=max(op.expect + more, 0)),)

    found = [each for each in places(program, Arrive) if isinstance(each[2], Arrive) and each[2].expect]
    if not found:
        return None
    role, path, _ = rng.choice(found)
    return edited(program, role, path, new)


def swap(rng: random.Random, program: Program, kinds: type | tuple[type, ...], by: tuple[int, ...]) -> Program | None:
    """Moves a statement over neighbours of its block."""
    found = []
    for role, path, _ in places(program, kinds):
        length = len(block_of(program, role, path))
        found += [(role, path, path[-1] + step) for step in by if 0 <= path[-1] + step < length]
    if not found:
        return None
    role, path, to = rng.choice(found)
    return moved(program, role, path, to)


def block_of(program: Program, role: int, path: Path) -> Body:
    body = program.roles[role].body
    for at in path[:-1]:
        outer = body[at]
        assert isinstance(outer, Loop | Guard | Elected)
        body = outer.body
    return body


def moved(program: Program, role: int, path: Path, to: int) -> Program:
    block = list(block_of(program, role, path))
    block.insert(to, block.pop(path[-1]))
    if len(path) == 1:
        it = replace(program.roles[role], body=tuple(block))
        return replace(program, roles=(*program.roles[:role], it, *program.roles[role + 1 :]))

    def new(outer: Statement) -> Body:
        assert isinstance(outer, Loop | Guard | Elected)
        return (replace(outer, body=tuple(block)),)

    return edited(program, role, path[:-1], new)


def early_release(rng: random.Random, program: Program) -> Program | None:
    return swap(rng, program, (Arrive, Signal), (-1, -2, -3))


def move_wait(rng: random.Random, program: Program) -> Program | None:
    return swap(rng, program, (Wait, Sync, Depart), (1, 2, -1, -2))


def shift_slot(rng: random.Random, program: Program) -> Program | None:
    """Another slot than the round says; barriers and buffers of one slot have no other."""
    slots = program.slots

    def name_of(op: Statement) -> str:
        assert isinstance(op, Arrive | Wait | Copy | Read | Write | Store)
        return op.barrier if isinstance(op, Arrive | Wait) else op.buffer

    def new(op: Statement) -> Body:
        assert isinstance(op, Arrive | Wait | Copy | Read | Write | Store)
        return (replace(op, slot=(op.slot + 1) % slots[name_of(op)]),)

    found = [each for each in places(program, (Arrive, Wait, Copy, Read, Write, Store)) if slots[name_of(each[2])] > 1]
    if not found:
        return None
    role, path, _ = rng.choice(found)
    return edited(program, role, path, new)


def lose_phase(rng: random.Random, program: Program) -> Program | None:
    """Phase or slot not carried over tiles: each tile starts again, or a counter forgets its tile."""
    found = [each for each in places(program, (Loop, Wait)) if forgets(each[2], rng.randrange(2)) != each[2]]
    if not found:
        return None
    role, path, op = rng.choice(found)
    which = rng.randrange(2)
    return edited(program, role, path, lambda _: (forgets(op, which),))


def forgets(op: Statement, which: int) -> Statement:
    if isinstance(op, Loop) and op.counter.startswith("t_") and op.carried:
        carried = list(op.carried)
        at = which % len(carried)
        carried[at] = replace(carried[at], next=as_expr(0))
        return replace(op, carried=tuple(carried))
    if isinstance(op, Wait):
        return replace(op, parity=without_tile(op.parity))
    return op


def without_tile(expr: Expr) -> Expr:
    """t * R + k becomes k."""
    if expr.op == "+" and expr.args[0].op[:2] in ("*", "t_") and expr.args[1].op.startswith("k_"):
        return expr.args[1]
    return Expr(expr.op, tuple(without_tile(each) for each in expr.args))


def shift_guard(rng: random.Random, program: Program) -> Program | None:
    by = rng.choice((1, -1))

    def new(op: Statement) -> Body:
        assert isinstance(op, Guard)
        left, right = op.condition.args
        return (replace(op, condition=less(left + by, right)),)

    return pick(rng, program, Guard, new)


def shift_trips(rng: random.Random, program: Program) -> Program | None:
    by = rng.choice((1, -1))

    def new(op: Statement) -> Body:
        assert isinstance(op, Loop)
        over_slots = op.counter.startswith("i_")  # one slot more does not exist
        return (replace(op, stop=op.stop + (-1 if over_slots else by)),)

    return pick(rng, program, Loop, new)


def swap_neighbours(rng: random.Random, program: Program) -> Program | None:
    """Two statements of a block that follow each other, whatever they are."""
    return swap(rng, program, (Arrive, Wait, Copy, Read, Write, Store, Drain, Fence, Signal, Sync, Depart), (1,))


def change_number(rng: random.Random, program: Program) -> Program | None:
    """One number in one expression is one more or less. Slots stay slots, parities stay parities."""
    found = []
    for role, path, op in places(program, (Arrive, Wait, Copy, Read, Write, Store, Guard, Loop)):
        if isinstance(op, Loop) and op.counter.startswith("i_"):
            continue  # over slots, one by one
        names = [name for name in ("slot", "parity", "condition", "start", "stop") if hasattr(op, name)]
        found += [(role, path, name) for name in names if has_number(getattr(op, name))]
    if not found:
        return None
    role, path, name = rng.choice(found)
    slots = program.slots

    def new(op: Statement) -> Body:
        old = getattr(op, name)
        changed = another(rng, old)
        if name == "parity":
            changed = changed % 2
        elif isinstance(op, Arrive | Wait | Copy | Read | Write | Store) and name == "slot":
            of = op.barrier if isinstance(op, Arrive | Wait) else op.buffer
            changed = changed % slots[of]
        with_it: dict[str, Any] = {name: changed}
        return (replace(op, **with_it),)

    return edited(program, role, path, new)


def another(rng: random.Random, expr: Expr) -> Expr:
    """The expression with one of its numbers changed; divisors stay positive."""
    if not expr.args:
        if not expr.op.isdigit():
            return expr
        return as_expr(abs(int(expr.op) + rng.choice((1, -1))))
    with_numbers = [at for at, each in enumerate(expr.args) if has_number(each)]
    if not with_numbers:
        return expr
    at = rng.choice(with_numbers)
    new = another(rng, expr.args[at])
    if expr.op in ("//", "mod") and at == 1 and new.op == "0":
        new = as_expr(2)
    return Expr(expr.op, (*expr.args[:at], new, *expr.args[at + 1 :]))


def has_number(expr: Expr) -> bool:
    return expr.op.isdigit() or any(has_number(each) for each in expr.args)


MUTATIONS: dict[str, Edit] = {
    "parity flipped": flip_parity,
    "arrive lost": lose_arrival,
    "arrive doubled": double_arrival,
    "wrong count": wrong_count,
    "wrong bytes": wrong_bytes,
    "early release": early_release,
    "wait moved": move_wait,
    "wait lost": lose_wait,
    "copy lost": lose_copy,
    "fence lost": lose_fence,
    "drain lost": lose_drain,
    "slot shifted": shift_slot,
    "phase not carried": lose_phase,
    "guard shifted": shift_guard,
    "trips shifted": shift_trips,
    "neighbours swapped": swap_neighbours,
    "number changed": change_number,
}


def mutate(program: Program, seed: int, kind: str | None = None) -> tuple[str, Program]:
    """One change of this kind, or of a drawn kind that the program has a place for; `none` if it has no such place."""
    order = random.Random(f"mutant {seed} {program.name}").sample(sorted(MUTATIONS), len(MUTATIONS))
    for each in [kind] if kind else order:
        # The name says all: program, kind, seed.
        changed = MUTATIONS[each](random.Random(f"{each} {seed} {program.name}"), program)
        if changed is not None and changed != program:
            return each, replace(changed, name=f"{program.name}_{each.replace(' ', '_')}_{seed}")
    return "none", program
