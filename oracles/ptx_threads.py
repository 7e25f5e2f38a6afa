"""Random PTX kernels, and what each of their threads does, one thread after the other.

Shares no code with `hosts.isa`: instructions are carried out on Python's numbers, by a loop over lines. Loads give
nothing back, so that what one thread does never depends on another one. Two accesses of different threads clash if they
touch a byte, one of them writes, and no barrier lies between them: of the block, or, in one warp, of the warp. A copy
lasts until its own thread has waited for its group.
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass, field

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


def run_thread(text: str, thread: int, threads: int, n: int) -> Trace:
    lines = [line.strip() for line in text.split("\n")]
    labels = {line[:-1]: number for number, line in enumerate(lines) if line.endswith(":")}
    start = next(number for number, line in enumerate(lines) if line == "{") + 1
    registers: dict[str, int] = {"%tid.x": thread, "%ntid.x": threads, "a": 4096, "b": 16384}
    trace, counts = Trace(warps=[0]), dict[int, int]()
    place = start
    groups: list[list[Event]] = [[]]
    for step in range(MOST_STEPS):
        line = lines[place]
        place += 1
        if not line or line.endswith(":") or line.startswith((".", "//")):
            continue
        guard = re.match(r"@(!?)(%p\d+)\s+(.*)", line)
        if guard:
            if bool(registers.get(guard[2], 0)) == bool(guard[1]):
                continue
            line = guard[3]
        opcode, _, rest = line.rstrip(";").partition(" ")
        given = [each.strip() for each in rest.split(",")] if rest else []
        if opcode in ("ret", "exit"):
            return trace
        if opcode == "bra":
            place = labels[given[0]]
        elif opcode == "bar.sync":
            trace.barriers.append(place)
            trace.warps.append(0)
        elif opcode == "bar.warp.sync":
            trace.warps[-1] += 1
        elif opcode == "cp.async.commit_group":
            groups.append([])
        elif opcode == "cp.async.wait_group":
            over = max(0, len(groups) - 1 - int(given[0]))  # the last one is still open
            for event in (each for group in groups[:over] for each in group):
                if event.done == NEVER:
                    event.until, event.done = (len(trace.barriers), trace.warps[-1]), step
        elif opcode == "cp.async.ca.shared.global":
            counts[place] = counts.get(place, 0) + 1
            first = registers[given[0][1:-1]]
            where = (len(trace.barriers), trace.warps[-1])
            copy = Event(thread, place, counts[place], True, first, 4, -1, *where, step, True)
            trace.events.append(copy)
            groups[-1].append(copy)
        elif opcode.startswith(("st.shared", "ld.shared")):
            counts[place] = counts.get(place, 0) + 1
            writes = opcode.startswith("st")
            address = re.match(r"\[([%\w.]+)(?:\+(\d+))?\]", given[0] if writes else given[1])
            assert address is not None
            first = value_of(address[1], registers) + int(address[2] or 0)
            stored = value_of(given[1], registers) if writes else 0
            size = {"u32": 4, "u16": 2, "u8": 1, "b64": 8}[opcode.split(".")[-1]]
            where = (len(trace.barriers), trace.warps[-1])
            trace.events.append(Event(thread, place, counts[place], writes, first, size, stored, *where, step))
            if not writes:
                registers[given[0]] = 0  # never used
        elif opcode == "ld.param.u32":
            registers[given[0]] = n
        else:
            compute(opcode, given, registers)
    raise RuntimeError("a thread that does not end")


def value_of(name: str, registers: dict[str, int]) -> int:
    return registers[name] if name in registers else int(name, 0) & 0xFFFFFFFF


def signed(value: int) -> int:
    return value - (1 << 32) if value & 0x80000000 else value


def compute(opcode: str, given: list[str], registers: dict[str, int]) -> None:
    word, *kinds = opcode.split(".")
    args = [value_of(each, registers) for each in given[1:]]
    if word == "setp":
        one, other = (signed(each) for each in args[:2]) if kinds[-1][0] == "s" else args[:2]
        tests = {"lt": one < other, "ge": one >= other, "eq": one == other, "ne": one != other, "gt": one > other}
        registers[given[0]] = int(tests[kinds[0]])
        return
    a, c = args[0], args[1] if len(args) > 1 else 0
    found = {
        "mov": lambda: a,
        "add": lambda: a + c,
        "sub": lambda: a - c,
        "mul": lambda: a * c,
        "mad": lambda: a * c + args[2],
        "and": lambda: a & c,
        "or": lambda: a | c,
        "xor": lambda: a ^ c,
        "shl": lambda: a << c if c < 32 else 0,
        "shr": lambda: a >> c if c < 32 else 0,
        "rem": lambda: a % c if c else a,
        "div": lambda: a // c if c else 0xFFFFFFFF,
        "min": lambda: min(a, c),
        "selp": lambda: a if args[2] else c,
    }[word]()
    registers[given[0]] = found & 0xFFFFFFFF


# --- races --------------------------------------------------------------------------------------------------------


def is_wrong(text: str, threads: int, n: int) -> str:
    """What is wrong with a run: a race between two threads, or threads that do not meet; empty if nothing is."""
    traces = [run_thread(text, thread, threads, n) for thread in range(threads)]
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
    if not (one.writes or other.writes):
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
