"""Small random graphs about one pair of accesses: one wave writes, the other reads, and something lies between.

Needs   a random number generator
Gives   the text of a graph: `staggered` with conditional barriers and split ones, `copied` with copies, counts, groups,
        tokens and fences
Keeps   signals and waits take turns, and a stagger that is opened is closed

Large programs seldom leave one direction of one pair alone: whatever is wrong with it hides behind others.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

COUNTERS = {"sm_90": "group", "sm_80": "group", "gfx942": "vmcnt", "gfx1250": "asynccnt"}


@dataclass
class Draft:
    """Points with their successors; None: the next one."""

    rng: random.Random
    target: str
    points: list[tuple[str, list[int] | None]] = field(default_factory=list)
    head: int = -1

    def add(self, action: str) -> int:
        self.points.append((action, None))
        return len(self.points) - 1

    def lead(self, point: int, *successors: int) -> None:
        self.points[point] = (self.points[point][0], list(successors))

    def guarded(self, cond: str, actions: list[str]) -> None:
        branch = self.add(f"branch {cond}")
        under = " under per_wave" if "wave" in cond else ""
        for each in actions:
            self.add(each + under)
        self.lead(branch, branch + 1, len(self.points))

    def open_loop(self) -> None:
        self.add("assign %k = 0")
        self.head = self.add("branch %k < N")

    def close_loop(self) -> None:
        self.lead(self.add("assign %k = %k + 1"), self.head)
        self.lead(self.head, self.head + 1, len(self.points))

    def text(self, *buffers: str) -> str:
        self.lead(self.add("end"))
        lines = [f"graph @pair target {self.target} waves 2"]
        if self.head >= 0:
            lines.append("sizes(N = 3)")
        lines += [f"buffer {name} bytes 8 slots 1" for name in buffers]
        if self.head >= 0:
            lines.append(f"loop 0 head {self.head} parent -1 trips 0 .. any expect 2.0 counter %k from 0 to N step 1")
        lines += ["program entry 0 waves 0 .. 2", "{"]
        for number, (action, successors) in enumerate(self.points):
            to = [number + 1] if successors is None else successors
            lines.append(f"  {number}: {action}" + (f" -> {', '.join(map(str, to))}" if to else ""))
        return "\n".join([*lines, "}", ""])


def staggered(rng: random.Random) -> str:
    """One half of the waves is held back by one to three arrivals."""
    draft = Draft(rng, rng.choice(["gfx942", "gfx1200", "gfx1250"]))
    counter = "lgkmcnt" if draft.target == "gfx942" else "dscnt"
    drain, writer, signalled = f"sync wait_count {counter}(0)", rng.randrange(2), False

    def write() -> None:
        access = f"write %a[0, 0] box() width 4 issues {counter} 1 .. 1"
        draft.guarded(f"wave == {writer}", rng.choice([[access], [access], [access, drain], [drain, access]]))

    def read() -> None:
        access = f"read %a[0, 0] box() width 4 issues {counter} 1 .. 1"
        draft.guarded(f"wave == {1 - writer}", rng.choice([[access], [access], [drain, access], [access, drain]]))

    def between(count: int, *, close: bool = False) -> None:
        nonlocal signalled
        for _ in range(count):
            kind = rng.random()
            if kind < 0.25:
                draft.add(drain)
            elif kind < 0.6 and not signalled:
                draft.add("sync workgroup_barrier" if kind < 0.45 else "sync shared_memory_barrier")
            elif kind < 0.8 and draft.target != "gfx942":
                draft.add("sync wait -1" if signalled else "sync signal -1")
                signalled = not signalled
            elif kind > 0.9:
                draft.guarded("any", [drain])
        if close and signalled:
            draft.add("sync wait -1")
            signalled = False

    by, halves = rng.choice([1, 1, 2, 3]), rng.choice([("low", "high"), ("high", "low")])
    if rng.random() < 0.2:
        write()
        between(1, close=True)
    for _ in range(by):
        draft.add(f"sync conditional_barrier {halves[0]}")
    if in_loop := rng.random() < 0.45:
        draft.open_loop()
    between(rng.randrange(3))
    (write if rng.random() < 0.6 else read)()
    between(rng.randrange(4))
    (read if rng.random() < 0.7 else write)()
    between(rng.randrange(4))
    if rng.random() < 0.3:
        read()
    between(rng.randrange(2), close=True)
    if in_loop:
        draft.close_loop()
    for _ in range(by):
        draft.add(f"sync conditional_barrier {halves[1]}")
    between(rng.randrange(2), close=True)
    if rng.random() < 0.2:
        read()
    return draft.text("%a")


def copied(rng: random.Random, target: str) -> str:
    """Asynchronous copies to and from shared memory, and all that waits for them."""
    draft, counter = Draft(rng, target), COUNTERS[target]
    tokens: list[str] = []
    unordered = " unordered" if target == "gfx942" and rng.random() < 0.4 else ""

    def issues(name: str) -> str:
        return (
            f" issues {name} 0 .. 0" if "group" in name else f" issues {name} 1 .. {rng.choice((1, 1, 2))}{unordered}"
        )

    def access(kind: str, buffer: str) -> str:
        where = f"{buffer}[0, 0] box() width 4"
        if kind == "copy":
            token = ""
            if target != "sm_90" and rng.random() < 0.6:
                tokens.append(rng.choice(("%c", "%d")))
                token = f" token {tokens[-1]}"
            return f"write {where} async{token}{issues(counter)}"
        if kind == "store":
            proxy = " proxy async" + issues("bulk_group") if target == "sm_90" else issues(counter)
            return f"read {where} async{proxy}"
        return f"{kind} {where}"

    def one() -> str:
        kind = rng.random()
        if kind < 0.22:
            return f"sync wait_count {counter}({rng.choice((0, 0, 1, 1, 2))})"
        if kind < 0.38:
            kinds = ("workgroup_barrier", "shared_memory_barrier", "shared_memory_barrier wait_async_ops")
            return f"sync {rng.choice(kinds)}"
        if kind < 0.6 and "group" in counter:
            if rng.random() < 0.3:
                tokens.append("%t")
                return "sync %t = commit_group"
            return "sync commit_group"
        if kind < 0.75 and target == "sm_90":
            return rng.choice(
                ["sync fence proxy_async", "sync wait_count bulk_group(0)", "sync wait_count bulk_group(1)"]
            )
        if kind < 0.85 and tokens:
            return f"sync wait_count deps({rng.choice(tokens)})"
        if kind < 0.9 and len(set(tokens)) > 1:
            return "assign {} = token {}".format(*rng.sample(sorted(set(tokens)), 2))
        return access("store", "%z")

    def between(count: int) -> None:
        for _ in range(count):
            if rng.random() < 0.05:
                draft.guarded("any", [one()])
            else:
                draft.add(one())

    loop_at = rng.randrange(6)  # around the first, what lies between, the second; or there is none
    between(rng.randrange(2))
    for place in range(3):
        if loop_at == place:
            draft.open_loop()
        if place == 1:
            between(rng.choice((2, 3, 4, 5, 6)))
        elif place == 0:
            draft.guarded("wave == 0", [access(rng.choice(("write", "copy", "copy", "store")), "%a")])
        else:
            draft.guarded("wave == 1", [access(rng.choice(("read", "store", "write")), "%a")])
        if loop_at == place:
            if rng.random() < 0.3:
                draft.guarded(rng.choice(("1 <= %k", "%k == 1", "%k < 2", "any")), [one()])
            between(rng.randrange(3))
            draft.close_loop()
    return draft.text("%a", "%z")
