"""The table of effects against Triton itself: names that it knows, and what it makes of each operation.

A probe is a small TTGIR text with one operation. It is compiled with Triton's barrier pass switched off, so that every
barrier in the instructions comes from inside an operation; their order of stores, barriers and loads is compared with
the points that the graph has for the same text. A wrong row would be a missed race or a needless barrier.
"""

from __future__ import annotations

import random
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from tidegate.graph import model as g
from tidegate.graph.parse import parse_graph
from tidegate.graph.show import show_graph
from tidegate.hosts.triton import libtriton
from tidegate.hosts.triton.effects import UsesScratch, _effect, effects
from tidegate.hosts.triton.program import programs_of
from tidegate.hosts.triton.read import read_ttgir
from tidegate.language import ops
from tidegate.simulate.judge import judge
from tidegate.synchronize import synchronize_graph
from tidegate.verify.verify import verify

if not libtriton.is_installed():
    pytest.skip(
        "NOT TESTED: what operations become needs Triton, which is not installed; `pip install tidegate[triton]`",
        allow_module_level=True,
    )

# target → backend, architecture, lanes
GPUS = {
    "sm_80": ("cuda", 80, 32),
    "sm_90": ("cuda", 90, 32),
    "gfx942": ("hip", "gfx942", 64),
    "gfx1201": ("hip", "gfx1201", 32),
    "gfx1250": ("hip", "gfx1250", 32),
}
MOST = ("sm_80", "gfx942", "gfx1201")


# --- texts --------------------------------------------------------------------------------------------------------


def blocked(size: str, lanes: str, warps: str, order: str) -> str:
    return (
        f"#ttg.blocked<{{sizePerThread = [{size}], threadsPerWarp = [{lanes}], "
        f"warpsPerCTA = [{warps}], order = [{order}]}}>"
    )


def text(target: str, body: str, warps: int = 4, **layouts: str) -> str:
    backend, arch, lanes = GPUS[target]
    aliases = "".join(f"#{name} = {layout}\n" for name, layout in layouts.items())
    pointer = "!tt.ptr<f32> {tt.divisibility = 16 : i32, tt.pointer_range = 32 : i32}"
    return (
        f"{aliases}#smem = #ttg.shared_memory\n"
        f'module attributes {{"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = {warps} : i32, '
        f'ttg.target = "{backend}:{arch}", "ttg.threads-per-warp" = {lanes} : i32}} {{\n'
        f"  tt.func public @k(%p: {pointer}, %q: {pointer}, %n: i32) {{\n{body}    tt.return\n  }}\n}}\n"
    )


def shaped(shape: tuple[int, ...], element: str, layout: str) -> str:
    return f"tensor<{'x'.join(map(str, shape))}x{element}, {layout}>"


def pointers(name: str, base: str, shape: tuple[int, ...], layout: str) -> str:
    """`%name`: where the elements of a tensor lie, each somewhere else."""
    where, numbers = shaped(shape, "!tt.ptr<f32>", layout), shaped(shape, "i32", layout)
    if len(shape) == 1:
        offsets = f"    %{name}_i = tt.make_range {{end = {shape[0]} : i32, start = 0 : i32}} : {numbers}\n"
    else:
        rows, cols = shape
        one = f"tensor<{rows}xi32, #ttg.slice<{{dim = 1, parent = {layout}}}>>"
        two = f"tensor<{cols}xi32, #ttg.slice<{{dim = 0, parent = {layout}}}>>"
        high, wide = f"tensor<{rows}x1xi32, {layout}>", f"tensor<1x{cols}xi32, {layout}>"
        offsets = (
            f"    %{name}_a = tt.make_range {{end = {rows} : i32, start = 0 : i32}} : {one}\n"
            f"    %{name}_b = tt.expand_dims %{name}_a {{axis = 1 : i32}} : {one} -> {high}\n"
            f"    %{name}_c = arith.constant dense<{cols}> : {high}\n"
            f"    %{name}_d = arith.muli %{name}_b, %{name}_c : {high}\n"
            f"    %{name}_e = tt.broadcast %{name}_d : {high} -> {numbers}\n"
            f"    %{name}_f = tt.make_range {{end = {cols} : i32, start = 0 : i32}} : {two}\n"
            f"    %{name}_g = tt.expand_dims %{name}_f {{axis = 0 : i32}} : {two} -> {wide}\n"
            f"    %{name}_h = tt.broadcast %{name}_g : {wide} -> {numbers}\n"
            f"    %{name}_i = arith.addi %{name}_e, %{name}_h : {numbers}\n"
        )
    return (
        f"{offsets}    %{name}_s = tt.splat {base} : !tt.ptr<f32> -> {where}\n"
        f"    %{name} = tt.addptr %{name}_s, %{name}_i : {where}, {numbers}\n"
    )


