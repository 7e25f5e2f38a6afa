"""Tidegate in the place of Triton's barrier pass: what is compiled, what is kept, what is said."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import tidegate.triton
from tests.conftest import slow_if
from tidegate.diag import BadInput
from tidegate.graph.model import Point, Sync
from tidegate.hosts.mlir.model import Operation
from tidegate.hosts.triton import libtriton
from tidegate.hosts.triton.dropin import candidates, placing, split, switch, tuning
from tidegate.language.ops import WorkgroupBarrier
from tidegate.triton import FallbackWarning, RaceWarning, UnsupportedTriton
from tidegate.verify import phase_proof
from tidegate.verify.phase_model import Outside

if not libtriton.is_installed():
    pytest.skip(
        "NOT TESTED: Triton is not installed, and there is no pass to replace; `pip install tidegate[triton]`",
        allow_module_level=True,
    )

from oracles.triton_kernels import TARGETS, Case, cases, compile_to

BARRIERS = {
    "cuda": re.compile(r"call void @llvm\.nvvm\.barrier\.cta\.sync"),
    "hip": re.compile(r"call void @llvm\.amdgcn\.s\.barrier"),
}
LINE = re.compile(r"!DILocation\(line: (\d+)")


@pytest.fixture(autouse=True)
def nothing_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Each test starts with Triton as it comes, an empty cache and an empty report."""
    from triton import knobs

    monkeypatch.setattr(knobs.cache, "dir", str(tmp_path / "cache"))
    tidegate.triton.clear_report()
    yield
    tidegate.triton.uninstall()
    assert knobs.runtime.add_stages_inspection_hook is None


def case_of(name: str) -> Case:
    return next(each for each in cases() if each.name == name)


def gpu_of(target: str) -> object:
    from triton.backends.compiler import GPUTarget

    chip = TARGETS[target]
    return GPUTarget(chip.backend, chip.arch, chip.warp_size)


def llir_of(name: str, target: str) -> str:
    """The LLVM IR that Triton makes; nothing is looked up or kept."""
    return compile_to(case_of(name), target, "llir")[0]["llir"]


def llir_with(placer: Recording, name: str, target: str) -> str:
    """The same with somebody else in the place of the barrier pass."""
    with switch._modes.during(switch._Mode("test", lambda: placer)):
        return llir_of(name, target)


def without_places(llir: str) -> str:
    return re.sub(r", !dbg !\d+|^!.*\n", "", llir, flags=re.MULTILINE)


def barriers_in(llir: str, target: str) -> int:
    return len(BARRIERS[TARGETS[target].backend].findall(llir))


def compiled(name: str, target: str):
    """Through `triton.compile`, cache and all, up to what a GPU takes."""
    import triton

    source, options = case_of(name).source(target)
    return triton.compile(source, target=gpu_of(target), options=options)


# --- the stage ----------------------------------------------------------------------------------------------------


class Recording:
    """A placer that gives what it is told to, and keeps what it was given."""

    def __init__(self, text: str | None = None) -> None:
        self.text = text
        self.given: split.Given | None = None
        self.after = ""

    def place(self, given: split.Given) -> str | None:
        self.given = given
        return self.text

    def placed(self, given: split.Given, text: Callable[[], str]) -> None:
        self.after = text()


@pytest.mark.parametrize("target", slow_if(["sm_80", "sm_90", "gfx942", "gfx1250"], lambda target: target != "sm_80"))
def test_the_stage_is_triton_own_where_nobody_places_anything(target: str) -> None:
    own = llir_of("matmul-s2-w4", target)
    left = Recording()
    assert llir_with(left, "matmul-s2-w4", target) == own
    # Printing and parsing again changes nothing: not an instruction, not a line of the source.
    again = Recording(left.after)
    assert llir_with(again, "matmul-s2-w4", target) == own
    assert again.given is not None
    assert again.given.kernel == "matmul"
    assert "allocation.offset" in again.given.text


def test_a_stage_that_is_not_known_is_not_split() -> None:
    class Backend:
        target = gpu_of("sm_80")

        def make_llir(self, *args) -> str:
            return ""

    with pytest.raises(split.Unsplittable, match="`cuda` is not the one that is known"):
        split.split_stage(Backend(), None, 80, Recording())


