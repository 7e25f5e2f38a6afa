"""Small programs with known answers: a ring with one mistake each, and one program for each obligation of the proof.

Needs   nothing
Gives   `CASES`: by name, a program and what the search finds (`right`, or the kind of mistake)

`python -m oracles.rings.cases` prints them as kernels, `--check` beside what Tidegate says of them.
"""

from __future__ import annotations

import sys

from oracles.rings.model import (
    PART,
    Arrive,
    Barrier,
    Buffer,
    Copy,
    Expr,
    Fence,
    Guard,
    Loop,
    Program,
    Read,
    Role,
    Signal,
    Statement,
    Sync,
    Wait,
    Write,
    as_expr,
    less,
    select,
)
from oracles.rings.search import HANG, OVERRUN, PHASE, RACE, RIGHT
from oracles.rings.text import to_tide

N, K, J = Expr("N"), Expr("k"), Expr("j")
ZERO = as_expr(0)
Body = tuple[Statement, ...]


def loop(counter: Expr, *body: Statement, stop: Expr = N) -> Loop:
    return Loop(counter.op, ZERO, stop, body)


WAIT_EMPTY = Wait("empty", K % 2, (K // 2 + 1) % 2)
EXPECT = Arrive("full", K % 2, PART)
COPY = Copy("a", K % 2, "full", K % 2)
PRODUCER = (WAIT_EMPTY, EXPECT, COPY)
WAIT_FULL = Wait("full", J % 2, J // 2 % 2)
READ = Read("a", J % 2)
RELEASE = Arrive("empty", J % 2)
CONSUMER = (WAIT_FULL, READ, Fence(), RELEASE)


def ring(producer: Body = PRODUCER, consumer: Body = CONSUMER, *more: Role, full: int = 1, empty: int = 1) -> Program:
    """Copies into two slots, one consumer: the loop bodies of both."""
    barriers = (Barrier("full", full, 2), Barrier("empty", empty, 2))
    roles = (Role("producer", 1, (loop(K, *producer),)), Role("consumer", 1, (loop(J, *consumer),)), *more)
    return Program("ring", (Buffer("a", 2),), barriers, roles)


def consume(wait: Wait = WAIT_FULL, read: Read = READ) -> Program:
    return ring(consumer=(wait, read, Fence(), RELEASE))


def observer() -> Role:
    """Waits for each generation and arrives nowhere: nothing keeps a generation open until it has looked."""
    at = Expr("o")
    return Role("observer", 1, (loop(at, Wait("full", at % 2, at // 2 % 2)),))


def two_of_three() -> Program:
    """Two consumers of three slots: each sees every other generation of a slot."""
    waits = Wait("empty", K % 3, (K // 3 + 1) % 2)
    copies = (Arrive("full", K % 3, PART), Copy("a", K % 3, "full", K % 3))
    roles = [Role("producer", 1, (loop(K, waits, *copies, stop=N * 2),))]
    for mine in range(2):
        counter = Expr(f"j{mine}")
        at = counter * 2 + mine
        body = (Wait("full", at % 3, at // 3 % 2), Read("a", at % 3), Fence(), Arrive("empty", at % 3))
        roles.append(Role(f"consumer{mine}", 1, (loop(counter, *body),)))
    return Program("ring", (Buffer("a", 3),), (Barrier("full", 1, 3), Barrier("empty", 1, 3)), tuple(roles))


def unordered_arrivals() -> Program:
    """Two writers, each a slot ahead if it likes: the arrivals of one can fill the generation of both."""
    roles = []
    for mine in range(2):
        k = Expr(f"k{mine}")
        body = (Wait("empty", k % 2, (k // 2 + 1) % 2), Write("a", k % 2, mine), Arrive("full", ZERO))
        roles.append(Role(f"writer{mine}", 1, (loop(k, *body),)))
    reader = (Wait("full", ZERO, J % 2), Read("a", J % 2), RELEASE)
    roles.append(Role("reader", 1, (loop(J, *reader),)))
    return Program("ring", (Buffer("a", 2, 2),), (Barrier("full", 2, 1), Barrier("empty", 1, 2)), tuple(roles))


def named(*reader: Statement) -> Program:
    """One slot between two named barriers; the reader's loop body."""
    write = (Sync("empty"), Write("a", ZERO), Signal("full"))
    roles = (Role("writer", 1, (loop(K, *write),)), Role("reader", 1, (Signal("empty"), loop(J, *reader))))
    return Program("named", (Buffer("a", 1),), (Barrier("full", 2), Barrier("empty", 2)), roles)


def crossed() -> Program:
    """Each role waits for the other before it arrives."""
    roles = (
        Role("one", 1, (loop(K, Wait("there", ZERO, K % 2), Arrive("here", ZERO)),)),
        Role("two", 1, (loop(J, Wait("here", ZERO, J % 2), Arrive("there", ZERO)),)),
    )
    return Program("crossed", (), (Barrier("here", 1, 1), Barrier("there", 1, 1)), roles)


def overrun() -> Program:
    roles = (
        Role("one", 1, (Arrive("full", ZERO, PART), Copy("a", ZERO, "full", ZERO))),
        Role("two", 1, (Arrive("full", ZERO),)),
    )
    return Program("overrun", (Buffer("a", 1),), (Barrier("full", 1, 1),), roles)


def either_order() -> Program:
    """Each wave completes a generation alone; which one depends on the order. Nothing else is wrong."""
    roles = tuple(Role(name, 1, (Signal("turn"),)) for name in ("one", "two"))
    return Program("order", (), (Barrier("turn", 1),), roles)


CASES: dict[str, tuple[Program, str]] = {
    "a ring": (ring(), RIGHT),
    "the producer fences": (ring((WAIT_EMPTY, Fence(), EXPECT, COPY), (WAIT_FULL, READ, RELEASE)), RIGHT),
    "copies before their bytes are expected": (ring((WAIT_EMPTY, COPY, EXPECT)), RIGHT),
    "named barriers": (named(Sync("full"), Read("a", ZERO), Signal("empty")), RIGHT),
    "parity of full flipped": (consume(Wait("full", J % 2, (J // 2 + 1) % 2)), RACE),
    "parity of empty flipped": (ring((Wait("empty", K % 2, K // 2 % 2), EXPECT, COPY)), HANG),
    "parity that stays": (consume(Wait("full", J % 2, ZERO)), RACE),
    "parity right for two rounds": (consume(Wait("full", J % 2, select(less(J, 2), 0, 1))), RACE),
    "release lost": (ring(consumer=(WAIT_FULL, READ, Fence())), HANG),
    "release doubled": (ring(consumer=(*CONSUMER, RELEASE)), HANG),
    "count too large": (ring(empty=2), HANG),  # obligation A
    "bytes too many": (ring((WAIT_EMPTY, Arrive("full", K % 2, 2 * PART), COPY)), HANG),  # T1
    "bytes too few": (ring((WAIT_EMPTY, Arrive("full", K % 2, PART // 2), COPY)), HANG),  # T1
    "no bytes": (ring((WAIT_EMPTY, Arrive("full", K % 2), COPY)), RACE),  # T1
    "arrivals in no order": (unordered_arrivals(), HANG),  # B
    "every other generation": (two_of_three(), RACE),  # C1
    "an observer that arrives nowhere": (ring(PRODUCER, CONSUMER, observer()), HANG),  # C2
    "early release": (ring(consumer=(WAIT_FULL, RELEASE, READ, Fence())), RACE),  # order
    "early release of a named barrier": (named(Sync("full"), Signal("empty"), Read("a", ZERO)), RACE),  # order
    "waits that cross": (crossed(), HANG),  # rank
    "wait moved behind the read": (ring(consumer=(READ, WAIT_FULL, Fence(), RELEASE)), RACE),
    "wait moved behind the copy": (ring((EXPECT, COPY, WAIT_EMPTY)), HANG),
    "no fence": (ring(consumer=(WAIT_FULL, READ, RELEASE)), RACE),
    "copy lost": (ring((WAIT_EMPTY, EXPECT)), HANG),
    "other slot": (consume(read=Read("a", (J + 1) % 2)), RACE),
    "wait only in the first twelve rounds": (ring(consumer=(Guard(less(J, 12), (WAIT_FULL,)), *CONSUMER[1:])), RACE),
    "an arrival too many while bytes are out": (overrun(), OVERRUN),
    "generations that depend on the order": (either_order(), PHASE),
}


def main() -> None:
    for name, (program, kind) in CASES.items():
        if "--check" in sys.argv[1:]:
            from oracles.rings.compare import ask

            answer = ask(program, simulate=True)
            print(f"{name}: {kind}; check: {answer.kind} {', '.join(answer.codes)} ({answer.says})")
        else:
            print(f"# {name}: {kind}\n{to_tide(program)}")


if __name__ == "__main__":
    main()