def load(name: str, shape: tuple[int, ...], layout: str) -> str:
    made = pointers(f"{name}_at", "%p", shape, layout)
    return f"{made}    %{name} = tt.load %{name}_at : {shaped(shape, '!tt.ptr<f32>', layout)}\n"


def store(name: str, shape: tuple[int, ...], layout: str) -> str:
    made = pointers(f"{name}_to", "%q", shape, layout)
    return f"{made}    tt.store %{name}_to, %{name} : {shaped(shape, '!tt.ptr<f32>', layout)}\n"


# --- what Triton makes of them ------------------------------------------------------------------------------------

_INSTRUCTION = re.compile(r"(?:@!?%p\d+\s+)?(?P<name>[a-z][\w.:]*)")  # of PTX and AMDGCN, a guard before it left out
_WORDS = (
    (r"st\.shared|stmatrix|ds_(?:write|store)|mbarrier\.(?:init|inval)", "write"),
    (r"ld\.shared|ldmatrix|ds_(?:read|load)", "read"),
    (r"(?:atom|red)\.\S*shared|ds_(?:add|sub|inc|dec|min|max|and|or|xor)", "write"),
    (r"bar\.sync|barrier\.sync|barrier\.cta\.sync|s_barrier$|s_barrier_wait", "barrier"),
    (r"(?:atom|red)\.|(?:global|buffer|flat)_atomic", "atomic"),
    (r"wgmma\.wait_group", "wait"),
)


class _Without:
    """A module of Triton's in which one function does nothing."""

    def __init__(self, wrapped: Any, *path: str) -> None:
        self.wrapped, self.path = wrapped, path

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.wrapped, name)
        if name != self.path[0]:
            return found
        return _Without(found, *self.path[1:]) if len(self.path) > 1 else lambda *_: None


@contextmanager
def without_barrier_pass() -> Iterator[None]:
    from triton.backends.amd import compiler as of_amd
    from triton.backends.nvidia import compiler as of_nvidia

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(of_amd, "amd", _Without(of_amd.amd, "passes", "ttgpuir", "add_membar"))
        patch.setattr(of_nvidia, "nvidia", _Without(of_nvidia.nvidia, "passes", "ttgpuir", "add_membar"))
        yield


@cache
def assembly(source: str, target: str, warps: int = 4) -> str:
    """PTX or AMDGCN."""
    from triton._C.libtriton import ir
    from triton.backends.compiler import GPUTarget, Language
    from triton.compiler.compiler import make_backend

    backend_name, *_ = GPUS[target]
    gpu = GPUTarget(*GPUS[target])
    with without_barrier_pass():
        backend = make_backend(gpu)
        known = {"ptx_version": libtriton.PTX_VERSION} if backend_name == "cuda" else {}
        options = backend.parse_options({"num_warps": warps, "enable_fp_fusion": True, **known})
        stages: dict[str, Any] = {}
        backend.add_stages(stages, options, Language.TRITON)
        context = ir.context()
        ir.load_dialects(context)
        backend.load_dialects(context)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "k.ttgir"
            path.write_text(source, encoding="utf-8")
            module = ir.parse_mlir_module(str(path), context)
        module.context = context
        metadata: dict[str, Any] = {"target": gpu, **options.__dict__}
        for stage in ("llir", "ptx" if backend_name == "cuda" else "amdgcn"):
            module = stages[stage](module, metadata)
    return str(module)


def instructions(source: str, target: str, warps: int = 4) -> Iterator[str]:
    for line in assembly(source, target, warps).splitlines():
        line = line.partition("//")[0].partition(";")[0].strip()
        if line and not line.startswith(".") and (found := _INSTRUCTION.match(line)):
            yield line[found.start("name") :]


def compiled(source: str, target: str, warps: int = 4) -> str:
    """Stores, barriers and loads in their order, runs of one kind as one: `write barrier read`."""
    words: list[str] = []
    for line in instructions(source, target, warps):
        name = line.split()[0]
        word = next((word for pattern, word in _WORDS if re.match(pattern, name)), "")
        if word and (word == "barrier" or words[-1:] != [word]):
            words.append(word)
    return " ".join(words)


# --- what the graph has for them ----------------------------------------------------------------------------------


