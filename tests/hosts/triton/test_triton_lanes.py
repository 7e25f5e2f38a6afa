"""Which lane touches which byte: names of maps against plain enumeration, and against the instructions that come of it.

With one warp there is no second wave: whatever is exchanged, is exchanged between lanes. A barrier orders that.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from functools import cache
from itertools import pairwise, product
from pathlib import Path

import pytest

import tidegate.triton
from tidegate.graph import model as g
from tidegate.hosts.triton import build_memory, layout_lanes, libtriton
from tidegate.hosts.triton.layout_lanes import lanes_of
from tidegate.hosts.triton.layout_registers import held
from tidegate.hosts.triton.layout_shared import pad, placed
from tidegate.hosts.triton.layouts import Encoding, parse_encoding
from tidegate.hosts.triton.program import programs_of
from tidegate.hosts.triton.read import read_ttgir

needs_triton = pytest.mark.skipif(not libtriton.is_installed(), reason="NOT TESTED: Triton is not installed")

Map = dict[tuple[int, int], set[int]]  # wave and byte → the lanes that touch it


def blocked(size: str, lanes: str, warps: str, order: str) -> str:
    return (
        f"#ttg.blocked<{{sizePerThread = [{size}], threadsPerWarp = [{lanes}], "
        f"warpsPerCTA = [{warps}], order = [{order}]}}>"
    )


def swizzled(vec: int, per: int, phases: int, order: str) -> str:
    return f"#ttg.swizzled_shared<{{vec = {vec}, perPhase = {per}, maxPhase = {phases}, order = [{order}]}}>"


def read(text: str) -> Encoding:
    return parse_encoding(text, {})


def flipped(bases: tuple[tuple[int, ...], ...], rank: int) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Every number with the coordinates that its bits flip together."""
    for number in range(1 << len(bases)):
        at = [0] * rank
        for bit, base in enumerate(bases):
            if number >> bit & 1:
                at = [one ^ other for one, other in zip(at, base, strict=True)]
        yield number, tuple(at)


def enumerated(register: Encoding, shared: Encoding, shape: tuple[int, ...], size: int) -> Map | None:
    """Who touches what, element by element."""
    mine, memory = held(register, shape), placed(shared, shape)
    if mine is None or memory is None:
        return None
    found: Map = {}
    parts = (mine.warp, mine.lane, mine.register)
    for (wave, a), (lane, b), (_, c) in product(*(list(flipped(part, len(shape))) for part in parts)):
        at = tuple(x ^ y ^ z for x, y, z in zip(a, b, c, strict=True))
        start = pad(memory.at(at), memory.pads) * size
        for byte in range(start, start + size):
            found.setdefault((wave, byte), set()).add(lane)
    return found


SHAPE = (16, 16)
REGISTERS = [
    blocked(size, lanes, warps, order)
    for size, lanes, warps, order in product(
        ("1, 1", "1, 2", "1, 4", "2, 2", "4, 1"), ("8, 4", "4, 8", "1, 32"), ("1, 1", "2, 1", "1, 2"), ("1, 0", "0, 1")
    )
]
SHARED = [
    swizzled(1, 1, 1, "1, 0"),
    swizzled(1, 1, 1, "0, 1"),
    swizzled(4, 1, 4, "1, 0"),
    swizzled(2, 2, 4, "0, 1"),
    "#ttg.padded_shared<[64:+8] {order = [1, 0], shape = [16, 16]}>",
]


