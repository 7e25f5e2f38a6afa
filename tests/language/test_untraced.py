"""A kernel is what its function records. What is never run, or run in part, is an error and never a proof.

Each case is rejected at the line marked `# here`, with one sentence. Arguments that are no numbers, sizes or element
types are rejected where they are passed: a kernel that the text cannot say is no kernel.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tidegate as tg
from tidegate import Global, f32, i32
from tidegate.cli import main
from tidegate.diag import BadInput
from tidegate.language import builder, types
from tidegate.language.builder import Builder
from tidegate.language.check import check
from tidegate.language.ops import Kernel, Value
from tidegate.language.parse import parse
from tidegate.language.show import show
from tidegate.targets import load_target

CASES: list[tuple[Callable[[], None], str, str]] = []


def rejected(code: str, message: str) -> Callable[[Callable[[], None]], None]:
    def decorate(function: Callable[[], None]) -> None:
        CASES.append((function, code, message))

    return decorate


def trace_of(function: Callable[..., Any], **options: Any) -> Any:
    return tg.kernel(**options)(function).trace()


# --- functions whose body does not run ----------------------------------------------------------------------------


@rejected("TG007", "`k` has a `yield`: calling it runs nothing, so there is nothing to trace")
def a_generator() -> None:
    def k(X: Global[64, f32]):  # here
        yield tg.global_read(X, 0, 64)

    tg.kernel(k)


@rejected("TG007", "`k` has a `yield`: calling it runs nothing, so there is nothing to trace")
def a_generator_that_delegates() -> None:
    def k(X: Global[64, f32]):  # here
        tg.global_read(X, 0, 64)
        yield from ()

    tg.kernel(waves=4)(k)


@rejected("TG007", "`k` is `async`: calling it runs nothing, so there is nothing to trace")
def a_coroutine() -> None:
    async def k(X: Global[64, f32]):  # here
        tg.global_read(X, 0, 64)

    tg.kernel(k)


@rejected("TG007", "`k` is `async`: calling it runs nothing, so there is nothing to trace")
def an_asynchronous_generator() -> None:
    async def k(X: Global[64, f32]):  # here
        yield tg.global_read(X, 0, 64)

    tg.kernel(k)


@rejected("TG007", "`part` has a `yield`: calling it runs nothing, so there is nothing to trace")
def a_helper_that_is_a_generator() -> None:
    def part(X):  # here
        yield tg.global_read(X, 0, 64)

    tg.function(part)


@rejected("TG007", "`part` is `async`: calling it runs nothing, so there is nothing to trace")
def a_helper_that_is_a_coroutine() -> None:
    async def part(X):  # here
        tg.global_read(X, 0, 64)

    tg.function(part)


def plain_generator(X: Any) -> Any:
    yield tg.global_read(X, 0, 64)


async def plain_coroutine(X: Any) -> None:
    tg.global_read(X, 0, 64)


@rejected("TG007", "what this statement calls never runs")
def a_generator_that_nobody_iterates() -> None:
    @trace_of
    def k(X: Global[64, f32]):
        tg.workgroup_barrier()
        plain_generator(X)  # here


@rejected("TG007", "what this statement calls never runs")
def a_coroutine_that_nobody_awaits() -> None:
    @trace_of
    def k(X: Global[64, f32]):
        tg.workgroup_barrier()
        for _ in tg.iterate(4):
            plain_coroutine(X)  # here


@rejected("TG007", "what this statement calls never runs")
def a_generator_expression() -> None:
    @trace_of
    def k():
        tg.workgroup_barrier()
        (tg.workgroup_barrier() for _ in range(4))  # here


def test_a_generator_that_is_iterated_is_fine() -> None:
    @trace_of
    def made(X: Global[64, f32], Y: Global[64, f32]):
        for tile in plain_generator(X):
            tg.global_write(tile, Y, 0)

    assert len(made.kernel.body.ops) == 2


@rejected("TG007", "`k` is wrapped by another decorator, whose own code would not be traced")
def a_wrapper_with_code_of_its_own() -> None:
    def with_barrier(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)  # here
        def call(*args: Any, **kwargs: Any) -> Any:
            tg.workgroup_barrier()
            return function(*args, **kwargs)

        return call

    @with_barrier
    def k(X: Global[64, f32]):
        tg.global_read(X, 0, 64)

    tg.kernel(k)


@rejected("TG007", "a kernel is made of a function, not of a class")
def a_class() -> None:
    class k:
        pass

    tg.kernel(k)  # here


@rejected("TG007", "a kernel is made of a function, not of a `partial`")
def a_partial() -> None:
    def k(n: int = 4) -> None:
        tg.workgroup_barrier()

    tg.kernel(waves=4)(functools.partial(k, n=2))  # here


@rejected("TG007", "a kernel is made of a function, not of a `builtin_function_or_method`")
def a_builtin() -> None:
    tg.kernel(len)  # here


# --- functions that run in part -----------------------------------------------------------------------------------


@rejected("TG014", "`k` returns `<%tile: tile<64xf32>>`")
def a_tile_is_returned() -> None:
    def k(X: Global[64, f32]):  # here
        return tg.global_read(X, 0, 64)

    trace_of(k)


@rejected("TG007", "`k` records no operation")
def nothing_is_recorded() -> None:
    def k(X: Global[64, f32]):  # here
        pass

    trace_of(k)


@rejected("TG007", "`k` records no operation")
def another_kernel_is_traced() -> None:
    @tg.kernel
    def inner():
        tg.workgroup_barrier()

    def k():  # here
        inner.trace()

    trace_of(k)


@rejected("TG005", "`0` is not a size")
def a_mistake_that_the_kernel_catches() -> None:
    @trace_of
    def k():
        tg.workgroup_barrier()
        with contextlib.suppress(Exception):
            tg.alloc((0,), f32)  # here


@rejected("TG007", "this wave group is left by an exception that the kernel catches")
def an_exception_leaves_a_group() -> None:
    @trace_of
    def k():
        tg.workgroup_barrier()
        try:
            with tg.wave_group(0, 2):  # here
                tg.scheduling_barrier()
                raise KeyError
        except KeyError:
            pass


@rejected("TG007", "this conditional is left by an exception that the kernel catches")
def an_exception_leaves_a_conditional() -> None:
    @trace_of
    def k(F: tg.Flag):
        for _ in tg.iterate(4):
            with contextlib.suppress(KeyError), tg.conditional(F):  # here
                tg.scheduling_barrier()
                raise KeyError


@rejected("TG007", "`k` returns from inside a loop")
def an_exception_leaves_a_loop() -> None:
    @trace_of
    def k():
        with contextlib.suppress(KeyError):
            for _ in tg.iterate(4):  # here
                tg.scheduling_barrier()
                raise KeyError


@rejected("TG007", "this loop is never entered")
def a_loop_that_nobody_enters() -> None:
    @trace_of
    def k():
        tg.workgroup_barrier()
        tg.iterate(4)  # here


@rejected("TG007", "this conditional is never entered")
def a_conditional_that_nobody_enters() -> None:
    @trace_of
    def k(F: tg.Flag):
        tg.conditional(F)  # here
        tg.workgroup_barrier()


@rejected("TG007", "this wave group is never entered")
def a_group_that_nobody_enters() -> None:
    @trace_of
    def k():
        half = tg.wave_group(0, 2)  # here
        tg.workgroup_barrier()
        return half


@pytest.mark.parametrize("head", ["def k", "async def k"], ids=["yield", "async"])
def test_the_command_ends_with_status_2(
    head: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    last = "    yield\n" if head == "def k" else ""
    (tmp_path / "k.py").write_text(
        "import tidegate as tg\n\n@tg.kernel(waves=4)\n"
        f"{head}(X: tg.Global[64, tg.f32]):\n    tg.global_read(X, 0, 64)\n{last}"
    )
    monkeypatch.setattr("sys.argv", ["tidegate", "check", str(tmp_path / "k.py")])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert "calling it runs nothing" in capsys.readouterr().err


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0].__name__)
def test_what_is_not_run_is_rejected(case: tuple[Callable[[], None], str, str]) -> None:
    function, code, message = case
    depth = len(builder._recording)
    with pytest.raises(BadInput) as raised:
        function()
    (finding,) = raised.value.findings
    assert (finding.code, finding.message) == (code, message)
    lines, first = inspect.getsourcelines(function)
    marked = [number for number, line in enumerate(lines, first) if line.rstrip().endswith("# here")]
    assert [finding.at.line] == marked
    assert finding.help
    assert len(builder._recording) == depth, "the builder was left open"


# --- arguments ----------------------------------------------------------------------------------------------------

HUGE = 10**30


@pytest.mark.parametrize("waves", [True, False, 0, -1, 1.5, "4", None, HUGE, np.bool_(True)], ids=repr)
def test_waves_that_are_no_number(waves: Any) -> None:
    with pytest.raises(BadInput, match="the number of waves cannot be"):
        tg.kernel(waves=waves)
    if waves is None:
        return

    @tg.kernel
    def k():
        tg.workgroup_barrier()

    with pytest.raises(BadInput, match="the number of waves cannot be"):
        k.trace(waves=waves)


@pytest.mark.parametrize("size", [-1, 0, True, 1.5, None, "M", 10**12, HUGE], ids=repr)
def test_sizes_of_global_memory_that_are_none(size: Any) -> None:
    with pytest.raises(BadInput, match="is not a size"):
        _ = Global[size, f32]


@pytest.mark.parametrize("size", [-1, 0, True, 1.5, None, "4", HUGE], ids=repr)
def test_defaults_of_sizes_that_are_no_number(size: Any) -> None:
    with pytest.raises(BadInput, match="the size `N` cannot be"):
        tg.sizes(N=size)
    with pytest.raises(BadInput, match="the size `N` cannot be"):
        tg.size("N", size)


def test_numbers_of_numpy_are_numbers() -> None:
    def k(X: Global[np.int64(64), f32]):
        x = tg.global_read(X, np.int32(0), np.int64(64))
        tile = tg.alloc((np.int64(64),), f32, np.int8(2))
        tg.local_write(x, tile, slot=np.uint8(1))

    made = trace_of(k, waves=np.int64(4)).kernel
    assert (type(made.waves), made.waves) == (int, 4)
    assert parse(show(made)).kernels == (made,)


# What is passed, and the words of the finding.
PASSED: dict[str, tuple[Callable[[], Any], str]] = {
    "alloc of no size": (lambda: tg.alloc((-1,), f32), "TG005 `-1` is not a size"),
    "alloc of True": (lambda: tg.alloc((True,), f32), "TG005 `True` is not a size"),
    "alloc of too much": (lambda: tg.alloc((1 << 20, 1 << 21), f32), "TG005 .* more than 2^40 elements"),
    "alloc of a huge size": (lambda: tg.alloc((HUGE,), f32), "TG005 .* is not a size"),
    "alloc of a word": (lambda: tg.alloc(64, "f32"), "TG005 `'f32'` is not an element type"),
    "alloc of Python's float": (lambda: tg.alloc(64, float), "TG005 `<class 'float'>` is not an element type"),
    "alloc of nothing": (lambda: tg.alloc(64, None), "TG005 `None` is not an element type"),
    "no slots": (lambda: tg.alloc(64, f32, 0), "TG016 the number of slots cannot be 0"),
    "slots that are true": (lambda: tg.alloc(64, f32, True), "TG012 the number of slots cannot be `True`"),
    "half a slot": (lambda: tg.alloc(64, f32, 1.5), "TG012 the number of slots cannot be `1.5`"),
    "a word of slots": (lambda: tg.alloc(64, f32, "2"), "TG012 the number of slots cannot be `'2'`"),
    "huge slots": (lambda: tg.alloc(64, f32, 10**10), "TG005 `10000000000` is not a number of slots"),
    "a place before the memory": (lambda: tg.alloc(64, f32, at=-1), "TG016 the first byte of a buffer cannot be -1"),
    "a place that is true": (lambda: tg.alloc(64, f32, at=True), "TG012 the first byte of a buffer cannot be `True`"),
    "half a byte": (lambda: tg.alloc(64, f32, at=0.5), "TG012 the first byte of a buffer cannot be `0.5`"),
    "a tile of True": (lambda: tg.zeros((True,), f32), "TG005 `True` is not a size"),
    "a tile of a word": (lambda: tg.zeros((64,), "f32"), "TG005 `'f32'` is not an element type"),
    "a cast to a word": (lambda: tg.cast(tg.zeros(64, f32), "f16"), "TG005 `'f16'` is not an element type"),
    "a cast to Python's int": (lambda: tg.zeros(64, f32).to(int), "TG005 `<class 'int'>` is not an element type"),
    "a splat of a word": (lambda: tg.splat(1, 64, "i32"), "TG005 `'i32'` is not an element type"),
    "a fill with a word": (lambda: tg.fill(64, f32, "a"), "TG012 a tile cannot be filled with `'a'`"),
    "a fill with nothing": (lambda: tg.fill(64, i32, None), "TG012 a tile cannot be filled with `None`"),
    "an axis that is true": (lambda: tg.iota((4, 64), True), "TG012 the axis of a tile cannot be `True`"),
    "half an axis": (lambda: tg.iota((4, 64), 0.5), "TG012 the axis of a tile cannot be `0.5`"),
    "an axis of a grid that is true": (lambda: tg.workgroup(True), "TG016 a grid has axes 0, 1 and 2, not True"),
    "half an axis of a grid": (lambda: tg.workgroup(1.0), "TG016 a grid has axes 0, 1 and 2, not 1.0"),
    "an index that is true": (lambda: tg.let(True), "TG012 an index cannot be made of `True`"),
    "a huge index": (lambda: tg.let(HUGE), "TG016 an index is beyond what a kernel can say"),
    "a name that is a number": (lambda: tg.let(3, 5), "TG012 the name of an index cannot be `5`"),
    "a size whose name is a number": (lambda: tg.size(5, 4), "TG012 the name of a size cannot be `5`"),
    "trips that are true": (lambda: tg.iterate(True), "TG012 an index cannot be made of `True`"),
    "a step that is true": (lambda: tg.iterate(0, 8, True), "TG012 an index cannot be made of `True`"),
    "an expectation that is true": (lambda: tg.iterate(4, expect=True), "TG012 the expected number of trips cannot"),
    "half a trip": (lambda: tg.iterate(4, expect=1.5), "TG012 the expected number of trips cannot be `1.5`"),
    "fewer trips than none": (lambda: tg.iterate(4, expect=-1), "TG016 the expected number of trips cannot be -1"),
    "a wave that is true": (lambda: tg.wave_group(True, 2), "TG012 the first wave cannot be `True`"),
    "half a wave": (lambda: tg.wave_group(0, 1.5), "TG012 the wave after the last cannot be `1.5`"),
    "a wave that is an index": (lambda: tg.wave_group(tg.wave(), 2), "TG012 the first wave cannot be"),
    "a count that is true": (lambda: tg.wait_count(vmcnt=True), "TG012 `vmcnt` cannot be `True`"),
    "half a count": (lambda: tg.wait_count(vmcnt=1.5), "TG012 `vmcnt` cannot be `1.5`"),
    "a count below zero": (lambda: tg.wait_count(vmcnt=-1), "TG016 `vmcnt` cannot be -1"),
    "a barrier's count": (lambda: tg.shared_memory_barrier(vmcnt="1"), "TG012 `vmcnt` cannot be `'1'`"),
    "a flag that is a word": (lambda: tg.workgroup_barrier(pinned="no"), "TG012 `pinned` cannot be `'no'`"),
    "a flag that is a number": (lambda: tg.shared_memory_barrier(wait_async_ops=2), "TG012 `wait_async_ops` cannot"),
    "a barrier that is true": (lambda: tg.signal(True), "TG012 expected a barrier, found `True`"),
    "a huge barrier": (lambda: tg.wait(HUGE), "TG016 the number of a barrier cannot be 10"),
    "no arrivals": (lambda: tg.named_barrier(0), "TG016 the number of arrivals cannot be 0"),
    "arrivals that are true": (lambda: tg.named_barrier(True), "TG012 the number of arrivals cannot be `True`"),
    "a fraction of an arrival": (lambda: tg.mbarrier(1.5), "TG012 the number of arrivals cannot be `1.5`"),
    "too many arrivals": (lambda: tg.mbarrier(10**9), "TG005 `1000000000` is not a number of arrivals"),
    "no mbarriers": (lambda: tg.mbarrier(4, 0), "TG016 the number of slots cannot be 0"),
    "bytes that are true": (
        lambda: tg.mbarrier_arrive(tg.mbarrier(1), expect=True),
        "TG012 the number of bytes to expect cannot be `True`",
    ),
    "a priority that is true": (lambda: tg.set_wave_prio(True), "TG012 the priority of a wave cannot be `True`"),
    "half a priority": (lambda: tg.set_wave_prio(1.5), "TG012 the priority of a wave cannot be `1.5`"),
    "an atomic of a number": (lambda: tg.atomic_add(5, tg.alloc(64, i32), fetch=True), "TG012 expected a tile"),
    "a fetch that is a number": (
        lambda: tg.atomic_add(tg.zeros(64, i32), tg.alloc(64, i32), fetch=1),
        "TG012 `fetch` cannot be `1`",
    ),
    "a view of a word": (
        lambda: tg.view(tg.alloc(64, f32), shape=64, dtype="f32"),
        "TG005 `'f32'` is not an element type",
    ),
    "a slot that is true": (
        lambda: tg.local_write(tg.zeros(64, f32), tg.alloc(64, f32, 2), slot=True),
        "TG012 an index cannot be made of `True`",
    ),
}


@pytest.mark.parametrize("case", PASSED)
def test_an_argument_is_rejected(case: str) -> None:
    passed, words = PASSED[case]
    code, _, sentence = words.partition(" ")
    with Builder(), pytest.raises(BadInput) as raised:
        passed()
    (finding,) = raised.value.findings
    first, _, last = sentence.partition(".*")
    assert finding.code == code
    assert first in finding.message
    assert last in finding.message


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"grid": (True,)}, "an index cannot be made of `True`"),
        ({"grid": (1.5,)}, "an index cannot be made of `1.5`"),
        ({"where": 5}, "a condition cannot be made of `5`"),
        ({"sizes": 5}, "`5` is not a size parameter"),
        ({"sizes": ["N"]}, "`'N'` is not a size parameter"),
        ({"target": 5}, "the target cannot be `5`"),
        ({"target": None}, "the target cannot be `None`"),
    ],
    ids=str,
)
def test_an_option_is_rejected(options: dict[str, Any], words: str) -> None:
    def k():
        tg.workgroup_barrier()

    with pytest.raises(BadInput) as raised:
        trace_of(k, **options)
    assert words in raised.value.findings[0].message


@pytest.mark.parametrize("grid", [0, -1])
def test_a_grid_without_workgroups(grid: int) -> None:
    def k():
        tg.workgroup_barrier()

    (finding,) = check(trace_of(k, grid=grid).kernel, load_target("gfx942"))
    assert (finding.code, finding.message) == ("TG016", f"a grid of {grid} holds no workgroup")


@pytest.mark.parametrize(
    "type_",
    [
        types.Global((-1,), f32),
        types.Global((True,), f32),
        types.Global((10**12,), f32),
        types.Lds((0,), f32),
        types.Lds((64,), f32, 0),
        types.Lds((64,), f32, 1.5),  # type: ignore[arg-type]
        types.Tile((64,), "f32"),  # type: ignore[arg-type]
        types.BarrierObject("mbarrier", 0),
        types.BarrierObject("named_barrier", True),
    ],
    ids=repr,
)
def test_a_kernel_that_was_built_by_hand_is_checked_too(type_: types.Type) -> None:
    """`check` is asked about kernels from anywhere: from builders and rewrites, not only from text and traces."""
    made = Kernel("k", (Value("%x", type_),), parse("kernel @k() waves 4 { workgroup_barrier }").kernels[0].body, 4)
    assert "TG005" in {each.code for each in check(made, load_target("sm_90"))}


@pytest.mark.parametrize("waves", [True, 1.5, "4"])
def test_a_built_kernel_has_a_whole_number_of_waves(waves: Any) -> None:
    body = parse("kernel @k() waves 4 { workgroup_barrier }").kernels[0].body
    (finding,) = check(Kernel("k", (), body, waves), load_target("sm_90"))
    assert (finding.code, finding.message) == ("TG012", f"the number of waves cannot be `{waves!r}`")


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("kernel @k(%X: global<-1xf32>) waves 4 { workgroup_barrier }", "TG005"),
        ("kernel @k(%X: global<0xf32>) waves 4 { workgroup_barrier }", "TG005"),
        ("kernel @k(%X: global<1000000000000xf32>) waves 4 { workgroup_barrier }", "TG005"),
        ("kernel @k() waves 0 { workgroup_barrier }", "TG016"),
        ("kernel @k() waves -1 { workgroup_barrier }", "TG016"),
        ("kernel @k() waves 1.5 { workgroup_barrier }", "TG001"),
        ("kernel @k() waves true { workgroup_barrier }", "TG001"),
        ("kernel @k() grid(0) waves 4 { workgroup_barrier }", "TG016"),
        ("kernel @k(%X: global<Nxf32>) sizes(N = 0) waves 4 { workgroup_barrier }", "TG016"),
        ("kernel @k() waves 4 { %a = alloc : lds<64xf32, slots = 0> }", "TG005"),
        ("kernel @k() waves 4 { %a = alloc : lds<-4xf32> }", "TG005"),
        ("kernel @k() waves 4 { iterate %k in 0 .. 4 step 0 { workgroup_barrier } }", "TG016"),
        ("kernel @k() waves 4 { iterate %k in 0 .. 4 step -1 { workgroup_barrier } }", "TG016"),
        ("kernel @k() waves 4 { %b = new_barrier : mbarrier<0> }", "TG005"),
        ("kernel @k() waves 4 { wait_count vmcnt(-1) }", "TG016"),
    ],
)
def test_the_text_says_the_same(text: str, code: str) -> None:
    try:
        (kernel,) = parse(text).kernels
        found = check(kernel, load_target("gfx942"))
    except BadInput as error:
        found = list(error.findings)
    assert code in {each.code for each in found}
