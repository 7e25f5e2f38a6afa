"""What a user may type, at its worst: command lines and the files beside them, drawn from a seed.

Each class of them is a generator in `CLASSES`: from random numbers to a `Case`, which `hostile_runs` carries out. The
programs that are damaged are small, so that no run has a reason to take long.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

from oracles.hostile.hostile_ptx import BLOCKS, TEXTS, damage_ptx, deep_ptx, garbage, long_ptx
from oracles.programs.damaged_text import ROOT, WORDS, corpus, damage

OLD = b"what was here before\n"
OUT = ("out.tide", "out.html", "out.svg", "out.npz", "out.json")


@dataclass(frozen=True, slots=True)
class Case:
    """One command in a folder of its own.

    `odd`: what lies there besides files: a kind, a name, and what a link points to. `out`: a file that the command
    writes, which holds `OLD` before: afterwards it holds that, or all that the command writes if nothing disturbs it.
    `disk`: how large a file may become. `sink`: where the output goes. `is_locked`: the folder cannot be written to.
    `moment`: at which of its accesses to files the command is interrupted, and how many microseconds later; `by` kills
    it or is Ctrl-C.
    """

    args: tuple[bytes, ...]
    files: tuple[tuple[bytes, bytes], ...] = ()
    odd: tuple[tuple[str, bytes, bytes], ...] = ()
    out: bytes = b""
    disk: int = 0
    sink: str = ""
    is_locked: bool = False
    moment: tuple[int, int] | None = None
    by: str = ""


def case(args: str, file: str = "", content: str | bytes = b"", **more: object) -> Case:
    """A case with one file, of which the command line speaks as `FILE`."""
    data = content if isinstance(content, bytes) else content.encode("utf-8", errors="surrogatepass")
    words = tuple((file if word == "FILE" else word).encode() for word in args.split())
    return Case(words, ((file.encode(), data),) if file else (), **more)  # type: ignore[arg-type]


# --- programs -------------------------------------------------------------------------------------------------------

TIDE = """\
target gfx942
kernel @k(%X: global<Nx4x64xf32>, %Y: global<Nx4x64xf32>)
    sizes(N = 2, K = 3)
    where(K >= 1)
    grid(N)
    waves 4 {
  %tile = alloc : lds<4x64xf32>
  iterate %i in 0 .. K {
    %a = global_read %X[wg0, wave, 0] : tile<64xf32>
    local_write %a, %tile[wave, 0]
    %b = local_read %tile[(wave + 1) mod 4, 0] : tile<64xf32>
    global_write %b, %Y[wg0, wave, 0]
  }
}
"""
PYTHON = (ROOT / "examples" / "wave_private.py").read_text(encoding="utf-8")
TARGET = (ROOT / "src" / "tidegate" / "targets" / "gfx1100.toml").read_text(encoding="utf-8")
# Beside those of all forms, commands that take longer: for the smaller programs.
QUICK = ("check FILE", "check --json FILE", "check --sarif FILE", "show FILE", "show --print-after graph FILE")
SLOWER = (
    *("sync FILE", "sync --json FILE", "sync --diff FILE", "sync FILE -o out.tide", "check --advice FILE"),
    *("explain FILE", "explain --json FILE", "schedule FILE", "schedule --json FILE", "run FILE", "run --cycles FILE"),
    *("run --in-order FILE", "run FILE --trace out.json", "run FILE -o out.npz", "draw FILE -o out.html"),
    *(
        "draw FILE -o out.svg",
        "draw FILE --trace out.json",
        "sync --remove-redundant FILE",
        "sync --tighten-waits FILE",
    ),
    *("sync --async-deps FILE", "sync --force-barriers FILE", "sync --no-judge FILE", "sync --bisect 1 FILE"),
)
SMALL = 1400  # characters of a program for which the slower commands are quick


@cache
def texts(form: str) -> tuple[str, ...]:
    """Programs in one form."""
    kernels = [text for text in corpus() if not text.lstrip().startswith("graph")]
    if form == "tide":
        return tuple(kernels)
    if form == "ptx":
        return TEXTS
    if form == "sync":
        return tuple(text for text in corpus() if text.lstrip().startswith("graph"))
    if form == "py":
        files = sorted((ROOT / "examples").glob("*.py"), key=lambda path: path.stat().st_size)
        return tuple(path.read_text(encoding="utf-8") for path in files[:8])
    if form == "cu":
        return tuple(path.read_text(encoding="utf-8") for path in sorted((ROOT / "examples" / "cuda").glob("*.cu")))
    files = sorted((ROOT / "tests" / "ttgir").glob("*.ttgir"), key=lambda path: path.stat().st_size)
    if form == "ttgir":
        return tuple(path.read_text(encoding="utf-8") for path in files[:4])
    return (GENERIC,)


OF_PTX = (
    *("check FILE", "check FILE", "check FILE", "check --json FILE", "check --sarif FILE", "check FILE --block 64"),
    *(
        "check FILE --block 16x16",
        "check FILE --arg 0=64",
        "check FILE --arg 1=0x7 --arg n=-1",
        "check --advice FILE",
        "show FILE",
        "show FILE -o out.sync",
        "check FILE::k",
    ),
    *("check --print-after graph FILE", "check --target sm_90 FILE", "check --explore FILE", "check FILE::nope"),
    *("sync FILE", "explain FILE", "schedule FILE", "run FILE", "draw FILE -o out.html", "sync FILE -o FILE"),
)

OF_CUDA = (
    *("check FILE --block 32x8", "check FILE --block 32x8 --json", "check FILE --block 256 --sarif", "check FILE"),
    *("check FILE --block 32x8 -D N=3 -I .", "check FILE --block 64 --arch sm_90", "check FILE --std c++20 --block 32"),
    *("check FILE --block 32 --arch sm_1", "check FILE --std pascal --block 32", "check FILE -D =3 --block 32"),
    *("check FILE::k<3> --block 32x8", "check FILE::nope --block 32x8", "show FILE --block 32x8", "sync FILE -o FILE"),
)


def ptx(rng: random.Random) -> Case:
    """PTX that is deep, long or no text, and shapes of blocks that nobody has."""
    kind = rng.randrange(4)
    if kind == 3:
        verb, name = rng.choice(("check", "check --json", "show")), rng.choice(("k.ptx", "k.ptx", "k.ptx::k"))
        words = [*verb.split(), name, "--block", rng.choice(BLOCKS)]
        return Case(tuple(word.encode() for word in words), ((b"k.ptx", rng.choice(TEXTS).encode()),))
    text = (long_ptx, deep_ptx, garbage)[kind](rng)
    return case(rng.choice(("check FILE", "check FILE", "check FILE --block 64", *OF_PTX)), "k.ptx", text)


GENERIC = """\
#s = #ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [0]}>
#a = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>
!m = !ttg.memdesc<128xf32, #s, #ttg.shared_memory, mutable>
"builtin.module"() ({
  "tt.func"() <{function_type = (tensor<128xf32, #a>, i1) -> (), sym_name = "k"}> ({
  ^bb0(%x: tensor<128xf32, #a>, %c: i1):
    %m = "ttg.local_alloc"() {allocation.offset = 0 : i32} : () -> !m
    "scf.if"(%c) ({
      "ttg.local_store"(%x, %m) : (tensor<128xf32, #a>, !m) -> ()
      "scf.yield"() : () -> ()
    }, {
    }) : (i1) -> ()
    %y = "ttg.local_load"(%m) <{operandSegmentSizes = array<i32: 1, 0>}> : (!m) -> tensor<128xf32, #a>
    "tt.return"() : () -> ()
  }) : () -> ()
}) {ttg.target = "cuda:80", "ttg.num-warps" = 4 : i32, "ttg.threads-per-warp" = 32 : i32, ttg.shared = 512 : i32}
: () -> ()
"""


# --- damaged text ---------------------------------------------------------------------------------------------------


def damaged(form: str) -> Callable[[random.Random], Case]:
    def draw(rng: random.Random) -> Case:
        text = rng.choice(texts(form))
        if form in ("py", "ttgir", "mlir"):
            text = _broken(rng, text)
        elif form == "ptx":
            return case(rng.choice(OF_PTX), "k.ptx", damage_ptx(rng, text))
        elif form == "cu":
            return case(rng.choice(OF_CUDA), "k.cu", _broken(rng, text, _CUDA))
        else:
            text = damage(rng, text)
        verbs = QUICK if len(text) > SMALL and form != "ttgir" else (*QUICK, *SLOWER)
        return case(rng.choice(verbs), f"k.{form}", text)

    return draw


_TOKEN = re.compile(r'"[^"\n]*"|[%@#!^]?[\w.]+|\s+|.', re.DOTALL)
_MLIR = (
    *('"', "(", ")", "{", "}", "<{", "}>", "({", "^bb0", "->", ":", "%c", "!m", "#s", "tensor<4xf32>", "i1", "index"),
    *(
        '"scf.if"',
        '"scf.for"',
        '"tt.return"',
        '"cf.br"',
        '"ttg.warp_specialize"',
        '"ttg.barrier"',
        "[^bb0]",
        "scf.yield",
    ),
    *("allocation.offset", "dense<0>", "array<i32: 1>", "loc(#loc)", "#loc = loc(unknown)", "0x7FFFFFFFFFFFFFFF", "//"),
)
_CUDA = (
    *("(", ")", "{", "}", "<<<", ">>>", "template<", "#include <", '#include "k.cu"', "#define N N N", "#if", "/*"),
    *("__shared__", "__global__", "extern", 'asm("', "__syncthreads()", "int main() {}", "while (1);", "\\", 'R"('),
)


def _broken(rng: random.Random, text: str, words: Sequence[str] = _MLIR) -> str:
    """Damage to text that is no kernel language: tokens go, come, change places, are numbers of another size."""
    for _ in range(rng.choice((1, 1, 2, 4))):
        tokens = _TOKEN.findall(text)
        if not tokens:
            return text
        a, b = rng.randrange(len(tokens)), rng.randrange(len(tokens))
        kind = rng.choice(("delete", "double", "swap", "copy", "word", "number", "number", "cut", "line", "line"))
        if kind == "delete":
            del tokens[a]
        elif kind == "double":
            tokens.insert(a, tokens[a])
        elif kind == "swap":
            tokens[a], tokens[b] = tokens[b], tokens[a]
        elif kind == "copy":
            tokens[a] = tokens[b]
        elif kind == "word":
            tokens[a] = rng.choice((*words, *WORDS))
        elif kind == "number":
            places = [place for place, token in enumerate(tokens) if token.isdigit()]
            if places:
                tokens[rng.choice(places)] = rng.choice(("0", "1", "3", "64", "65536", "4294967296", "9" * 30, "-1"))
        elif kind == "cut":
            del tokens[a:]
        else:
            lines = "".join(tokens).split("\n")
            lines.insert(rng.randrange(len(lines)), lines.pop(rng.randrange(len(lines))))
            tokens = ["\n".join(lines)]
        text = "".join(tokens)
    return text


def damaged_target(rng: random.Random) -> Case:
    text = _broken(rng, TARGET)
    verb = rng.choice(("targets FILE", "targets --json FILE", "check k.tide --target FILE", "sync k.tide -t FILE"))
    found = case(verb, "gpu.toml", text)
    return Case(found.args, (*found.files, (b"k.tide", TIDE.encode())))


# --- options --------------------------------------------------------------------------------------------------------

NUMBERS = (
    "-1",
    "0",
    "1",
    "3",
    "100000",
    "1000000007",
    "9" * 19,
    "9" * 400,
    "x",
    "",
    "1e9",
    "nan",
    "inf",
    "٣",
    "-0",
    " 1",
)
NAMES = (
    "",
    "nope",
    "none",
    ".",
    "..",
    "/",
    "gfx",
    "gfx942 ",
    "GFX942",
    "\x1b[31m",
    "é" * 300,
    "a" * 5000,
    "--",
    "../../k",
)
PATHS = (
    "",
    ".",
    "..",
    "/",
    "no/folder/out.html",
    "k.tide/out.html",
    "x" * 300,
    "out",
    "out.xyz",
    "\x1b]0;.svg",
)
SIZES = (
    "N",
    "N=",
    "=4",
    "=",
    "N=4=4",
    "N=-1",
    "N=0",
    "K=100000",
    "N=100000",
    f"K={10**18}",
    f"K={'9' * 500}",
    "Q=4",
    "N=x",
)
OF_VERB = {
    "check": {
        "--seed": NUMBERS,
        "--max-findings": NUMBERS,
        "--size": SIZES,
        "--print-after": NAMES,
        "--stop-after": NAMES,
    },
    "show": {"--print-after": NAMES, "-o": PATHS},
    "sync": {
        "--strategy": NAMES,
        "-o": PATHS,
        "--merge-waits": NAMES,
        "--atomics": NAMES,
        "--stagger": NUMBERS,
        "--print-after": NAMES,
        "--stop-after": NAMES,
        "--bisect": NUMBERS,
        "--max-findings": NUMBERS,
    },
    "explain": {"--atomics": NAMES, "--stagger": NUMBERS, "--max-findings": NUMBERS},
    "schedule": {"--strategy": (*NAMES, *(f"clusters={n}" for n in NUMBERS)), "-o": PATHS, "--stagger": NUMBERS},
    "run": {
        "--seed": NUMBERS,
        "--waves": NUMBERS,
        "--size": SIZES,
        "--trace": PATHS,
        "-o": PATHS,
        "--workgroups": NUMBERS,
        "--reference": PATHS,
    },
    "draw": {"-o": PATHS, "--trace": PATHS, "--size": SIZES, "--strategy": NAMES},
}
FLAGS = {
    "check": ("--json", "--sarif", "--advice"),
    "sync": (
        "--json",
        "--diff",
        "--remove-redundant",
        "--tighten-waits",
        "--async-deps",
        "--force-barriers",
        "--no-judge",
    ),
    "explain": ("--json",),
    "schedule": ("--json", "--prefetch"),
    "run": ("--counters", "--phases", "--in-order", "--cycles", "--cached", "--json"),
    "draw": ("--cached", "--prefetch"),
}


def options(rng: random.Random) -> Case:
    """One to three values that no option was made for, on a program that is as it should be."""
    verb = rng.choice(list(OF_VERB))
    words = [verb, "k.tide"] if rng.random() < 0.95 else [verb]
    for _ in range(rng.choice((1, 1, 2, 3))):
        name = rng.choice([*OF_VERB[verb], "--target"])
        value = rng.choice(OF_VERB[verb].get(name, NAMES))
        words += [f"{name}={value}"] if name.startswith("--") and rng.random() < 0.5 else [name, value]
    words += [flag for flag in FLAGS.get(verb, ()) if rng.random() < 0.2]
    if verb == "draw" and "-o" not in words:
        words += ["-o", "out.html"]
    if rng.random() < 0.1:
        words.append(rng.choice(("--nope", "-", "--", "extra", "-q", "--json=1")))
    return Case(tuple(word.encode() for word in words), ((b"k.tide", TIDE.encode()),))


# --- Python files ---------------------------------------------------------------------------------------------------

KERNEL = "import tidegate as tg\n@tg.kernel(waves=4)\ndef k():\n    {}\n"
MODULES = (
    *("raise ValueError('no')", "raise SystemExit", "import sys; sys.exit(0)", "import sys; sys.exit('words')", "1/0"),
    *(
        "class E(BaseException): pass\nraise E",
        "raise GeneratorExit",
        "assert False",
        "import nope",
    ),
    *(
        "def f(): f()\nf()",
        "x = " + "(" * 300 + ")" * 300,
        "x = " + "-" * 20_000 + "1",
        "x = " + "+".join(["1"] * 30_000),
    ),
    *(
        "",
        "\x0c",
        "x = '\\ud800'",
        "return 1",
        "yield 1",
        "await x",
        "import sys; sys.stdout.close()",
    ),
    *(
        "import sys; sys.stderr.close()",
        "import os; os.close(1)",
        "import sys; sys.setrecursionlimit(40)",
        "def k(): pass",
    ),
    *(
        "import sys; del sys.modules['tidegate']",
        "import warnings; warnings.simplefilter('error')",
        "x: int",
        "\tif 1:\n  x",
    ),
    *("raise Exception('\\x1b]0;x\\x07')",),
    *(
        "class M(type): pass",
        "__name__ = 5",
        "import sys; sys.argv = None",
    ),
)
BODIES = (
    *("raise ValueError('no')", "raise SystemExit(0)", "return 5", "yield 1", "k()", "pass", "...", "import nope"),
    *("tg.alloc(None, None)", "tg.local_read(1)", "tg.nope()", "x = [tg] * 10**6"),
    *(
        "tg.alloc((10**9,), tg.f32)",
        "tg.alloc((-1,), tg.f32)",
        "tg.barrier()",
        "tg.shared_memory_barrier()",
        "global x; x = 1",
    ),
)


def python(rng: random.Random) -> Case:
    if rng.random() < 0.5:
        text = rng.choice(MODULES)
        if rng.random() < 0.5:
            text = rng.choice((f"{PYTHON}\n{text}\n", f"{text}\n{PYTHON}"))
    else:
        text = KERNEL.format(rng.choice(BODIES))
    verb = rng.choice((*QUICK, *SLOWER))
    return case(rng.choice((verb, verb.replace("FILE", "k.py::k"), verb.replace("FILE", "k.py::nope"))), "k.py", text)