@pytest.mark.parametrize("bits", [16, 32])
def test_one_name_is_one_map(bits: int) -> None:
    """Against enumeration: a named map gives each byte to one lane of its wave, and maps of one name are equal."""
    by_name: dict[str, Map] = {}
    named = unnamed = 0
    for register, shared in product(map(read, REGISTERS), map(read, SHARED)):
        found = enumerated(register, shared, SHAPE, bits // 8)
        name = lanes_of(register, SHAPE, shared, SHAPE, bits, "", lane_by_lane=True)
        alone = found is not None and all(len(lanes) == 1 for lanes in found.values())
        assert bool(name) is alone, (register, shared)
        if name:
            assert found is not None
            assert by_name.setdefault(name, found) == found, name
        named, unnamed = named + bool(name), unnamed + (not name)
    assert len(by_name) > 20
    assert named > 50
    assert unnamed > 50, "elements that several lanes hold"


def test_layouts_that_are_written_otherwise_have_one_name() -> None:
    """A tensor that is larger than its layout repeats it in registers: as if these were part of it."""
    small, large = read(blocked("1, 4", "8, 4", "2, 1", "1, 0")), read(blocked("1, 4", "8, 4", "2, 1", "0, 1"))
    shared = read(swizzled(1, 1, 1, "1, 0"))
    assert lanes_of(small, SHAPE, shared, SHAPE, 32, "cuda") == "4 r1.2 l4.8.10.20.40 w80"
    assert lanes_of(large, SHAPE, shared, SHAPE, 32, "cuda") == "4 r1.2 l10.20.40.4.8 w80"


@pytest.mark.parametrize(
    ("change", "differs"),
    [({"start": (8, 0)}, True), ({"first_wave": 4}, True), ({"backend": "hip"}, False), ({"element_bits": 64}, True)],
)
def test_what_a_name_depends_on(change: dict[str, object], differs: bool) -> None:
    asked: dict[str, object] = {"element_bits": 32, "backend": "cuda", "start": None, "first_wave": 0}
    register, shared = read(blocked("1, 4", "2, 4", "2, 1", "1, 0")), read(swizzled(1, 1, 1, "1, 0"))

    def name(**more: object) -> str:
        return lanes_of(register, (8, 16), shared, SHAPE, **{**asked, **more})  # type: ignore[arg-type]

    assert name()
    assert (name(**change) != name()) is differs


@pytest.mark.parametrize(
    ("what", "name"),
    [
        ("no encoding", lambda: lanes_of(None, SHAPE, read(SHARED[0]), SHAPE, 32, "cuda")),
        ("no memory", lambda: lanes_of(read(REGISTERS[0]), SHAPE, None, SHAPE, 32, "cuda")),
        ("less than a byte", lambda: lanes_of(read(REGISTERS[4]), SHAPE, read(SHARED[0]), SHAPE, 4, "cuda")),
        ("outside", lambda: lanes_of(read(REGISTERS[4]), SHAPE, read(SHARED[0]), SHAPE, 32, "cuda", start=(8, 0))),
    ],
)
def test_nothing_is_known_of_what_is_not_understood(what: str, name: object) -> None:
    assert callable(name)
    assert name() == "", what


# --- instructions that move a matrix for a whole warp ---------------------------------------------------------------

MATRIX = re.compile(r"ldmatrix|stmatrix|ds_read_b\d+_tr|ds_load_tr")
GPUS = {"sm_80": ("cuda", 80, 32), "sm_90": ("cuda", 90, 32), "gfx950": ("hip", "gfx950", 64)}


def moved(target: str, element: str, layout: str, shared: str, warps: int = 1) -> str:
    """A tensor through shared memory and back, in one layout."""
    backend, arch, lanes = GPUS[target]
    tensor, memory = f"tensor<64x64x{element}, #a>", f"!ttg.memdesc<64x64x{element}, #s, #smem, mutable>"
    return (
        f"#a = {layout}\n#s = {shared}\n#smem = #ttg.shared_memory\n"
        f'module attributes {{"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = {warps} : i32, '
        f'ttg.target = "{backend}:{arch}", "ttg.threads-per-warp" = {lanes} : i32}} {{\n'
        f"  tt.func public @k(%p: tensor<64x64x!tt.ptr<{element}>, #a>) {{\n"
        f"    %v = tt.load %p : tensor<64x64x!tt.ptr<{element}>, #a>\n"
        f"    %m = ttg.local_alloc : () -> {memory}\n"
        f"    ttg.local_store %v, %m : {tensor} -> {memory}\n"
        f"    %r = ttg.local_load %m : {memory} -> {tensor}\n"
        f"    tt.store %p, %r : tensor<64x64x!tt.ptr<{element}>, #a>\n"
        "    tt.return\n  }\n}\n"
    )


@cache
def code_of(source: str, target: str, warps: int) -> str:
    from tests.hosts.triton import test_triton_effects as effects

    effects.GPUS.setdefault(target, GPUS[target])
    return effects.assembly(source, target, warps)


def layouts(target: str, seed: int) -> Iterator[tuple[str, str, str]]:
    """Random layouts of registers and memory, with an element type."""
    rng = random.Random(f"{target} {seed}")
    lanes = GPUS[target][2]
    for _ in range(14):
        down = rng.choice([1, 2, 4, 8, lanes // 4, lanes])
        order = rng.choice(["1, 0", "0, 1"])
        layout = blocked(
            rng.choice(["1, 1", "1, 2", "1, 4", "2, 2", "1, 8"]), f"{down}, {lanes // down}", "1, 1", order
        )
        shared = rng.choice([swizzled(1, 1, 1, order), swizzled(8, 1, 4, order), swizzled(4, 2, 8, order)])
        yield rng.choice(["f16", "f32", "i8"]), layout, shared


@needs_triton
@pytest.mark.parametrize("target", GPUS)
def test_no_instruction_moves_bytes_for_other_lanes_where_a_map_is_named(target: str) -> None:
    named = unnamed = through_others = 0
    for element, layout, shared in layouts(target, 1):
        source = moved(target, element, layout, shared)
        code = code_of(source, target, 1)
        bits = int(element[1:])
        name = lanes_of(read(layout), (64, 64), read(shared), (64, 64), bits, GPUS[target][0])
        through_others += bool(MATRIX.search(code))
        named, unnamed = named + bool(name), unnamed + (not name)
        assert not (name and MATRIX.search(code)), (element, layout, shared)
    assert named
    assert unnamed
    assert through_others or target == "gfx950"


@needs_triton
def test_triton_takes_matrix_instructions_for_plain_layouts_too() -> None:
    """One f32 a lane, in a row: `ldmatrix` reads it, each lane on behalf of others. So its map has no name on sm_80."""
    layout, shared = blocked("1, 1", "1, 32", "1, 1", "1, 0"), swizzled(1, 1, 1, "1, 0")
    assert "ldmatrix" in code_of(moved("sm_80", "f32", layout, shared), "sm_80", 1)
    assert lanes_of(read(layout), (64, 64), read(shared), (64, 64), 32, "cuda") == ""
    wide = layout.replace("[1, 1], threads", "[1, 2], threads")
    assert "ldmatrix" not in code_of(moved("sm_80", "f32", wide, shared), "sm_80", 1)
    assert lanes_of(read(wide), (64, 64), read(shared), (64, 64), 32, "cuda")


# --- in graphs ----------------------------------------------------------------------------------------------------


def names_in(source: str) -> list[str]:
    (program,) = programs_of(read_ttgir(source, "k.ttgir"))
    return [each.action.lanes for each in program.built.graph.points if isinstance(each.action, g.Access)]


def is_ordered(source: str) -> bool:
    from tidegate.verify.verify import is_ordered as proved

    (program,) = programs_of(read_ttgir(source, "k.ttgir"))
    return proved(program.built.graph, program.target)


OWN = blocked("1, 4", "8, 4", "1, 1", "1, 0")
ROW = blocked("1, 1", "1, 32", "1, 1", "1, 0")
FLAT = swizzled(1, 1, 1, "1, 0")


@needs_triton
def test_lanes_that_keep_to_their_bytes_need_nothing() -> None:
    source = moved("sm_80", "f32", OWN, FLAT)
    one, other = names_in(source)
    assert one == other != ""
    assert is_ordered(source)


@needs_triton
def test_lanes_of_one_warp_that_read_for_others_need_a_barrier() -> None:
    source = moved("sm_80", "f32", ROW, FLAT)
    assert names_in(source) == ["", ""]
    assert not is_ordered(source)
    assert is_ordered(source.replace("    %r =", "    ttg.barrier local\n    %r ="))


@needs_triton
def test_with_the_belief_that_who_holds_an_element_reads_it_a_race_is_proved(monkeypatch: pytest.MonkeyPatch) -> None:
    """The old belief, which `ldmatrix` breaks."""
    monkeypatch.setattr(layout_lanes, "RUN", {"cuda": 1, "hip": 1})
    layout_lanes.lanes_of.cache_clear()
    try:
        assert is_ordered(moved("sm_80", "f32", ROW, FLAT))
    finally:
        layout_lanes.lanes_of.cache_clear()


@needs_triton
@pytest.mark.parametrize("other", [ROW.replace("[1, 1], threads", "[1, 4], threads"), OWN.replace("1, 0", "0, 1")])
def test_other_maps_have_other_names(other: str) -> None:
    source = moved("sm_80", "f32", OWN, FLAT)
    mixed = f"#b = {other}\n" + re.sub(
        r"-> tensor<64x64xf32, #a>\n    tt\.store.*\n", "-> tensor<64x64xf32, #b>\n", source
    )
    assert len(set(names_in(mixed))) == 2
    assert not is_ordered(mixed)


# --- one warp in the drop-in ----------------------------------------------------------------------------------------


@pytest.fixture
def no_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    from triton import knobs

    monkeypatch.setattr(knobs.cache, "dir", str(tmp_path / "cache"))
    tidegate.triton.clear_report()
    yield
    tidegate.triton.uninstall()


def barriers(target: str, stages: int, warps: int) -> tuple[int, int]:
    """Barriers of a matmul of 64 x 64 x 64 with Tidegate and with Triton; what is proved."""
    import triton
    from triton.backends.compiler import GPUTarget

    from oracles.triton_kernels import TARGETS
    from oracles.triton_kernels.building import case, pointers
    from oracles.triton_kernels.matmul import matmul

    types = {**pointers("fp16", "a", "b", "c"), "cols": "i32:16", "inner": "i32:16"}
    sizes = {"BM": 64, "BN": 64, "BK": 64}
    source, options = case("small", matmul, types, sizes, num_warps=warps, num_stages=stages).source(target)
    chip = TARGETS[target]
    with tidegate.triton.enabled():
        triton.compile(source, target=GPUTarget(chip.backend, chip.arch, chip.warp_size), options=options)
    (entry,) = tidegate.triton.report()
    assert entry.proved
    return entry.after, entry.before


@needs_triton
@pytest.mark.usefixtures("no_cache")
@pytest.mark.parametrize("stages", [1, 2])
@pytest.mark.parametrize("target", ["sm_80", "sm_90", "gfx942"])
def test_a_kernel_with_one_warp_keeps_the_barriers_that_its_lanes_need(target: str, stages: int) -> None:
    """As many as with two warps: nothing in this kernel stays within its lane."""
    one = barriers(target, stages, 1)
    tidegate.triton.clear_report()
    assert one == barriers(target, stages, 2)
    assert one[0] >= 3


@needs_triton
@pytest.mark.usefixtures("no_cache")
def test_with_the_belief_that_a_wave_is_in_order_all_barriers_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """The old belief: one wave, no race. Here every access is one of a single lane, and scratch is not asked about."""
    monkeypatch.setattr(build_memory.Memory, "lanes_name", lambda *_: g.ONE_LANE)
    ours, triton = barriers("sm_80", 1, 1)
    assert ours < triton == 3


# --- what operations do for the lanes of a warp by themselves -------------------------------------------------------


@needs_triton
def test_a_conversion_inside_a_warp_brings_its_own_warp_level_barriers() -> None:
    """Between store and load, none before the first store or behind the last load: the graph has one write for it."""
    from tests.hosts.triton import test_triton_effects as effects

    for target, layouts_ in (("sm_80", ("1, 1", "8, 4")), ("sm_90", ("1, 1", "8, 4"))):
        first = effects.square_layout(target, layouts_[0])
        second = blocked("4, 1", layouts_[1], "1, 1", "0, 1")
        source = effects.convert(target, effects.SQUARE, first, second, 1)
        words = [
            "sync" if "bar.warp.sync" in line else "read" if "ldmatrix" in line or "ld.shared" in line else "write"
            for line in effects.instructions(source, target, 1)
            if re.match(r"bar\.warp\.sync|ldmatrix|stmatrix|(ld|st)\.shared", line)
        ]
        kinds = [word for number, word in enumerate(words) if word == "sync" or words[number - 1 : number] != [word]]
        assert kinds[:3] == ["write", "sync", "read"]
        assert kinds[-1] == "read"
        assert set(pairwise(kinds)) <= {
            ("write", "sync"),
            ("sync", "read"),
            ("read", "sync"),
            ("sync", "write"),
        }
        assert effects.graphed(source) == "write"


@needs_triton
@pytest.mark.parametrize("target", ["sm_80", "gfx942"])
def test_a_reduction_inside_a_warp_touches_no_memory(target: str) -> None:
    from tests.hosts.triton import test_triton_effects as effects

    for source in (effects.reduce_line(target, 1), effects.scan_line(target, 1)):
        assert effects.compiled(source, target, 1) == effects.graphed(source) == ""