def graphed(source: str, *, as_compiled: bool = False) -> str:
    """The same words for the points of the graph."""
    (program,) = programs_of(read_ttgir(source, "k.ttgir", as_compiled=as_compiled))
    words: list[str] = []
    for point in program.built.graph.points:
        match point.action:
            case g.Access(kind):
                word = "write" if kind == "atomic" else kind
            case g.Sync(ops.SharedMemoryBarrier()):
                word = "barrier"
            case g.Sync(ops.WorkgroupBarrier()):
                word = "bare"
            case g.Sync(ops.WaitCount()):
                word = "wait"
            case g.Unknown():
                word = "unknown"
            case _:
                word = ""
        if word and (word == "barrier" or words[-1:] != [word]):
            words.append(word)
    return " ".join(words)


def is_covered(graph: str, made: str) -> bool:
    """Whether the graph promises no more than what was made of an operation that goes several rounds.

    Before the first barrier and behind the last there are only accesses that the graph has there too, and there are
    at least as many barriers.
    """

    def ends(words: str) -> tuple[set[str], set[str], int]:
        parts = [set(part.split()) for part in words.split("barrier")]
        return parts[0], parts[-1], len(parts) - 1

    first, last, count = ends(graph)
    made_first, made_last, made_count = ends(made)
    return made_first <= first and made_last <= last and made_count >= count


# --- names --------------------------------------------------------------------------------------------------------


def is_known_to_triton(name: str) -> bool:
    """Whether Triton's parser knows an operation: whatever else it says of it, not that it is unknown."""
    from triton._C.libtriton import amd, ir, nvidia

    context = ir.context()
    for dialects in (ir, amd, nvidia):
        dialects.load_dialects(context)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "k.ttgir"
        path.write_text(f"module {{ {name} }}", encoding="utf-8")
        with libtriton._words_of_triton() as said, suppress(RuntimeError):
            ir.parse_mlir_module(str(path), context).context = context
    return not any("is unknown" in line or "not found for custom op" in line for line in said)


# Rows of operations that other versions have.
NOT_IN_THIS_VERSION = {
    "nvvm.barrier0": "`nvvm.barrier` since LLVM 21",
    "amdgpu.lds_barrier": "of a dialect that Triton does not load; text in generic form may have it",
}


def test_names_that_nobody_knows_are_told_apart() -> None:
    for name in ("ttg.nonsense", "rocdl.nonsense", "nvvm.nonsense", "foo.bar"):
        assert not is_known_to_triton(name)


@pytest.mark.parametrize("name", effects())
def test_triton_knows_every_operation_of_the_table(name: str) -> None:
    assert is_known_to_triton(name) is (name not in NOT_IN_THIS_VERSION)


def test_a_row_that_says_something_unknown_is_refused() -> None:
    for row, word in (
        ({"memry": ["read"]}, "memry"),
        ({"memory": ["reed"]}, "reed"),
        ({"scratch": ["view"]}, "view"),
        ({"barrier": "global"}, "global"),
        ({"queue": "vmcnt"}, "vmcnt"),
        ({"mbarrier": "start"}, "start"),
        ({"view": "slice"}, "slice"),
    ):
        with pytest.raises(ValueError, match=f"effects.toml: `ttg.x` says `{word}`, which is unknown"):
            _effect("ttg.x", row)
    for together in ({"barrier": "local", "queue": "async"}, {"view": "same", "count": "num"}, {"layout": "operand"}):
        with pytest.raises(ValueError, match=r"effects\.toml: `ttg\.x` says what does not go together"):
            _effect("ttg.x", together)


# --- memory of an operation's own ---------------------------------------------------------------------------------

LINE, SQUARE = (1024,), (64, 64)
_SUM = """({
    ^bb0(%a: f32, %b: f32):
      %c = arith.addf %a, %b : f32
      tt.KIND.return %c : f32
    })"""
_LARGEST = """({
    ^bb0(%a: f32, %ai: i32, %b: f32, %bi: i32):
      %c = arith.cmpf ogt, %a, %b : f32
      %d = arith.select %c, %a, %b : f32
      %di = arith.select %c, %ai, %bi : i32
      tt.reduce.return %d, %di : f32, i32
    })"""


def lanes_of(target: str) -> int:
    return GPUS[target][2]


def line_layout(target: str, warps: int = 4) -> str:
    return blocked("4", str(lanes_of(target)), str(warps), "0")


def square_layout(target: str, warps: str, lanes: str = "") -> str:
    """Four elements of a row in each lane; `warps` says how the warps lie."""
    return blocked("1, 4", lanes or f"{lanes_of(target) // 8}, 8", warps, "1, 0")


def reduce_line(target: str, warps: int = 4) -> str:
    body = (
        f'{load("v", LINE, "#a")}    %s = "tt.reduce"(%v) <{{axis = 0 : i32}}> {_SUM.replace("KIND", "reduce")}'
        " : (tensor<1024xf32, #a>) -> f32\n    tt.store %q, %s : !tt.ptr<f32>\n"
    )
    return text(target, body, warps, a=line_layout(target, warps))