# --- what is compiled ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", slow_if(["sm_80", "gfx1250"], lambda target: target != "sm_80"))
def test_a_pipelined_loop_has_fewer_barriers(target: str) -> None:
    own = llir_of("matmul-s3-w4", target)
    with tidegate.triton.enabled():
        ours = llir_of("matmul-s3-w4", target)
    assert barriers_in(ours, target) < barriers_in(own, target)
    (entry,) = tidegate.triton.report()
    assert entry.kernel == "matmul"
    assert not entry.why_not
    assert entry.proved
    assert barriers_in(own, target) - barriers_in(ours, target) == entry.before - entry.after
    assert entry.reasons
    assert all("matmul.py:" in each or each.endswith(candidates.ONCE) for each in entry.reasons)


def test_where_loops_gain_nothing_barriers_stay_where_triton_has_them() -> None:
    """On an H200 this loop takes 23 % longer with its barrier behind the product instead of before the stores."""
    own = llir_of("matmul-s1-w4", "sm_90")
    with tidegate.triton.enabled():
        assert llir_of("matmul-s1-w4", "sm_90") == own
    (entry,) = tidegate.triton.report()
    assert entry.after == entry.before
    with tidegate.triton.enabled(merge_waits="always"):
        assert llir_of("matmul-s1-w4", "sm_90") != own


def test_a_barrier_of_triton_is_not_moved_past_an_access() -> None:
    """The first operation of a block has a point that no plan may use: the one behind it is another place."""
    first, second = Operation("ttg.local_load"), Operation("ttg.local_load")
    arithmetic = Operation("arith.addi")
    own = [arithmetic, first, second]
    assert candidates._point_from(own, 0, {id(first): 3, id(second): 7}) == 3
    assert candidates._point_from(own, 0, {id(first): candidates.NOWHERE, id(second): 7}) is None
    assert candidates._point_from([arithmetic, Operation("cf.br", successors=("^bb1",)), second], 0, {}) is None


@pytest.mark.slow
def test_needless_barriers_outside_of_loops_stay_where_loops_have_some() -> None:
    """Met once; on an H200 nothing is gained without them, and this kernel loses half a percent."""
    own = llir_of("gluon-matmul-copied-s2", "sm_80")
    with tidegate.triton.enabled():
        assert without_places(llir_of("gluon-matmul-copied-s2", "sm_80")) == without_places(own)
    assert tidegate.triton.report().entries[0].reasons == (f"shared_memory_barrier: {candidates.ONCE}",)


@pytest.mark.slow
def test_a_kernel_that_spills_keeps_its_barriers() -> None:
    """On an H200 it loses 3 % with a needless barrier less in its loop, with as many bytes spilled."""
    with tidegate.triton.enabled(), pytest.warns(FallbackWarning, match="takes 256 registers of a thread, and spills"):
        llir_of("matmul-pingpong", "sm_80")


def candidate(
    in_loops: float, cycles: float | None, barriers: int = 3, *, moves_waits: bool = False
) -> candidates.Candidate:
    """With numbers in the place of a program, which has one loop."""

    class Numbers(candidates.Candidate):
        barriers = 0

        def cycles(self, loop: int) -> float | None:
            assert loop == 0
            return cycles

    class Graph:
        points = (Point(Sync(WorkgroupBarrier()), (), loop=0),)

    found = object.__new__(Numbers)
    found.__dict__.update(in_loops=in_loops, after=Graph, moves_waits=moves_waits)
    Numbers.barriers = barriers
    return found


@pytest.mark.parametrize(
    ("other", "is_taken"),
    [
        (candidate(32.0, 900.0), False),  # as many: where they are
        (candidate(16.0, 1000.0), True),  # fewer, and not slower
        (candidate(16.0, 1020.0), False),  # fewer, and slower
        (candidate(48.0, 900.0), False),
        (candidate(16.0, None), True),
        (candidate(16.0, None, moves_waits=True), False),
        (candidate(16.0, 1000.0, moves_waits=True), False),  # a wait moves only if that pays
        (candidate(16.0, 980.0, moves_waits=True), True),
        (candidate(32.0, None), False),
    ],
)
def test_fewer_barriers_in_loops_are_taken_if_the_model_does_not_object(
    other: candidates.Candidate, is_taken: bool
) -> None:
    assert candidates.is_better(other, candidate(32.0, 1000.0)) is is_taken


