"""Hostile surroundings for `hostile_runs`: deep and long programs, names, special files, disks, interruptions."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

from oracles.hostile.hostile_inputs import (
    GENERIC,
    PYTHON,
    QUICK,
    SLOWER,
    TARGET,
    TIDE,
    Case,
    case,
    damaged,
    damaged_target,
    options,
    ptx,
    python,
    texts,
)

# --- deep and many --------------------------------------------------------------------------------------------------


def deep(rng: random.Random) -> Case:
    """Something in itself, many times."""
    depth = rng.choice((30, 70, 400, 3000, 50_000))
    one, other, form = rng.choice(_NESTS)
    text = one.replace("{N}", str(depth)) if "{N}" in one else other.replace("INSIDE", one * depth)
    if "CLOSE" in text:
        text = text.replace("CLOSE", "}" * depth)
    return case(rng.choice((*QUICK, *SLOWER)), f"k.{form}", text)


_BODY = "target gfx942\nkernel @k() waves 4 {\n INSIDE CLOSE\n}\n"
_INDEX = "target gfx942\nkernel @k() waves 4 {\n %a = let INSIDE wave\n}\n"
_MODULE = (
    'module attributes {MORE"ttg.num-warps" = 4 : i32, ttg.target = "cuda:80", "ttg.threads-per-warp" = 32 : i32} {'
)
_FUNCTION = "\ntt.func public @k(%c: i1) {\nINSIDE CLOSE\ntt.return\n}\n}\n"
_NESTS: tuple[tuple[str, str, str], ...] = (
    ("conditional wave < 2 { ", _BODY, "tide"),
    ("iterate %i in 0 .. 4 { ", _BODY, "tide"),
    ("(", _INDEX, "tide"),
    ("-", _INDEX, "tide"),
    ("min(1, ", _INDEX, "tide"),
    ("1 + ", _INDEX, "tide"),
    ("select(true, ", "graph @g target none waves 1 { 0: assign %a = INSIDE 1 }", "sync"),
    ("either(true, ", "graph @g target none waves 1 { 0: assign %a = INSIDE 1 }", "sync"),
    ("not ", "graph @g target none waves 1 { 0: branch INSIDE true -> 0 }", "sync"),
    ("scf.if %c {\n", _MODULE.replace("MORE", "") + _FUNCTION, "ttgir"),
    ("[", _MODULE.replace("MORE", "a = INSIDE, ") + "\ntt.func public @k() {\ntt.return\n}\n}\n", "ttgir"),
    ("tuple<", _MODULE.replace("MORE", "") + "\ntt.func public @k(%a: INSIDE) {\ntt.return\n}\n}\n", "ttgir"),
    ('"scf.if"(%c) ({\n', GENERIC.replace('"tt.return"', 'INSIDE "tt.return"'), "mlir"),
    ("#ttg.slice<{dim = 0, parent = ", GENERIC.replace("#a = ", "#a = INSIDE"), "mlir"),
    ("tuple<", GENERIC.replace("!m = ", "!m = INSIDE"), "mlir"),
    ("(", PYTHON + "\nx = INSIDE\n", "py"),
    ("[", PYTHON + "\nx = INSIDE\n", "py"),
    ("-", PYTHON + "\nx = INSIDE 1\n", "py"),
    ("if True:\n", PYTHON + "\nINSIDE\n", "py"),
)


def many(rng: random.Random) -> Case:
    """One thing after the other, many times: names that are made of names, aliases, buffers, kernels."""
    make = rng.choice(_LONG)
    # A program of thousands of operations may take its time; one that is refused may not.
    count = rng.choice((50, 300, 1000, 20_000) if make in (_doubled, _aliases, _encodings) else (50, 300, 1000))
    text, form = make(count)
    return case(rng.choice(QUICK if count > 300 else (*QUICK, *SLOWER[:10])), f"k.{form}", text)


def _lets(count: int) -> tuple[str, str]:
    lines = "".join(f"  %a{n} = let %a{n - 1} + wave\n" for n in range(1, count))
    return TIDE.replace("  %tile", f"  %a0 = let wave\n{lines}  %tile").replace(
        "[(wave +", f"[(%a{count - 1} +"
    ), "tide"


def _doubled(count: int) -> tuple[str, str]:
    """Each name is twice the one before: the last one would be an expression larger than any memory."""
    lines = "".join(f"  %a{n} = let %a{n - 1} + %a{n - 1} mod 7\n" for n in range(1, count))
    return TIDE.replace("  %tile", f"  %a0 = let wave\n{lines}  %tile").replace(
        "[(wave +", f"[(%a{count - 1} +"
    ), "tide"


def _buffers(count: int) -> tuple[str, str]:
    lines = "".join(f"  %t{n} = alloc : lds<4x1xf32>\n" for n in range(count))
    return TIDE.replace("  %tile", f"{lines}  %tile"), "tide"


def _kernels(count: int) -> tuple[str, str]:
    return "target gfx942\n" + "".join(f"kernel @k{n}() waves 4 {{}}\n" for n in range(count)), "tide"


def _alike(count: int) -> tuple[str, str]:
    return "target gfx942\n" + "kernel @k() waves 4 {}\n" * count, "tide"


def _points(count: int) -> tuple[str, str]:
    lines = "".join(f"{n}: goto {n + 1}\n" for n in range(count))
    return f"graph @g target none waves 4 {{\n{lines}{count}: end }}", "sync"


def _aliases(count: int) -> tuple[str, str]:
    lines = [f"!a{n} = tuple<!a{n - 1}, !a{n - 1}>" for n in range(1, count)]
    return "\n".join(["!a0 = tuple<i32>", *lines, GENERIC.replace("%c: i1", f"%c: !a{count - 1}")]), "mlir"


def _encodings(count: int) -> tuple[str, str]:
    lines = [f"#e{n} = #ttg.slice<{{dim = 0, parent = #e{n - 1}, more = #e{n - 1}}}>" for n in range(1, count)]
    return "\n".join(["#e0 = #e1", *lines, GENERIC.replace("#a = #ttg.blocked", f"#a = #e{count - 1} #ttg.x")]), "mlir"


def _constants(count: int) -> tuple[str, str]:
    lines = "".join(f"%x{n} = arith.constant {n} : i32\n" for n in range(count))
    return _MODULE.replace("MORE", "") + f"\ntt.func public @k() {{\n{lines}tt.return\n}}\n}}\n", "ttgir"


_LONG: tuple[Callable[[int], tuple[str, str]], ...] = (
    *(_lets, _lets, _doubled, _buffers, _kernels, _alike, _points, _aliases, _encodings, _constants),
)


# --- names ----------------------------------------------------------------------------------------------------------

_STEMS = (
    *(
        b"\x1b[31mred",
        b"\x1b]0;title\x07",
        b"\xff\xfe",
        b"a\nb",
        b"a\rb",
        b"a b",
        b"--json",
        b"-o",
        b"'",
        b'"',
        b"a" * 250,
    ),
    *(
        b"\xc2\x9b31m",
        b"\xe2\x80\xae",
        b"k::x",
        b"::",
        b"%s",
        b"{x}",
        b"~",
        b"$HOME",
        b"*",
        b".",
        b"\\",
        b"a\tb",
        b"\x7f",
    ),
)


def names(rng: random.Random) -> Case:
    """Files that are called as none should be; now and then they hold such names, too."""
    compiled = tuple((form, texts(form)[0]) for form in ("ttgir", "ptx"))
    form, content = rng.choice((("tide", TIDE), ("py", PYTHON), ("toml", TARGET), *compiled, ("xyz", "")))
    name = rng.choice(_STEMS) + f".{form}".encode()
    if rng.random() < 0.3:
        content = content.replace("k", rng.choice(("\x1b[2J", "\x9b31m", "\u202e", "\x07", "é")), 1)
    verb = "targets FILE" if form == "toml" else rng.choice((*QUICK, *SLOWER))
    args = tuple(name if word == "FILE" else word.encode() for word in verb.split())
    args = tuple(
        rng.choice(_STEMS) + b".html" if word.startswith(b"out.") and rng.random() < 0.5 else word for word in args
    )
    if rng.random() < 0.2:  # names that are not there
        return Case(args)
    return Case(args, ((name, content.encode()),))


# --- special files --------------------------------------------------------------------------------------------------

_ODD = ("fifo", "folder", "socket", "zero", "null", "full", "dangling", "loop", "itself", "link", "mem")


def special(rng: random.Random) -> Case:
    """What is no file at all, in the place of one that is read or of one that is written."""
    kind = rng.choice(_ODD)
    target = {
        "dangling": b"nowhere",
        "loop": b"other",
        "itself": b"k.tide",
        "link": b"real.tide",
        "mem": b"/proc/self/mem",
    }
    odd = ("link" if kind in target else kind, b"odd.tide", target.get(kind, b""))
    more: tuple[tuple[str, bytes, bytes], ...] = (("link", b"other", b"odd.tide"),) if kind == "loop" else ()
    files = ((b"k.tide", TIDE.encode()), (b"real.tide", TIDE.encode()))
    verb = rng.choice((*QUICK, *SLOWER)).replace("FILE", "k.tide")
    if rng.random() < 0.5:
        args = verb.replace("k.tide", "odd.tide")
    elif "out." in verb:
        odd = (odd[0], f"odd{_ending(verb)}".encode(), odd[2] if odd[2] != b"k.tide" else b"real.tide")
        more = (("link", b"other", odd[1]),) if kind == "loop" else ()
        args = " ".join(odd[1].decode() if word.startswith("out.") else word for word in verb.split())
    else:
        args = rng.choice(("check k.tide --target odd.tide", "targets odd.tide", "run k.tide --reference odd.tide"))
    # A device has no end and a link may name an input: what is written through it is not held against the command.
    return Case(tuple(word.encode() for word in args.split()), files, (odd, *more))


def _ending(verb: str) -> str:
    return next(word[3:] for word in verb.split() if word.startswith("out."))


# --- disks ----------------------------------------------------------------------------------------------------------


def _writing(rng: random.Random) -> tuple[str, bytes]:
    """A command that writes a file, and which."""
    verb = rng.choice([each for each in SLOWER if "out." in each])
    if rng.random() < 0.3:
        return rng.choice(("sync k.tide -o k.tide", "show k.tide -o k.tide")), b"k.tide"
    verb = verb.replace("FILE", "k.tide")
    return verb, next(word for word in verb.split() if word.startswith("out.")).encode()


def full_disk(rng: random.Random) -> Case:
    files = ((b"k.tide", TIDE.encode()),)
    if rng.random() < 0.3:  # the output is full, whatever it is
        verb = rng.choice((*QUICK, *SLOWER, "targets", "--help", "--version", "nope")).replace("FILE", "k.tide")
        return Case(tuple(verb.encode().split()), files, sink="full")
    verb, out = _writing(rng)
    return Case(tuple(verb.encode().split()), files, out=out, disk=rng.choice((1, 10, 100, 300, 1000, 5000)))


def locked_folder(rng: random.Random) -> Case:
    verb, out = _writing(rng)
    return Case(tuple(verb.encode().split()), ((b"k.tide", TIDE.encode()),), out=out, is_locked=True)


def interrupted(rng: random.Random) -> Case:
    """Killed, or stopped with Ctrl-C, right at or shortly behind some access to files."""
    verb, out = _writing(rng)
    moment = (rng.randrange(1, 12), rng.choice((0, 20, 100, 400, 2000, 20_000)))
    found = Case(tuple(verb.encode().split()), ((b"k.tide", TIDE.encode()),), out=out, moment=moment)
    return replace(found, by=rng.choice(("kill", "ctrl-c")))


CLASSES: dict[str, Callable[[random.Random], Case]] = {
    "damaged-tide": damaged("tide"),
    "damaged-sync": damaged("sync"),
    "damaged-ttgir": damaged("ttgir"),
    "damaged-mlir": damaged("mlir"),
    "damaged-python": damaged("py"),
    "damaged-ptx": damaged("ptx"),
    "damaged-cuda": damaged("cu"),
    "damaged-target": damaged_target,
    "ptx": ptx,
    "options": options,
    "python": python,
    "deep": deep,
    "many": many,
    "names": names,
    "special": special,
    "full-disk": full_disk,
    "locked-folder": locked_folder,
    "interrupted": interrupted,
}
