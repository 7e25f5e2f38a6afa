"""Random PTX kernels, and what each of their threads does, one thread after the other.

Shares no code with `hosts.isa`: instructions are carried out on Python's numbers, by a loop over lines. What a load
gives is made of its address and of the barriers before it, so that what one thread does never depends on another one,
and threads that load one place agree. Two accesses of different threads clash if they
touch a byte, one of them writes, and no barrier lies between them: of the block, or, in one warp, of the warp. A copy
lasts until its own thread has waited for its group.
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass, field

from oracles.ptx_numbers import compute, value_of

MOST_STEPS = 4000
WARP = 32


NEVER = 1 << 30


@dataclass(slots=True)
class Event:
    """An access by one thread; `phase` counts the barriers before it, `warps` those of the warp, too.

    A copy goes on until its thread has waited for it: `until` are phase and warp barriers then, `done` is the step.
    """

    thread: int
    line: int
    count: int  # how often the thread has come to this line
    writes: bool
    first: int
    bytes: int
    value: int
    phase: int
    warps: int
    step: int = 0
    is_copy: bool = False
    atomic: str = ""  # operator and type
    until: tuple[int, int] = (NEVER, NEVER)
    done: int = NEVER

    @property
    def end(self) -> tuple[int, int]:
        return self.until if self.is_copy else (self.phase, self.warps)


@dataclass(slots=True)
class Trace:
    events: list[Event] = field(default_factory=list)
    barriers: list[int] = field(default_factory=list)  # the line of each
    warps: list[int] = field(default_factory=list)  # warp barriers in each phase


# --- what a thread does -------------------------------------------------------------------------------------------


MEMORY = 1 << 40  # what an argument of 64 bits points to
SIZES = {"8": 1, "16": 2, "32": 4, "64": 8}


def data(place: int, moment: int) -> int:
    """What memory holds: few numbers, so that some are alike."""
    return (place * 2654435761 + moment * 40503 + 12345) % (1 << 32) >> 13 & 3


def run_thread(text: str, thread: int, threads: int, n: int, wide: int = 0) -> Trace:
    """`wide`: how many threads a row of the block has, 0: all. What lies in memory depends on `n`."""
    lines = [line.strip() for line in text.split("\n")]
    labels = {line[:-1]: number for number, line in enumerate(lines) if line.endswith(":")}
    found = _Thread(thread, wide or threads, n)
    place = next(number for number, line in enumerate(lines) if line == "{") + 1
    for step in range(MOST_STEPS):
        line = lines[place]
        place += 1
        if not line or line.endswith(":") or line.startswith((".", "//")):
            continue
        guard = re.match(r"@(!?)(%p\d+)\s+(.*)", line)
        if guard:
            if bool(found.registers.get(guard[2], 0)) == bool(guard[1]):
                continue
            line = guard[3]
        opcode, _, rest = line.rstrip(";").partition(" ")
        if opcode in ("ret", "exit"):
            return found.trace
        given = [each.strip() for each in re.split(r",(?![^{]*})", rest)] if rest else []
        if opcode == "bra":
            place = labels[given[0]]
        else:
            found.carry_out(opcode, given, place, step)
    raise RuntimeError("a thread that does not end")


class _Thread:
    """Its registers, and what it has done."""

    def __init__(self, thread: int, wide: int, n: int) -> None:
        self.thread, self.n = thread, n
        self.registers = {"%tid.x": thread % wide, "%tid.y": thread // wide, "%ntid.x": wide, "a": 4096, "b": 16384}
        self.registers["%laneid"] = thread % WARP
        self.trace = Trace(warps=[0])
        self.counts: dict[int, int] = {}
        self.groups: list[list[Event]] = [[]]
        self.place = self.step = 0

    def carry_out(self, opcode: str, given: list[str], place: int, step: int) -> None:
        self.place, self.step = place, step
        self.counts[place] = self.counts.get(place, 0) + 1
        words = opcode.split(".")
        if opcode == "bar.warp.sync":
            self.trace.warps[-1] += 1
        elif words[0] in ("bar", "barrier"):
            self.trace.barriers.append(place)
            self.trace.warps.append(0)
            if "red" in words:  # some number that all threads get
                self.registers[given[0]] = data(7, self.moment)
        elif words[0] == "cp":
            self.copy(words, given)
        elif words[0] in ("ld", "st", "red", "atom", "ldmatrix"):
            self.access(words, given)
        else:
            compute(opcode, given, self.registers)

    @property
    def moment(self) -> int:
        return self.n + len(self.trace.barriers)

    @property
    def now(self) -> tuple[int, int]:
        return len(self.trace.barriers), self.trace.warps[-1]

    def address(self, text: str) -> int:
        found = re.match(r"\[([%\w.]+)(?:\+(\d+))?\]", text)
        assert found is not None
        return value_of(found[1], self.registers) + int(found[2] or 0)

    def touch(self, effect: str, address: str, size: int, stored: int = 0) -> Event:
        writes, count = effect != "read", self.counts[self.place]
        event = Event(self.thread, self.place, count, writes, self.address(address), size, stored, *self.now, self.step)
        self.trace.events.append(event)
        return event

    def copy(self, words: list[str], given: list[str]) -> None:
        if "commit_group" in words:
            self.groups.append([])
        elif words[2].startswith("wait"):
            if words[2] == "wait_all":
                self.groups.append([])
            over = max(0, len(self.groups) - 1 - int(given[0] if given else 0))  # the last one is still open
            for event in (each for group in self.groups[:over] for each in group):
                if event.done == NEVER:
                    event.until, event.done = self.now, self.step
        else:
            copy = self.touch("write", given[0], int(given[2]), -1)
            copy.is_copy = True
            self.groups[-1].append(copy)

    def access(self, words: list[str], given: list[str]) -> None:
        if words[:2] == ["ld", "param"]:
            self.registers[given[0]] = self.n if words[2] == "u32" else MEMORY
        elif words[0] == "ldmatrix":
            if self.thread % WARP < 8 * int(words[4][1]):
                self.touch("read", given[1], 16)
        elif words[:2] == ["ld", "global"]:
            self.registers[given[0]] = data(self.address(given[1]), self.n)
        else:
            self.shared(words, given)

    def shared(self, words: list[str], given: list[str]) -> None:
        size = SIZES[words[-1].lstrip("busf")] * (2 if "v2" in words else 1)
        if words[0] == "st":
            values = tuple(value_of(each, self.registers) for each in given[1].strip("{}").split(", "))
            self.touch("write", given[0], size, hash(values))
            return
        event = self.touch("read" if words[0] == "ld" else "atomic", given[words[0] != "red"], size)
        if words[0] == "ld":
            self.registers[given[0]] = data(event.first, self.moment)
        else:
            event.atomic = ".".join(words[2:])
        if words[0] == "atom":
            self.registers[given[0]] = data(self.thread, self.step)


# --- races --------------------------------------------------------------------------------------------------------


def is_wrong(text: str, threads: int, n: int, wide: int = 0) -> str:
    """What is wrong with a run: a race between two threads, or threads that do not meet; empty if nothing is."""
    return wrong_between([run_thread(text, thread, threads, n, wide) for thread in range(threads)])


def wrong_between(traces: list[Trace]) -> str:
    """The same for what the threads have done."""
    threads = len(traces)
    if any(_lacks_lanes(traces[first : first + WARP]) for first in range(0, threads, WARP)):
        return "lanes"
    for first in range(0, threads, WARP):
        warp = traces[first : first + WARP]
        most = max(len(each.barriers) for each in warp)
        # Lanes that have ended are not waited for; all others of a warp have to come to the same barrier.
        if any(len({each.barriers[k] for each in warp if len(each.barriers) > k}) > 1 for k in range(most)):
            return "apart"
    bytes_: dict[int, list[Event]] = {}
    for trace in traces:
        for event in trace.events:
            for byte in range(event.first, event.first + event.bytes):
                bytes_.setdefault(byte, []).append(event)
    for events in bytes_.values():
        for place, one in enumerate(events):
            for other in events[place + 1 :]:
                if clash(one, other):
                    return f"race of threads {one.thread} and {other.thread}, lines {one.line} and {other.line}"
    return ""


def _lacks_lanes(warp: list[Trace]) -> bool:
    """Whether a warp barrier waits for a lane that passes it by; lanes that have ended are not waited for."""
    for phase in range(max(len(each.warps) for each in warp)):
        counts = [(each.warps[phase], len(each.warps) == phase + 1) for each in warp if len(each.warps) > phase]
        most = max(count for count, _ in counts)
        if any(count < most and not is_last for count, is_last in counts):
            return True
    return False


def clash(one: Event, other: Event) -> bool:
    if not (one.writes or other.writes) or (one.atomic and one.atomic == other.atomic and one.first == other.first):
        return False
    if one.thread == other.thread:
        first, second = sorted((one, other), key=lambda each: each.step)
        return first.is_copy and first.done > second.step
    same_warp = one.thread // WARP == other.thread // WARP
    begins = [(each.phase, each.warps if same_warp else 0) for each in (one, other)]
    ends = [(each.end[0], each.end[1] if same_warp else 0) for each in (one, other)]
    if ends[0] < begins[1] or ends[1] < begins[0]:
        return False
    at_once = (one.line, one.count) == (other.line, other.count)
    if at_once and one.writes and other.writes:
        # One instruction of one warp writes as one; threads that write one value to one place agree.
        return not same_warp and (one.value, one.first) != (other.value, other.first)
    return True


# --- kernels ------------------------------------------------------------------------------------------------------


class Maker:
    """A kernel at random: arithmetic on thread numbers and counters, branches, loops, barriers, accesses."""

    def __init__(self, seed: int, threads: int = 64) -> None:
        self.random, self.threads = random.Random(seed), threads
        self.lines: list[str] = []
        self.labels = self.preds = self.counters = 0
        self.values = ["%r1", "%r2", "%r3"]
        self.copies = seed % 3 == 0

    def text(self) -> str:
        rnd = self.random
        self.lines += ["mov.u32 %r1, %tid.x;", "mov.u32 %r2, 5;", "ld.param.u32 %r9, [k_param_0];"]
        self.lines.append(f"xor.b32 %r3, %r1, {rnd.choice((1, 2, 7, 32, 33, 63))};")
        for _ in range(rnd.randint(4, 10)):
            self.statement(0)
        body = "\n".join(f"  {line}" for line in (*self.lines, "ret;"))
        return (
            f".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u32 k_param_0)\n"
            f".reqntid {self.threads}, 1, 1\n{{\n  .reg .pred %p<200>;\n  .reg .b32 %r<400>;\n  .reg .b64 %rd<2>;\n"
            f"  .shared .align 4 .b8 a[4096];\n  .shared .align 4 .b8 b[4096];\n{body}\n}}\n"
        )

    def statement(self, depth: int) -> None:
        roll = self.random.random()
        if roll < 0.28:
            self.arithmetic()
        elif roll < 0.62:
            self.access()
        elif roll < 0.66 and self.copies:
            self.lines.append(self.random.choice(("cp.async.commit_group;", "cp.async.wait_group 0;")))
        elif roll < 0.78:
            self.lines.append(self.random.choice(("bar.sync 0;", "bar.sync 0;", "bar.warp.sync 0xffffffff;")))
        elif roll < 0.9 or depth > 1:
            self.branch(depth)
        else:
            self.loop(depth)

    def operand(self) -> str:
        return self.random.choice((*self.values, str(self.random.choice((1, 2, 3, 4, 8, 16, 31, 32, 64)))))

    def arithmetic(self) -> None:
        rnd = self.random
        target = rnd.choice(("%r2", "%r3"))
        word = rnd.choice(("add.u32", "sub.u32", "mul.lo.u32", "and.b32", "or.b32", "xor.b32", "shl.b32", "shr.u32"))
        word = rnd.choice((word, word, "rem.u32", "div.u32", "min.u32"))
        second = str(rnd.choice((1, 2, 3, 4, 5, 31))) if word[:3] in ("shl", "shr", "rem", "div") else self.operand()
        guard = f"@{rnd.choice(('', '!'))}%p{rnd.randrange(self.preds)} " if self.preds and rnd.random() < 0.2 else ""
        self.lines.append(f"{guard}{word} {target}, {rnd.choice(self.values)}, {second};")

    def access(self) -> None:
        rnd = self.random
        size, mask = rnd.choice((("u32", 127), ("u32", 63), ("u32", 255), ("u16", 63), ("b64", 63)))
        shift = {"u32": 2, "u16": 1, "b64": 3}[size]
        place = 100 + len(self.lines)
        if rnd.random() < 0.7:
            self.lines.append(f"and.b32 %r{place}, {rnd.choice(self.values)}, {mask};")
        else:
            self.lines.append(f"rem.u32 %r{place}, {rnd.choice(self.values)}, {rnd.choice((3, 48, 64, 96))};")
        self.lines.append(f"shl.b32 %r{place}, %r{place}, {shift};")
        self.lines.append(f"mov.u32 %r{place + 1}, {rnd.choice('ab')};")
        self.lines.append(f"add.u32 %r{place}, %r{place}, %r{place + 1};")
        offset = rnd.choice(("", "", "+4", "+128", "+256"))
        guard = f"@{rnd.choice(('', '!'))}%p{rnd.randrange(self.preds)} " if self.preds and rnd.random() < 0.3 else ""
        if self.copies and size == "u32" and rnd.random() < 0.5:
            self.lines.append(f"{guard}cp.async.ca.shared.global [%r{place}], [%rd1], 4;")
            if rnd.random() < 0.8:
                self.lines.append("cp.async.commit_group;")
            if rnd.random() < 0.6:
                self.lines.append(f"cp.async.wait_group {rnd.choice((0, 0, 1, 2))};")
        elif rnd.random() < 0.5:
            self.lines.append(f"{guard}st.shared.{size} [%r{place}{offset}], {rnd.choice(self.values)};")
        else:
            self.lines.append(f"{guard}ld.shared.{size} %r399, [%r{place}{offset}];")

    def predicate(self) -> str:
        rnd = self.random
        name = f"%p{self.preds}"
        left = rnd.choice((*self.values, "%r1", "%r1", "%r9"))
        word = rnd.choice(("lt.u32", "ge.u32", "eq.s32", "ne.s32", "lt.s32", "gt.s32"))
        self.lines.append(f"setp.{word} {name}, {left}, {self.operand()};")
        self.preds += 1
        return name

    def branch(self, depth: int) -> None:
        rnd = self.random
        pred = self.predicate()
        self.labels += 2
        other, end = f"$L{self.labels}", f"$L{self.labels + 1}"
        self.labels += 1
        if rnd.random() < 0.12:
            self.lines.append(f"@{pred} {rnd.choice(('ret', 'exit'))};")
            return
        self.lines.append(f"@{rnd.choice(('', '!'))}{pred} bra {other};")
        for _ in range(rnd.randint(1, 3)):
            self.statement(depth + 1)
        if rnd.random() < 0.5:
            self.lines.append(f"bra {end};")
            self.lines.append(f"{other}:")
            for _ in range(rnd.randint(1, 2)):
                self.statement(depth + 1)
            self.lines.append(f"{end}:")
        else:
            self.lines.append(f"{other}:")

    def loop(self, depth: int) -> None:
        rnd = self.random
        self.labels += 2
        head, end = f"$L{self.labels}", f"$L{self.labels + 1}"
        self.labels += 1
        counter = f"%r{10 + self.counters}"
        self.counters += 1
        start = rnd.choice(("0", "0", "1", "%r1"))
        limit, step = rnd.choice((("%r9", "1"), ("%r9", "1"), ("3", "1"), ("4", "2"), ("90", "32"), ("6", "1")))
        if start == "%r1" and limit != "90":
            start = "0"
        self.lines.append(f"mov.u32 {counter}, {start};")
        self.lines.append(f"{head}:")
        pred = self.predicate()
        self.lines[-1] = f"setp.ge.{rnd.choice('su')}32 {pred}, {counter}, {limit};"
        self.lines.append(f"@{pred} bra {end};")
        self.values.append(counter)
        for _ in range(rnd.randint(1, 4)):
            self.statement(depth + 1)
        if rnd.random() < 0.4:
            self.lines.append("xor.b32 %r2, %r2, 1;")
        self.values.remove(counter)
        self.lines.append(f"add.u32 {counter}, {counter}, {step};")
        self.lines.append(f"bra {head};")
        self.lines.append(f"{end}:")