def test_without_loops_the_fewest_barriers_are_taken() -> None:
    assert candidates.is_better(candidate(0.0, 110.0, 2), candidate(0.0, 100.0, 3))
    assert not candidates.is_better(candidate(0.0, 100.0, 3), candidate(0.0, 110.0, 2))


def test_a_reason_names_a_few_places() -> None:
    with tidegate.triton.enabled(merge_waits="always"):
        llir_of("attention-back-queries", "sm_80")
    (entry,) = tidegate.triton.report()
    assert any(each.endswith(" more") for each in entry.reasons)
    assert all(each.count(";") <= candidates.MOST_PLACES for each in entry.reasons)


@pytest.mark.slow
def test_lines_of_the_source_stay() -> None:
    own = llir_of("softmax", "sm_80")
    with tidegate.triton.enabled():
        ours = llir_of("softmax", "sm_80")
    assert barriers_in(ours, "sm_80") > 0
    assert set(LINE.findall(ours)) == set(LINE.findall(own))


@pytest.mark.slow
@pytest.mark.parametrize("merge_waits", ["never", "model", "always"])
def test_every_way_to_merge_waits_compiles(merge_waits: str) -> None:
    with tidegate.triton.enabled(merge_waits=merge_waits, verify=True):
        llir_of("matmul-s4-w4", "sm_80")
    (entry,) = tidegate.triton.report()
    assert not entry.why_not
    assert entry.after <= entry.before


def test_an_unknown_option_is_refused() -> None:
    with pytest.raises(BadInput, match="waits cannot be merged `sometimes`"):
        tidegate.triton.install(merge_waits="sometimes")


# --- the cache ----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_cache_keeps_what_was_compiled_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = compiled("softmax", "sm_80")
    found = [plain.hash]
    for options in ({}, {"merge_waits": "never"}, {"verify": True}):
        with tidegate.triton.enabled(**options):
            found.append(compiled("softmax", "sm_80").hash)
    monkeypatch.setattr(switch, "own_version", lambda: "0.0.2")
    with tidegate.triton.enabled():
        found.append(compiled("softmax", "sm_80").hash)
    monkeypatch.setattr(switch, "fingerprint", lambda: "other files")
    with tidegate.triton.enabled():
        found.append(compiled("softmax", "sm_80").hash)
    assert len(set(found)) == len(found) == 6
    count = len(tidegate.triton.report())
    assert compiled("softmax", "sm_80").hash == plain.hash  # switched off, and found again
    with tidegate.triton.enabled():
        again = compiled("softmax", "sm_80")
    assert again.hash == found[-1]
    assert len(tidegate.triton.report()) == count, "what is in the cache is not compiled again"
    assert again.metadata.tidegate["proved"] is True


# --- on and off ---------------------------------------------------------------------------------------------------


def mode() -> str:
    from triton import knobs

    hook = knobs.runtime.add_stages_inspection_hook
    return hook()[0] if hook is not None else ""


def test_modes_are_nested() -> None:
    assert mode() == ""
    tidegate.triton.install(merge_waits="never")
    assert "'never'" in mode()
    with tidegate.triton.enabled(merge_waits="always"):
        assert "'always'" in mode()
        with tidegate.triton.disabled():
            assert mode() == ""
        tidegate.triton.install(verify=True)
        assert "'always'" in mode()
    assert "'model'" in mode()
    assert "verify=True" in mode()
    tidegate.triton.uninstall()
    assert mode() == ""


def test_switched_off_inside_it_stays_on_till_the_end() -> None:
    tidegate.triton.install()
    with tidegate.triton.enabled(merge_waits="always"):
        tidegate.triton.uninstall()
        assert "'always'" in mode()
    assert mode() == ""


def test_a_hook_that_was_there_is_called_and_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    from triton import knobs

    called: list[int] = []

    def theirs(*args):
        called.append(len(args))
        return None if args else ("theirs", "short")

    knobs.runtime.add_stages_inspection_hook = theirs
    try:
        with tidegate.triton.enabled():
            assert mode().startswith("theirstidegate-")
            llir_of("softmax", "sm_80")
        assert called == [0, 5]
        assert knobs.runtime.add_stages_inspection_hook is theirs
    finally:
        knobs.runtime.add_stages_inspection_hook = None


