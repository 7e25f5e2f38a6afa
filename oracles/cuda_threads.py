"""What each thread of a kernel does that NVRTC compiled: PTX carried out line by line, on Python's numbers.

Shares no code with `hosts.ptx` and `hosts.isa`. As in `ptx_threads`, what one thread does never depends on another one:
loads give an unknown number, and an unknown number in an address or a branch ends the run with `Unknown`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from oracles.ptx_threads import NEVER, Event, Trace, wrong_between

MOST_STEPS = 40_000
GLOBAL = 1 << 40  # where memory begins that is not shared
SIZES = {"b8": 1, "u8": 1, "s8": 1, "b16": 2, "u16": 2, "s16": 2, "f16": 2, "b32": 4, "u32": 4, "s32": 4, "f32": 4}
SIZES |= {"b64": 8, "u64": 8, "s64": 8, "f64": 8}
_ENTRY = re.compile(r"\.entry\s+([\w$]+)\s*\((.*?)\)\s*(.*?)\{\n(.*?)\n\}\n", re.DOTALL)
_ARRAY = re.compile(r"\.shared\s+(?:\.align\s+(\d+)\s+)?\.(\w+)\s+([\w$]+)(?:\[(\d*)\])?")
_ADDRESS = re.compile(r"\[\s*([^\s+\]]+)\s*(?:\+\s*(-?\d+))?\s*\]")


class Unknown(Exception):
    """The run depends on what was loaded, or on an instruction that is not known here."""


class Aborted(Exception):
    """A thread aborts the launch: nothing that any thread did counts."""


@dataclass(frozen=True)
class Kernel:
    """Instructions, each with its guard, its words and its operands; labels by name."""

    name: str
    code: tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...]
    labels: dict[str, int]
    arrays: dict[str, int]


def kernels_of(text: str) -> Iterator[Kernel]:
    text = re.sub(r"//[^\n]*", "", text)
    outside = list(_ARRAY.finditer(_ENTRY.sub("", text)))
    for name, _, _, body in _ENTRY.findall(text):
        arrays, free = {}, 4096
        for found in (*outside, *_ARRAY.finditer(body)):
            if found[3] not in arrays:
                arrays[found[3]] = free
                free = -(-(free + SIZES[found[2]] * int(found[4] or 1 << 14)) // 1024) * 1024
        code, labels = [], {}
        for line in _statements(body):
            label = re.match(r"([\w$]+):\s*", line)
            if label:
                labels[label[1]] = len(code)
                line = line[label.end() :]
            if line and not line.startswith("."):
                code.append(_split(line))
        yield Kernel(name, tuple(code), labels, arrays)


def _statements(body: str) -> Iterator[str]:
    """Between semicolons; directives of places end with their line."""
    body = re.sub(r"(?m)^\s*\.(?:loc|file|pragma)\b[^\n]*$", "", body)
    for part in body.replace("{\n", "\n").replace("\n}", "\n").split(";"):
        line = " ".join(part.split())
        line = re.sub(r"^[{} ]+", "", line) if not re.match(r"\{\s*%", line) else line
        while label := re.match(r"([\w$]+:) ?(?=\S)", line):
            yield label[1]
            line = line[label.end() :]
        if line:
            yield line


def _split(line: str) -> tuple[str, tuple[str, ...], tuple[str, ...]]:
    guard = ""
    if line.startswith("@"):
        guard, _, line = line.partition(" ")
    word, _, rest = line.partition(" ")
    given = re.findall(r"\{[^}]*\}|\[[^\]]*\]|[^,\s][^,]*", rest)
    return guard, tuple(word.split(".")), tuple(each.strip() for each in given)


class _Thread:
    def __init__(self, kernel: Kernel, place: tuple[int, int, int], block: tuple[int, int, int], n: int) -> None:
        self.kernel, self.n = kernel, n
        self.thread = place[0] + block[0] * (place[1] + block[1] * place[2])
        self.registers: dict[str, int | None] = dict(kernel.arrays)
        for axis, at, size in zip("xyz", place, block, strict=True):
            self.registers |= {f"%tid.{axis}": at, f"%ntid.{axis}": size, f"%ctaid.{axis}": 0, f"%nctaid.{axis}": 1}
        self.registers |= {"%laneid": self.thread % 32, "WARP_SZ": 32}
        self.trace = Trace(warps=[0])
        self.counts: dict[int, int] = {}
        self.groups: list[list[Event]] = [[]]
        self.step = 0

    def run(self) -> Trace:
        at = 0
        for self.step in range(MOST_STEPS):
            if at >= len(self.kernel.code):
                return self.trace
            guard, words, given = self.kernel.code[at]
            at += 1
            if guard:
                held = self.registers.get(guard.lstrip("@!"))
                if held is None:
                    raise Unknown(f"guard {guard} of {words}")
                if bool(held) == guard.startswith("@!"):
                    continue
            if words[0] in ("ret", "exit"):
                return self.trace
            if words[0] == "trap":
                raise Aborted
            if words[0] == "bra":
                at = self.kernel.labels[given[0]]
            elif words[0] in ("bar", "barrier"):
                self.meet(words, at)
            elif words[0] in ("ld", "st", "atom", "red", "cp"):
                self.access(words, given, at)
            else:
                self.compute(words, given)
        raise RuntimeError("a thread that does not end")

    # --- values ---

    def value(self, name: str) -> int | None:
        if name in self.registers:
            return self.registers[name]
        if re.fullmatch(r"-?(0[xX][0-9a-fA-F]+U?|\d+U?)", name):
            return int(name.rstrip("U"), 0)
        if name.startswith(("0f", "0d")):
            return int(name[2:], 16)
        return None

    def put(self, name: str, value: int | None, kind: str = "b64") -> None:
        for each in re.findall(r"[%\w.$]+", name) if name.startswith("{") else [name]:
            self.registers[each] = None if value is None else value & ((1 << 8 * SIZES.get(kind, 8)) - 1)

    def compute(self, words: tuple[str, ...], given: tuple[str, ...]) -> None:
        word, kind = words[0], words[-1]
        if word in ("membar", "fence"):
            return
        if word == "setp":
            self.compare(words, given)
            return
        if kind[0] == "f" or kind.startswith("bf") or word in ("shfl", "vote", "activemask", "match", "redux"):
            for each in given[0].split("|"):
                self.put(each, None)
            if word == "mov":
                self.put(given[0], self.value(given[1]), kind)
            return
        if word in ("mov", "cvta", "selp", "cvt") and word != "selp":
            value = self.value(given[1])
            if word == "cvt":
                value = None if words[-2][0] == "f" else _as(value, kind)
                kind = words[-2]
            self.put(given[0], value, kind if kind in SIZES else "b64")
            return
        args = [self.value(each) for each in given[1:]]
        if word == "selp":
            chosen = args[0] if args[2] else args[1]
            self.put(given[0], None if args[2] is None else chosen, kind)
            return
        found = _OPS.get(word)
        if found is None or any(each is None for each in args):
            self.put(given[0].partition("|")[0], None)
            return
        width = 2 * SIZES[kind] if "wide" in words else SIZES.get(kind, 8)
        numbers = [_as(each, kind) for each in args]
        if word in ("shl", "shr", "bfe", "bfi"):
            numbers[1:] = args[1:]
        result = found(numbers, words)
        self.registers[given[0]] = result & ((1 << 8 * width) - 1) if kind != "pred" else int(bool(result & 1))

    def compare(self, words: tuple[str, ...], given: tuple[str, ...]) -> None:
        kind, test = words[-1], words[1]
        one, other = (_as(self.value(each), kind) for each in given[1:3])
        found: int | None = None
        if one is not None and other is not None and kind[0] != "f":
            found = int(_TESTS[test](one, other))
            if len(given) > 3:
                third = given[3].removeprefix("!")
                more = self.registers.get(third)
                more = None if more is None else more ^ given[3].startswith("!")
                join = {"and": lambda a, b: a & b, "or": lambda a, b: a | b, "xor": lambda a, b: a ^ b}[words[2]]
                found = None if more is None else join(found, more)
        first, _, second = given[0].partition("|")
        self.registers[first] = found
        if second:
            self.registers[second] = None if found is None else 1 - found

    # --- meetings and accesses ---

    def meet(self, words: tuple[str, ...], at: int) -> None:
        if "warp" in words:
            self.trace.warps[-1] += 1
            return
        if "sync" not in words:
            raise Unknown(".".join(words))
        self.trace.barriers.append(at)
        self.trace.warps.append(0)

    def access(self, words: tuple[str, ...], given: tuple[str, ...], at: int) -> None:
        if words[0] == "cp":
            self.copy(words, given, at)
            return
        writes, reads = words[0] != "ld", words[0] in ("ld", "atom")
        kind = words[-1]
        size = SIZES[kind] * (int(words[-2][1]) if words[-2] in ("v2", "v4") else 1)
        if "param" in words:
            value = self.n if size == 4 else GLOBAL
            self.put(given[0], value, kind)
            return
        place = given[1] if reads else given[0]
        if "global" not in words and "local" not in words and "const" not in words:
            address = self.address(place)
            if address < GLOBAL:
                stored = self.value(given[1]) if words[0] == "st" and not given[1].startswith("{") else None
                how = ".".join(words[-2:]) if words[0] in ("atom", "red") else ""
                self.event(at, writes, address, size, stored, atomic=how)
        if reads:
            self.put(given[0], None)

    def address(self, text: str) -> int:
        found = _ADDRESS.fullmatch(text)
        base = self.value(found[1]) if found else None
        if found is None or base is None:
            raise Unknown(f"address {text}")
        return base + int(found[2] or 0)

    def event(
        self,
        at: int,
        writes: bool,
        first: int,
        size: int,
        stored: int | None,
        atomic: str = "",
        is_copy: bool = False,
    ) -> Event:
        self.counts[at] = self.counts.get(at, 0) + 1
        value = -2 - self.thread if stored is None else stored
        where = (len(self.trace.barriers), self.trace.warps[-1])
        found = Event(self.thread, at, self.counts[at], writes, first, size, value, *where, self.step)
        found.atomic, found.is_copy = atomic, is_copy
        self.trace.events.append(found)
        return found

    def copy(self, words: tuple[str, ...], given: tuple[str, ...], at: int) -> None:
        if "commit_group" in words:
            self.groups.append([])
        elif "wait_group" in words or "wait_all" in words:
            left = int(given[0]) if "wait_group" in words else 0
            over = len(self.groups) - 1 - left if "wait_group" in words else len(self.groups)
            for each in (one for group in self.groups[: max(0, over)] for one in group):
                if each.done == NEVER:
                    each.until, each.done = (len(self.trace.barriers), self.trace.warps[-1]), self.step
        else:
            size = int(given[2])
            self.groups[-1].append(self.event(at, True, self.address(given[0]), size, None, is_copy=True))


def _as(value: int | None, kind: str) -> int | None:
    """As a number of this type."""
    if value is None or kind not in SIZES:
        return value
    bits = 8 * SIZES[kind]
    value &= (1 << bits) - 1
    return value - (1 << bits) if kind[0] == "s" and value >> (bits - 1) else value


def _lop3(args: list[int], _: tuple[str, ...]) -> int:
    a, b, c, table = args
    found = 0
    for bit in range(32):
        place = (a >> bit & 1) << 2 | (b >> bit & 1) << 1 | (c >> bit & 1)
        found |= (table >> place & 1) << bit
    return found


def _prmt(args: list[int], _: tuple[str, ...]) -> int:
    pool = (args[0] & 0xFFFFFFFF) | (args[1] & 0xFFFFFFFF) << 32
    found = 0
    for place in range(4):
        choice = args[2] >> 4 * place & 15
        byte = pool >> 8 * (choice & 7) & 255
        found |= (255 if byte >> 7 else 0 if choice & 8 else byte) << 8 * place if choice & 8 else byte << 8 * place
    return found


def _bfe(args: list[int], words: tuple[str, ...]) -> int:
    at, count = args[1] & 255, args[2] & 255
    found = (args[0] & 0xFFFFFFFF) >> at & ((1 << count) - 1)
    return found - (1 << count) if words[-1][0] == "s" and count and found >> (count - 1) else found


def _bfi(args: list[int], _: tuple[str, ...]) -> int:
    inner, outer, at, count = args
    mask = ((1 << count) - 1) << at
    return outer & ~mask | inner << at & mask


def _shf(args: list[int], words: tuple[str, ...]) -> int:
    low, high, by = (each & 0xFFFFFFFF for each in args)
    by = min(by, 32) if "clamp" in words else by & 31
    both = high << 32 | low
    return both >> (32 - by) & 0xFFFFFFFF if "l" in words else both >> by & 0xFFFFFFFF


def _divide(a: int, b: int) -> int:
    return 0xFFFFFFFF if not b else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


_OPS: dict[str, Callable[[list[int], tuple[str, ...]], int]] = {
    "add": lambda a, w: a[0] + a[1],
    "sub": lambda a, w: a[0] - a[1],
    "mul": lambda a, w: (a[0] * a[1]) >> (8 * SIZES[w[-1]] if "hi" in w else 0),
    "mad": lambda a, w: ((a[0] * a[1]) >> (8 * SIZES[w[-1]] if "hi" in w else 0)) + a[2],
    "and": lambda a, w: a[0] & a[1],
    "or": lambda a, w: a[0] | a[1],
    "xor": lambda a, w: a[0] ^ a[1],
    "not": lambda a, w: ~a[0],
    "neg": lambda a, w: -a[0],
    "abs": lambda a, w: abs(a[0]),
    "shl": lambda a, w: a[0] << a[1] if a[1] < 64 else 0,
    "shr": lambda a, w: a[0] >> min(a[1], 64),
    "min": lambda a, w: min(a[0], a[1]),
    "max": lambda a, w: max(a[0], a[1]),
    "div": lambda a, w: _divide(a[0], a[1]),
    "rem": lambda a, w: a[0] - a[1] * _divide(a[0], a[1]) if a[1] else a[0],
    "popc": lambda a, w: (a[0] & 0xFFFFFFFF).bit_count(),
    "lop3": _lop3,
    "prmt": _prmt,
    "bfe": _bfe,
    "bfi": _bfi,
    "shf": _shf,
}
_TESTS: dict[str, Callable[[int, int], bool]] = {
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lo": lambda a, b: a < b,
    "ls": lambda a, b: a <= b,
    "hi": lambda a, b: a > b,
    "hs": lambda a, b: a >= b,
}


def is_wrong(kernel: Kernel, block: tuple[int, int, int], n: int) -> str:
    """What is wrong in a run with this argument; empty if nothing is."""
    places = ((x, y, z) for z in range(block[2]) for y in range(block[1]) for x in range(block[0]))
    try:
        return wrong_between([_Thread(kernel, place, block, n).run() for place in places])
    except Aborted:
        return ""