def reduce_two(target: str, warps: int = 4) -> str:
    """The largest and where it is: two operands."""
    body = (
        f'{load("v", LINE, "#a")}    %s:2 = "tt.reduce"(%v, %v_at_i) <{{axis = 0 : i32}}> {_LARGEST}'
        " : (tensor<1024xf32, #a>, tensor<1024xi32, #a>) -> (f32, i32)\n"
        "    %f = arith.sitofp %s#1 : i32 to f32\n    tt.store %q, %f : !tt.ptr<f32>\n"
    )
    return text(target, body, warps, a=line_layout(target, warps))


def reduce_square(target: str, axis: int, layout: str, warps: int = 4) -> str:
    slice_ = f"#ttg.slice<{{dim = {axis}, parent = #a}}>"
    body = (
        f'{load("v", SQUARE, "#a")}    %s = "tt.reduce"(%v) <{{axis = {axis} : i32}}> {_SUM.replace("KIND", "reduce")}'
        f" : (tensor<64x64xf32, #a>) -> tensor<64xf32, {slice_}>\n{store('s', (64,), slice_)}"
    )
    return text(target, body, warps, a=layout)


def scan_line(target: str, warps: int = 4, reverse: str = "false") -> str:
    body = (
        f'{load("v", LINE, "#a")}    %s = "tt.scan"(%v) <{{axis = 0 : i32, reverse = {reverse}}}> '
        f"{_SUM.replace('KIND', 'scan')} : (tensor<1024xf32, #a>) -> tensor<1024xf32, #a>\n{store('s', LINE, '#a')}"
    )
    return text(target, body, warps, a=line_layout(target, warps))


def scan_square(target: str, axis: int, layout: str, warps: int = 4) -> str:
    body = (
        f'{load("v", SQUARE, "#a")}    %s = "tt.scan"(%v) <{{axis = {axis} : i32, reverse = false}}> '
        f"{_SUM.replace('KIND', 'scan')} : (tensor<64x64xf32, #a>) -> tensor<64x64xf32, #a>\n{store('s', SQUARE, '#a')}"
    )
    return text(target, body, warps, a=layout)


def histogram(target: str, masked: bool = False) -> str:
    mask = "    %zero = arith.constant dense<0> : tensor<1024xi32, #a>\n" if masked else ""
    mask += "    %m = arith.cmpi sgt, %w, %zero : tensor<1024xi32, #a>\n" if masked else ""
    body = (
        f"{load('v', LINE, '#a')}    %w = arith.fptosi %v : tensor<1024xf32, #a> to tensor<1024xi32, #a>\n{mask}"
        f"    %h = tt.histogram %w{', %m' * masked} : tensor<1024xi32, #a> -> tensor<256xi32, #a>\n"
        f"    %s = arith.sitofp %h : tensor<256xi32, #a> to tensor<256xf32, #a>\n{store('s', (256,), '#a')}"
    )
    return text(target, body, a=line_layout(target))


def gather(target: str, axis: int, layout: str) -> str:
    body = (
        f"{load('v', SQUARE, '#a')}    %w = arith.fptosi %v : tensor<64x64xf32, #a> to tensor<64x64xi32, #a>\n"
        f"    %s = tt.gather %v[%w] {{axis = {axis} : i32}} : (tensor<64x64xf32, #a>, tensor<64x64xi32, #a>)"
        f" -> tensor<64x64xf32, #a>\n{store('s', SQUARE, '#a')}"
    )
    return text(target, body, a=layout)


def convert(target: str, shape: tuple[int, int], first: str, second: str, warps: int = 4) -> str:
    body = (
        f"{load('v', shape, '#a')}    %s = ttg.convert_layout %v : {shaped(shape, 'f32', '#a')} -> "
        f"{shaped(shape, 'f32', '#b')}\n{store('s', shape, '#b')}"
    )
    return text(target, body, warps, a=first, b=second)