def test_a_stage_that_somebody_replaced_is_left_alone() -> None:
    from triton import knobs

    def theirs(*args):
        if not args:
            return "theirs", "short"
        own = args[1]["llir"]
        args[1]["llir"] = lambda source, metadata: own(source, metadata)
        return None

    own = llir_of("matmul-s3-w4", "sm_80")
    knobs.runtime.add_stages_inspection_hook = theirs
    try:
        with tidegate.triton.enabled(), pytest.warns(FallbackWarning, match="has been replaced by another tool"):
            assert llir_of("matmul-s3-w4", "sm_80") == own
    finally:
        knobs.runtime.add_stages_inspection_hook = None


@pytest.mark.parametrize(
    ("installed", "version", "words"),
    [
        (True, "3.6.0", "Tidegate knows the barrier pass of Triton 3.9.0; Triton 3.6.0 is installed"),
        (False, "", "Tidegate needs Triton 3.9.0, which is not installed: install it with `pip install"),
    ],
)
def test_other_versions_are_refused(installed: bool, version: str, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(libtriton, "is_installed", lambda: installed)
    monkeypatch.setattr(libtriton, "version", lambda: version)
    for call in (tidegate.triton.install, lambda: tidegate.triton.enabled().__enter__(), lambda: tuning.tunable(None)):
        with pytest.raises(UnsupportedTriton, match=re.escape(words)):
            call()


# --- what is left to Triton ---------------------------------------------------------------------------------------


def undecided(*_: object) -> None:
    raise Outside("nothing is said of these objects")


def test_what_is_not_proved_keeps_triton_barriers_and_says_so_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(phase_proof, "prove", undecided)
    own = llir_of("gluon-matmul-tma", "sm_90")
    with tidegate.triton.enabled():
        with pytest.warns(
            FallbackWarning, match=r"@matmul_tma on cuda:90 keeps Triton's own barriers: the verifier does not"
        ):
            assert llir_of("gluon-matmul-tma", "sm_90") == own
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            llir_of("gluon-matmul-tma", "sm_90")
    entries = tidegate.triton.report().entries
    assert [each.after for each in entries] == [each.before for each in entries]
    assert "Triton's own" in str(tidegate.triton.report())
    assert "since the verifier does not decide it" in str(tidegate.triton.report())


def test_a_kernel_with_copies_that_report_gets_fewer_barriers() -> None:
    with tidegate.triton.enabled(), warnings.catch_warnings():
        warnings.simplefilter("error")
        llir_of("gluon-matmul-tma", "sm_90")
    (entry,) = tidegate.triton.report()
    assert entry.before is not None
    assert entry.put < entry.before


def test_a_mistake_of_ours_ends_no_compilation(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args, **kwargs):
        raise AssertionError("a mistake")

    own = llir_of("softmax", "gfx942")
    monkeypatch.setattr(switch, "place_barriers", fail)
    with tidegate.triton.enabled(), pytest.warns(FallbackWarning, match="Tidegate fails: AssertionError: a mistake"):
        assert llir_of("softmax", "gfx942") == own


def test_what_was_written_is_read_back(monkeypatch: pytest.MonkeyPatch) -> None:
    real = placing.write_ttgir

    def lossy(*args, **kwargs) -> str:
        return re.sub(r"^ *ttg\.barrier local.*\n", "", real(*args, **kwargs), count=1, flags=re.MULTILINE)

    own = llir_of("matmul-s3-w4", "sm_80")
    monkeypatch.setattr(placing, "write_ttgir", lossy)
    with tidegate.triton.enabled(), pytest.warns(FallbackWarning, match="that was written is not proved"):
        assert llir_of("matmul-s3-w4", "sm_80") == own


@pytest.mark.slow
def test_verify_proves_triton_own_barriers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(phase_proof, "prove", undecided)
    with tidegate.triton.enabled(verify=True), warnings.catch_warnings():
        warnings.simplefilter("ignore", FallbackWarning)
        llir_of("gluon-matmul-tma", "sm_90")
    (entry,) = tidegate.triton.report()
    assert entry.proved is False
    assert "barrier objects" in entry.doubt
    assert "not proved: barrier objects" in str(tidegate.triton.report())


def test_a_race_in_what_triton_made_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    """Triton's pass is made to do nothing, and Tidegate to leave the kernel to it."""
    left = Recording()
    llir_with(left, "matmul-s3-w4", "sm_80")
    assert left.given is not None
    bare = left.given.text
    assert not placing.find_doubt(left.after, "matmul").words
    monkeypatch.setattr(switch, "place_barriers", lambda *args, **kwargs: placing.Placement(why_not="for a test"))
    placer = switch._Placing(switch.Options(verify=True))
    given = split.Given("matmul", bare, {})
    with pytest.warns(FallbackWarning):
        assert placer.place(given) is None
    with pytest.warns(RaceWarning, match=r"may be too few: matmul\.py:\d+ and matmul\.py:\d+ touch"):
        placer.placed(given, lambda: bare)
    assert given.metadata["tidegate"]["proved"] is False


# --- the environment ----------------------------------------------------------------------------------------------

PRINT = """
import sys
import triton
hook = triton.knobs.runtime.add_stages_inspection_hook
print(hook()[0] if hook else "off")
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({}, "off"),
        ({"TIDEGATE_TRITON": "0"}, "off"),
        ({"TIDEGATE_TRITON": "1"}, "merge_waits='model', verify=False"),
        (
            {"TIDEGATE_TRITON": "1", "TIDEGATE_TRITON_MERGE_WAITS": "never", "TIDEGATE_TRITON_VERIFY": "1"},
            "merge_waits='never', verify=True",
        ),
    ],
)
def test_the_environment_switches_it_on(variables: dict[str, str], words: str) -> None:
    """The installed package brings the file through which this works."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("TIDEGATE_TRITON")}
    done = subprocess.run(
        [sys.executable, "-c", PRINT], env={**clean, **variables}, capture_output=True, text=True, check=True
    )
    assert words in done.stdout


@pytest.mark.slow
def test_the_environment_costs_a_program_without_triton_nothing() -> None:
    text = "import sys; print('triton' in sys.modules, 'islpy' in sys.modules, 'tidegate.triton_start' in sys.modules)"
    env = {**os.environ, "TIDEGATE_TRITON": "1"}
    done = subprocess.run([sys.executable, "-c", text], env=env, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False", "True"]


# --- tuning -------------------------------------------------------------------------------------------------------


class NoGpu:
    """As much of a driver as compiling needs."""

    def __init__(self, target: str) -> None:
        self.target = target

    def get_current_target(self) -> object:
        return gpu_of(self.target)

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int) -> int:
        return 0


@pytest.fixture
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    from triton.runtime.driver import driver

    monkeypatch.setattr(driver, "_active", NoGpu("sm_80"))
    monkeypatch.setenv("TRITON_DEFAULT_FP_FUSION", "1")  # what 3.9 does without being told, with a warning


@pytest.mark.slow
def test_plans_are_one_more_axis(no_gpu: None) -> None:
    import triton

    from oracles.triton_kernels.matmul import matmul

    tiles = {"BM": 128, "BN": 128, "BK": 32}
    configs = tidegate.triton.with_plans([triton.Config(tiles, num_warps=4, num_stages=3)])
    assert [each.kwargs["SYNC_PLAN"] for each in configs] == ["triton", "never", "model", "always"]
    asked: list[int] = []

    def fewest_barriers(call: Callable[[], None], quantiles: object) -> list[float]:
        before = len(tidegate.triton.report())
        call()
        entries = tidegate.triton.report().entries
        found = entries[-1].after if len(entries) > before else 99
        asked.append(found)
        return [float(found)] * 3

    tuned = triton.autotune(configs, key=["cols"], do_bench=fewest_barriers)(tidegate.triton.tunable(matmul))
    real = matmul.run
    matmul.run = lambda *args, warmup, **kwargs: real(*args, warmup=True, **kwargs)  # compiles, and launches nothing
    try:
        tensors = [triton.MockTensor(triton.language.float16) for _ in range(3)]
        tuned[(1,)](*tensors, 4096, 4096)
    finally:
        del matmul.run
    assert asked[0] == 99, "Triton's own pass"
    assert tuned.best_config.kwargs["SYNC_PLAN"] != "triton"
    assert min(asked) == asked[1 + asked[1:].index(min(asked))]
    assert mode() == ""


@pytest.mark.slow
def test_a_plan_that_does_not_exist_is_refused() -> None:
    import triton

    with pytest.raises(BadInput, match="there is not synchronization plan `modl`"):
        tidegate.triton.with_plans([triton.Config({})], ["modl"])