ACROSS, DOWN = "1, 4", "4, 1"
ONE_ROUND = {
    "reduce": lambda target: reduce_line(target),
    "reduce, 8 warps": lambda target: reduce_line(target, 8),
    "reduce inside warps": lambda target: reduce_square(target, 1, square_layout(target, DOWN)),
    "scan": lambda target: scan_line(target),
    "scan backwards": lambda target: scan_line(target, reverse="true"),
    "scan, 8 warps": lambda target: scan_line(target, 8),
    "scan of columns": lambda target: scan_square(target, 0, square_layout(target, DOWN)),
    "scan inside warps": lambda target: scan_square(target, 1, square_layout(target, DOWN)),
    "histogram": lambda target: histogram(target),
    "histogram, masked": lambda target: histogram(target, True),
    "gather": lambda target: gather(target, 0, square_layout(target, DOWN)),
    "gather inside warps": lambda target: gather(target, 1, square_layout(target, DOWN)),
    "gather of rows across warps": lambda target: gather(target, 1, square_layout(target, ACROSS)),
    "convert": lambda target: convert(
        target, SQUARE, square_layout(target, DOWN), blocked("4, 1", f"8, {lanes_of(target) // 8}", DOWN, "0, 1")
    ),
}
SEVERAL_ROUNDS = {
    "reduce two": lambda target: reduce_two(target),
    "reduce of columns": lambda target: reduce_square(target, 0, square_layout(target, DOWN)),
    "convert in parts": lambda target: convert(
        target, SQUARE, square_layout(target, DOWN), square_layout(target, ACROSS)
    ),
    "reduce of rows across warps": lambda target: reduce_square(target, 1, square_layout(target, ACROSS)),
}


@pytest.mark.parametrize(("name", "target"), [*product(ONE_ROUND, MOST)])
def test_what_an_operation_does_with_its_own_memory(name: str, target: str) -> None:
    source = ONE_ROUND[name](target)
    assert graphed(source) == compiled(source, target)


@pytest.mark.parametrize(("name", "target"), [*product(SEVERAL_ROUNDS, MOST)])
def test_several_rounds_are_covered_by_one(name: str, target: str) -> None:
    source = SEVERAL_ROUNDS[name](target)
    found, made = graphed(source), compiled(source, target)
    assert found in ("", "write barrier read")
    assert bool(found) == bool(made)
    assert is_covered(found, made), (found, made)


# --- conversions: who meets, and who stays in the warp ------------------------------------------------------------


def split(generator: random.Random, product_: int) -> tuple[int, int]:
    """Two powers of two with a product."""
    first = 1 << generator.randrange(product_.bit_length())
    return first, product_ // first


def random_layout(generator: random.Random, target: str) -> str:
    size, lanes, warps = (split(generator, count) for count in (4, lanes_of(target), 4))
    order = generator.choice(["1, 0", "0, 1"])
    return blocked(*(f"{first}, {second}" for first, second in (size, lanes, warps)), order)


@pytest.mark.parametrize(("seed", "target"), [*product(range(6), MOST)])
@pytest.mark.parametrize("shape", [(128, 32), (128, 128)], ids=["held twice", "held once"])
def test_no_barrier_of_a_conversion_is_relied_on_that_is_not_there(
    shape: tuple[int, int], seed: int, target: str
) -> None:
    """Of layouts at random. Where every warp holds all it needs Triton lets them meet all the same, and we do not
    rely on it."""
    generator = random.Random(f"{target}-{seed}")
    source = convert(target, shape, random_layout(generator, target), random_layout(generator, target))
    found, made = graphed(source), compiled(source, target)
    assert bool(found) == bool(made)
    assert found in ("", "write", "write barrier read")
    if "barrier" in found:
        assert is_covered(found, made), (found, made)


def test_a_conversion_inside_warps_is_a_write_without_a_barrier() -> None:
    """Lanes exchange through memory, but only those of one warp: `bar.warp.sync` is not a barrier for the others."""
    first = blocked("32, 1", "1, 32", DOWN, "1, 0")
    second = blocked("1, 32", "32, 1", DOWN, "1, 0")
    source = convert("sm_80", (128, 32), first, second)
    assert graphed(source) == "write"
    assert compiled(source, "sm_80") in ("write read", "")


# --- atomics ------------------------------------------------------------------------------------------------------

ONE_DIMENSION = "#ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [0]}>"
SEMANTICS = ("relaxed", "acquire", "release", "acq_rel")


def atomic(target: str, operation: str, shape: tuple[int, ...], sem: str, used: bool) -> str:
    """One atomic: `rmw` or `cas`, of a scalar or a tensor; `buffer_` for those of AMD's buffers."""
    tensor = shaped(shape, "f32", "#a") if shape else "f32"
    layout = {"a": line_layout(target)} if shape else {}
    at = pointers("at", "%q", shape, "#a") if shape else ""
    where, type_ = ("%at", shaped(shape, "!tt.ptr<f32>", "#a")) if shape else ("%q", "!tt.ptr<f32>")
    value = f"    %one = arith.constant {'dense<1.0>' if shape else '1.0'} : {tensor}\n"
    match operation:
        case "rmw":
            flags = tensor.replace("f32", "i1")
            mask = f"    %yes = arith.constant {f'dense<true> : {flags}' if shape else 'true'}\n"
            call = f"tt.atomic_rmw fadd, {sem}, gpu, {where}, %one, %yes : ({type_}, {tensor}, {flags})"
        case "cas":
            mask = f"    %none = arith.constant {'dense<0.0>' if shape else '0.0'} : {tensor}\n"
            call = f"tt.atomic_cas {sem}, gpu, {where}, %none, %one : ({type_}, {tensor}, {tensor})"
        case "buffer_rmw":
            mask = ""
            call = f"amdg.buffer_atomic_rmw fadd, {sem}, gpu, %one, %q[%at_i] : !tt.ptr<f32>"
    keep = store("r", shape, "#a") if shape else "    tt.store %p, %r : !tt.ptr<f32>\n"
    return text(target, f"{at}{value}{mask}    %r = {call} -> {tensor}\n{keep if used else ''}", **layout)


ATOMICS = [
    (operation, shape, target)
    for operation, shape, target in product(("rmw", "cas", "buffer_rmw"), ((), (32,), (1024,)), MOST)
    if operation != "buffer_rmw" or (shape and target.startswith("gfx"))
]


@pytest.mark.parametrize("used", [True, False], ids=["used", "unused"])
@pytest.mark.parametrize("sem", SEMANTICS)
@pytest.mark.parametrize(("operation", "shape", "target"), ATOMICS)
def test_atomics_meet_before_a_release_and_behind_an_acquire(
    operation: str, shape: tuple[int, ...], target: str, sem: str, used: bool
) -> None:
    source = atomic(target, operation, shape, sem, used)
    made = compiled(source, target).split()
    before = ["barrier"] * (sem in ("release", "acq_rel"))
    after = ["barrier"] * (sem in ("acquire", "acq_rel"))
    if used and shape in ((), (32,)):  # what one lane was given, all that hold the same element want to know
        after = ["write", "barrier", "read"]
    if target == "sm_80":  # blocks of AMDGCN do not stand in the order in which they are passed
        assert made == [*before, "atomic", *after]
    assert [word for word in made if word != "atomic"] == [*before, *after]
    assert graphed(source).split() == [*before, *after]


@pytest.mark.parametrize("number", range(1, 5))
def test_the_numbers_of_the_semantics(number: int) -> None:
    parsed = libtriton.parse(atomic("sm_80", "rmw", (), SEMANTICS[number - 1], True), "k.ttgir")
    assert f"sem = {number} : i32" in parsed.generic()


BINS = "!ttg.memdesc<128xi32, #o, #smem, mutable>"
NUMBERS = "tensor<128xi32, #a>"


def scatters(*operators: str, used: bool = False) -> str:
    """Atomics on shared memory, one behind the other, at places that only the data tells."""
    lines = [f"    %i = arith.constant dense<1> : {NUMBERS}\n    %m = ttg.local_alloc : () -> {BINS}\n"]
    for number, operator in enumerate(operators):
        call = f"ttg.local_atomic_scatter_rmw {operator}, %m[%i], %i {{axis = 0 : i32}}"
        lines.append(f"    %r{number} = {call} : ({BINS}, {NUMBERS}, {NUMBERS}) -> {NUMBERS}\n")
    if used:
        lines.append(f"    %s = arith.addi %r0, %i : {NUMBERS}\n")
    return text("sm_80", "".join(lines), a=line_layout("sm_80"), o=ONE_DIMENSION)


@pytest.mark.parametrize(
    ("source", "proved"),
    [
        (scatters("add", "add"), True),
        (scatters("umax", "umax"), True),
        (scatters("add", "add", used=True), False),
        (scatters("add", "max"), False),
        (scatters("exch", "exch"), False),
    ],
    ids=["unused", "unused maximum", "used", "two operators", "exchange"],
)
def test_atomics_on_shared_memory_commute_unless_a_result_is_used(source: str, proved: bool) -> None:
    """Triton puts no barrier between two of them; one whose result is used depends on the order."""
    (program,) = programs_of(read_ttgir(source, "k.ttgir", as_compiled=False))
    graph = program.built.graph
    assert verify(graph, program.target).is_proved == proved
    assert (not judge(graph, program.target).findings) == proved
    assert (not synchronize_graph(graph, program.target).plan.edits) == proved
    assert parse_graph(show_graph(graph), "k.sync") == graph


# --- memory that has a name ---------------------------------------------------------------------------------------

SWIZZLED = "#ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [1, 0]}>"
MEMORY = "!ttg.memdesc<64x64xf32, #s, #smem, mutable>"
TENSOR = "tensor<64x64xf32, #a>"


def named(target: str, body: str, warps: int = 4, **more: str) -> str:
    layouts = {"a": square_layout(target, DOWN if warps == 4 else "8, 1"), "s": SWIZZLED, **more}
    return text(target, body, warps, **layouts)


STORED = f"    %m = ttg.local_alloc : () -> {MEMORY}\n    ttg.local_store %v, %m : {TENSOR} -> {MEMORY}\n"
LOADED = f"    %l = ttg.local_load %m : {MEMORY} -> tensor<64x64xf32, #b>\n"  # by other lanes than it was stored by


@pytest.mark.parametrize("target", MOST)
@pytest.mark.parametrize(
    ("body", "words"),
    [
        (f"    %m = ttg.local_alloc %v : ({TENSOR}) -> {MEMORY}\n{LOADED}", "write read"),
        (f"{STORED}{LOADED}", "write read"),
        (f"{STORED}    ttg.barrier local\n{LOADED}", "write barrier read"),
        (f"{STORED}    gpu.barrier\n{LOADED}", "write barrier read"),
    ],
    ids=["alloc with a value", "store", "ttg.barrier", "gpu.barrier"],
)
def test_accesses_to_named_memory(target: str, body: str, words: str) -> None:
    source = named(
        target, f"{load('v', SQUARE, '#a')}{body}{store('l', SQUARE, '#b')}", b=square_layout(target, ACROSS)
    )
    assert graphed(source) == words
    made = compiled(source, target)
    if target != "gfx1201" or "barrier" in words:  # there stores and loads of one wave are mixed where nobody waits
        assert made == words


def drains(source: str, target: str) -> bool:
    """Whether a wave waits for its own stores to shared memory before it comes to the barrier."""
    lines = list(instructions(source, target))
    (at,) = [number for number, line in enumerate(lines) if re.match(r"s_barrier(_signal)?\b", line)]
    last = max(number for number, line in enumerate(lines[:at]) if line.startswith(("ds_write", "ds_store")))
    waits = re.compile(r"s_waitcnt.*lgkmcnt\(0\)|s_wait_(?:loadcnt_)?dscnt 0x0")
    return any(waits.match(line) for line in lines[last:at])


@pytest.mark.parametrize("target", ["gfx942", "gfx1201"])
@pytest.mark.parametrize(
    ("barrier", "row", "drained"),
    [
        ("ttg.barrier local", "ttg.barrier", True),
        ("ttg.barrier all", "ttg.barrier", True),
        ("gpu.barrier", "gpu.barrier", True),
        ("rocdl.s.barrier", "rocdl.s.barrier", False),
        ("%r = tt.atomic_rmw fadd, release, gpu, %q, %x, %yes : (!tt.ptr<f32>, f32, i1) -> f32", "tt.atomic_rmw", True),
    ],
    ids=["local", "all", "gpu", "bare", "release"],
)
def test_barriers_perform_what_was_stored_or_not(barrier: str, row: str, drained: bool, target: str) -> None:
    """`local` rows: stores are done when the waves meet; `bare`: nobody waits. Memory is not read behind the barrier,
    so that no later wait is taken for one of the barrier's."""
    more = "    %x = arith.constant 1.0 : f32\n    %yes = arith.constant true\n" if "atomic" in barrier else ""
    source = named(target, f"{load('v', SQUARE, '#a')}{more}{STORED}    {barrier}\n{store('v', SQUARE, '#a')}")
    assert drains(source, target) is drained
    assert graphed(source) == f"write {'barrier' if drained else 'bare'}"
    assert (effects()[row].barrier != "bare") is drained


# --- barrier objects ----------------------------------------------------------------------------------------------

OBJECT = "!ttg.memdesc<1xi64, #o, #smem, mutable>"


@pytest.mark.parametrize(
    ("use", "barriers"),
    [
        (f"ttng.arrive_barrier %o, 1 : {OBJECT}", 1),
        (f"ttng.wait_barrier %o, %n : {OBJECT}", 0),
        (f"ttng.barrier_expect %o, 1024, %yes : {OBJECT}", 1),
    ],
    ids=["arrive", "wait", "expect"],
)
def test_no_barrier_of_barrier_objects_is_relied_on_that_is_not_there(use: str, barriers: int) -> None:
    """Setting one up, waiting for it and ending it leave the waves to themselves; who arrives for all of them lets
    them meet before."""
    body = (
        f"    %yes = arith.constant true\n    %o = ttg.local_alloc : () -> {OBJECT}\n"
        f"    ttng.init_barrier %o, 1 : {OBJECT}\n    {use}\n    ttng.inval_barrier %o : {OBJECT}\n"
    )
    source = text("sm_90", body, o=ONE_DIMENSION)
    assert compiled(source, "sm_90").split().count("barrier") == barriers
    assert graphed(source).split().count("barrier") <= barriers


# --- matrix products ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("warps", "words"), [(4, "wait"), (8, "wait barrier")])
def test_more_than_four_warps_meet_behind_a_wait_for_their_products(warps: int, words: str) -> None:
    mma = (
        "#ttg.nvidia_mma<{versionMajor = 3, versionMinor = 0, "
        f"warpsPerCTA = [{warps}, 1], instrShape = [16, 32, 16]}}>"
    )
    shape = (128, 32)
    body = (
        f"{load('v', shape, '#b')}    %w = ttng.warp_group_dot_wait %v {{pendings = 0 : i32}} : "
        f"{shaped(shape, 'f32', '#b')}\n{store('w', shape, '#b')}"
    )
    source = text("sm_90", body, warps, b=mma)
    assert compiled(source, "sm_90", warps) == words
    assert graphed(source, as_compiled=True) == words


@pytest.mark.parametrize("target", MOST)
def test_a_product_without_matrix_units_touches_no_memory(target: str) -> None:
    """Its operands are in registers already."""
    left, right = (f"#ttg.dot_op<{{opIdx = {number}, parent = #a}}>" for number in (0, 1))
    shape = (32, 32)
    zero = f"    %z = arith.constant dense<0.0> : {shaped(shape, 'f32', '#a')}\n"
    body = (
        f"{load('x', shape, left)}{load('y', shape, right)}{zero}"
        f"    %d = tt.dot %x, %y, %z : {shaped(shape, 'f32', left)} * {shaped(shape, 'f32', right)}"
        f" -> {shaped(shape, 'f32', '#a')}\n{store('d', shape, '#a')}"
    )
    source = text(target, body, a=square_layout(target, "2, 2"))
    assert (graphed(source), compiled(source, target)) == ("", "")


@pytest.mark.parametrize("target", MOST)
def test_print_touches_no_memory_and_nobody_relies_on_the_barrier_of_an_assertion(target: str) -> None:
    condition = (
        "    %z = arith.constant dense<0.0> : tensor<1024xf32, #a>\n"
        "    %c = arith.cmpf ogt, %v, %z : tensor<1024xf32, #a>\n"
    )
    says = '    tt.print "v" {hex = false, isSigned = array<i32: 0>} : %v : tensor<1024xf32, #a>\n'
    source = text(target, f"{load('v', LINE, '#a')}{says}{store('v', LINE, '#a')}", a=line_layout(target))
    assert graphed(source) == ""
    assert compiled(source, target).replace("atomic", "") == "", (
        "on AMD the text goes through a queue in memory outside"
    )
    asks = '    tt.assert %c, "no" : tensor<1024xi1, #a>\n'
    source = text(target, f"{load('v', LINE, '#a')}{condition}{asks}{store('v', LINE, '#a')}", a=line_layout(target))
    assert graphed(source) == ""
    assert "barrier" in compiled(source, target)


# --- mutants ------------------------------------------------------------------------------------------------------

MUTANTS = [
    ("tt.reduce", {"scratch": ("write", "read")}, lambda: reduce_line("sm_80")),
    ("tt.reduce", {"scratch": ("write", "barrier", "read", "barrier")}, lambda: reduce_line("sm_80")),
    ("tt.reduce", {"scratch": ("barrier", "write", "read")}, lambda: reduce_line("sm_80")),
    ("tt.scan", {"scratch": ("write", "read")}, lambda: scan_line("sm_80")),
    ("tt.histogram", {"scratch": ("write", "barrier", "read")}, lambda: histogram("sm_80")),
    ("tt.gather", {"scratch": ("read",)}, lambda: gather("sm_80", 0, square_layout("sm_80", DOWN))),
    ("ttg.convert_layout", {"scratch": ("write", "read")}, lambda: ONE_ROUND["convert"]("sm_80")),
    ("tt.atomic_rmw", {"release": False}, lambda: atomic("sm_80", "rmw", (), "release", True)),
    ("tt.atomic_rmw", {"acquire": False}, lambda: atomic("sm_80", "rmw", (), "acquire", False)),
    ("tt.atomic_rmw", {"scratch": ("write", "read")}, lambda: atomic("sm_80", "rmw", (), "relaxed", True)),
    ("tt.atomic_cas", {"release": False}, lambda: atomic("sm_80", "cas", (1024,), "acq_rel", True)),
]


@pytest.mark.parametrize(("name", "change", "source"), MUTANTS, ids=[f"{name}-{change}" for name, change, _ in MUTANTS])
def test_a_wrong_row_is_noticed(
    name: str, change: dict[str, Any], source: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = " ".join(word for word in compiled(source(), "sm_80").split() if word != "atomic")
    assert graphed(source()) == wanted
    row = effects()[name]
    assert isinstance(row.does, UsesScratch)
    monkeypatch.setitem(effects(), name, replace(row, does=replace(row.does, **change)))
    assert graphed(source()) != wanted
