"""The verbs of the library: each with each form of a program, what makes a result true, and input that is wrong."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tidegate as tg
from oracles.programs import ptx_kernels
from tests.conftest import ROOT
from tidegate import seeds
from tidegate.graph.model import SyncGraph

TEXT = """\
target gfx942

kernel @shift(%X: global<MxNxf32>, %Y: global<MxNxf32>) sizes(M = 4, N = 64) where(M == 4) waves 4 {
  # the author's own remark
  %rows = alloc : lds<4x64xf32>
  %a = global_read %X[wave, 0] bounds(M, N) : tile<64xf32>
  local_write %a, %rows[wave]
  shared_memory_barrier
  %b = local_read %rows[(wave + 1) mod 4] : tile<64xf32>
  global_write %b, %Y[wave, 0] bounds(M, N)
}
"""
RACY = TEXT.replace("  shared_memory_barrier\n", "")
PYTHON = """\
import numpy as np
import tidegate as tg

@tg.kernel(waves=4, target="gfx942")
def shift(X: tg.Global[4, 64, tg.f32], Y: tg.Global[4, 64, tg.f32]) -> None:
    rows = tg.alloc((4, 64), tg.f32)
    tg.local_write(tg.global_read(X, (tg.wave(), 0), (64,)), rows, (tg.wave(), 0))
{barrier}
    tg.global_write(tg.local_read(rows, ((tg.wave() + 1) % 4, 0), (64,)), Y, (tg.wave(), 0))

def reference(inputs, sizes):
    return {{"Y": np.roll(inputs["X"], {by}, axis=0)}}
"""


@tg.kernel(waves=4, target="gfx942")
def right(X: tg.Global[4, 64, tg.f32], Y: tg.Global[4, 64, tg.f32]) -> None:
    rows = tg.alloc((4, 64), tg.f32)
    tg.local_write(tg.global_read(X, (tg.wave(), 0), (64,)), rows, (tg.wave(), 0))
    tg.shared_memory_barrier()
    tg.global_write(tg.local_read(rows, ((tg.wave() + 1) % 4, 0), (64,)), Y, (tg.wave(), 0))


@tg.kernel(waves=4, target="gfx942")
def racy(X: tg.Global[4, 64, tg.f32], Y: tg.Global[4, 64, tg.f32]) -> None:
    rows = tg.alloc((4, 64), tg.f32)
    tg.local_write(tg.global_read(X, (tg.wave(), 0), (64,)), rows, (tg.wave(), 0))
    tg.global_write(tg.local_read(rows, ((tg.wave() + 1) % 4, 0), (64,)), Y, (tg.wave(), 0))


Form = Callable[[Path, bool], Any]


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def graph(good: bool) -> SyncGraph:
    return tg.build_graph(right if good else racy).graph


def python(good: bool, by: int = -1) -> str:
    return PYTHON.format(barrier="    tg.shared_memory_barrier()" if good else "", by=by)


FORMS: dict[str, Form] = {
    "function": lambda folder, good: right if good else racy,
    "trace": lambda folder, good: (right if good else racy).trace(),
    "kernel": lambda folder, good: (right if good else racy).trace().kernel,
    "module": lambda folder, good: tg.parse(TEXT if good else RACY, "shift.tide"),
    "kernel's graph": lambda folder, good: tg.build_graph(right if good else racy),
    "graph": lambda folder, good: graph(good),
    "path": lambda folder, good: written(folder, "k.tide", TEXT if good else RACY),
    "path as text": lambda folder, good: str(written(folder, "k.tide", TEXT if good else RACY)),
    "path and name": lambda folder, good: f"{written(folder, 'k.py', python(good))}::shift",
    "path of a graph": lambda folder, good: written(folder, "k.sync", tg.show_graph(graph(good))),
    "result": lambda folder, good: tg.sync(racy, bisect=None if good else 0),
}
GRAPHS = ("graph", "path of a graph")


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("good", [True, False])
def test_every_verb_takes_every_form(form: str, good: bool, tmp_path: Path) -> None:
    program = FORMS[form](tmp_path, good)
    checked = tg.check(program)
    assert bool(checked) is checked.is_proved is good
    assert [each.code for each in checked] == ([] if good else ["TG101"])
    assert ("proved: " in str(checked)) is True
    assert str(checked).startswith("proved: ") is good
    explained = tg.explain(program)
    assert bool(explained) is good
    assert len(explained.barriers) == good
    assert str(explained) == explained.text
    drawn = tg.draw(program)
    assert bool(drawn) is good
    assert "as given" in str(drawn)
    ran = tg.run(program)
    assert bool(ran) is good
    assert bool(ran.arrays) is (form not in GRAPHS)
    synchronized = tg.sync(program)
    assert synchronized
    assert str(synchronized) == synchronized.text
    assert "shared_memory_barrier" in str(synchronized)
    assert tg.check(synchronized)
    if form in GRAPHS:
        with pytest.raises(tg.TidegateError, match="cannot be scheduled"):
            tg.schedule(program)
    else:
        scheduled = tg.schedule(program)
        assert scheduled.asked == "auto"
        assert bool(scheduled) is (scheduled.chosen is not None)
    for each in (checked, explained, drawn, ran, synchronized):
        assert "<" in each._repr_html_()


def test_ttgir_is_read_from_a_path() -> None:
    path = ROOT / "tests/ttgir/gemm.gfx942.ttgir"
    assert tg.check(path)
    assert tg.explain(path)
    assert tg.draw(path)
    assert tg.run(path)
    result = tg.sync(path)
    assert result
    assert "ttg.local_load" in result.text
    with pytest.raises(tg.TidegateError, match="TTGIR cannot be scheduled"):
        tg.schedule(path)


def test_ptx_is_checked_and_nothing_else(tmp_path: Path) -> None:
    body = """
  mov.u32 %r1, %tid.x;
  mov.u32 %r2, tile;
  shl.b32 %r3, %r1, 2;
  add.s32 %r3, %r2, %r3;
  st.shared.f32 [%r3], %f1;
  {barrier}
  ld.shared.f32 %f2, [%r2];"""
    good = written(tmp_path, "good.ptx", ptx_kernels.kernel(body.replace("{barrier}", "bar.sync 0;")))
    bad = written(tmp_path, "bad.ptx", ptx_kernels.kernel(body.replace("{barrier}", "")))
    assert tg.check(good, block="64")
    found = tg.check(bad, block="64")
    assert not found
    assert {each.code for each in found} == {"TG101", "TG108"}
    assert tg.explain(good, block="64").barriers[0].is_needed
    assert tg.sync(good, block="64").text == Path(good).read_text()
    assert tg.sync(bad, block="64")
    assert str(tg.draw(bad, block="64")).count("proved: no race") == 1
    for verb in (tg.run, tg.schedule):
        with pytest.raises(tg.TidegateError, match="PTX has no operations to run"):
            verb(good)


# --- what makes a result true -------------------------------------------------------------------------------------


def test_what_was_only_simulated_is_not_true() -> None:
    found = tg.check(right, prove=False)
    assert not found
    assert list(found) == []
    assert found.judgement is not None
    assert found.judgement.runs


def test_what_was_only_proved_was_not_simulated() -> None:
    found = tg.check(racy, simulate=False)
    assert not found
    assert found.judgement is None
    assert [each.code for each in found] == ["TG106"]
    assert tg.check(right, simulate=False)


def test_a_result_that_was_not_judged_is_not_true() -> None:
    assert tg.sync(racy)
    assert not tg.sync(racy, judge=False)
    assert not tg.sync(racy, bisect=0)


def test_an_access_outside_its_buffer_is_not_true_of_a_program_that_nothing_is_run_of() -> None:
    outside = tg.parse(TEXT.replace("%rows[wave]", "%rows[wave + 1]"), "k.tide")
    assert not tg.check(outside)
    assert not tg.check(outside, simulate=False)
    built = tg.build_graph(outside).graph
    assert not tg.check(built, simulate=False)
    assert not tg.check(built)


def test_advice_does_not_make_a_result_false() -> None:
    twice = tg.parse(TEXT.replace("  shared_memory_barrier\n", "  shared_memory_barrier\n" * 2), "k.tide")
    found = tg.check(twice, advice=True)
    assert found
    assert {each.severity for each in found} == {"warning"}


def test_a_run_in_order_is_true_only_if_it_is_compared() -> None:
    inputs = tg.make_inputs(right, seed=3)

    def rolled(given: tg.Arrays, sizes: dict[str, int]) -> tg.Arrays:
        given["X"] += 0  # its own copy
        return {"Y": np.roll(given["X"], -1, axis=0)}

    assert not tg.run(right, inputs=inputs, in_order=True)
    found = tg.run(right, inputs=inputs, in_order=True, reference=rolled)
    assert found
    assert found.compared == ("Y",)
    assert (found["Y"] == np.roll(inputs["X"], -1, axis=0)).all()
    other = tg.run(right, inputs=inputs, in_order=True, reference=lambda given, sizes: {"Y": given["X"]})
    assert not other
    assert "256 of 256 elements differ" in str(other)
    assert not tg.run(right, inputs=inputs, reference=lambda given, sizes: {"Y": given["X"][0]})
    assert not tg.run(right, in_order=True, reference=lambda given, sizes: {})


def test_a_python_file_brings_its_reference(tmp_path: Path) -> None:
    assert tg.run(written(tmp_path, "one.py", python(True)), in_order=True).compared == ("Y",)
    wrong = tg.run(written(tmp_path, "two.py", python(True, by=1)))
    assert not wrong
    assert wrong.different


def test_a_hang_is_a_finding_of_a_run() -> None:
    hangs = tg.parse("kernel @h() waves 2 {\n  %b = new_barrier : named_barrier<3>\n  signal %b\n  wait %b\n}\n")
    for in_order in (True, False):
        ran = tg.run(hangs, "none", in_order=in_order)
        assert not ran
        assert [each.code for each in ran.findings] == ["TG221"]
        assert ran.arrays == {}


def test_a_loop_that_does_not_fit_is_declined_and_not_true() -> None:
    found = tg.schedule(ROOT / "examples/gemm_one_slot.tide", strategy="two-pp-cluster")
    assert not found
    assert str(found).startswith("declined: ")
    with pytest.raises(tg.TidegateError, match="no program came of it"):
        tg.check(found)
    with pytest.raises(tg.TidegateError):
        tg.draw(ROOT / "examples/gemm_one_slot.tide", strategy="two-pp-cluster")


def test_a_file_keeps_its_text(tmp_path: Path) -> None:
    result = tg.sync(written(tmp_path, "k.tide", RACY))
    assert "# the author's own remark" in result.text
    assert "shared_memory_barrier  # RAW" in result.text


def test_a_target_is_a_name_or_a_value() -> None:
    facts = tg.load_target("gfx1201")
    for target in ("gfx1201", facts):
        found = tg.sync(racy, target)
        assert found.unit.target == facts
        assert tg.check(found)
    assert tg.check(tg.sync(racy, "gfx942"), "gfx1201")


# --- input that is wrong ------------------------------------------------------------------------------------------

VERBS: dict[str, Callable[..., object]] = {
    "check": tg.check,
    "sync": tg.sync,
    "explain": tg.explain,
    "schedule": tg.schedule,
    "draw": tg.draw,
    "run": tg.run,
}


@pytest.mark.parametrize("verb", VERBS)
def test_what_the_user_got_wrong_is_one_kind_of_error(verb: str, tmp_path: Path) -> None:
    call = VERBS[verb]
    two = written(tmp_path, "two.tide", TEXT + TEXT.replace("target gfx942\n", "").replace("@shift", "@other"))
    wrong: list[tuple[Any, Any, str]] = [
        (None, None, "`NoneType` is not a kernel"),
        (b"k.tide", None, "`bytes` is not a kernel"),
        (TEXT, None, "this is the text of a program"),
        ("missing.tide", None, "cannot be read"),
        ("kernel.cpp", None, "unknown file type"),
        (tmp_path, None, "this is a folder"),
        (two, None, "holds 2 kernels"),
        (f"{two}::third", None, "no kernel `third`"),
        (tg.parse(two.read_text()), None, "has 2 kernels"),
        (written(tmp_path, "bad.tide", "kernel @k() waves 4 {\n  workgroup_barier\n}\n"), None, "TG002"),
        (written(tmp_path, "bad.py", "raise SystemExit(0)\n"), None, "SystemExit"),
        (right, "gfx000", "gfx000"),
        (right, 942, "`942` is not a target"),
        (right, {"X": 1}, "target"),
    ]
    for program, target, message in wrong:
        with pytest.raises(tg.TidegateError, match=message) as caught:
            call(program, target)
        assert caught.value.findings
        assert all(each.code and each.message for each in caught.value.findings)


def test_options_that_mean_nothing_are_refused(tmp_path: Path) -> None:
    shift = written(tmp_path, "k.sync", tg.show_graph(graph(True)))
    wrong: list[tuple[Callable[[], object], str]] = [
        (lambda: tg.check(right, prove=False, simulate=False), "nothing is left to decide it"),
        (lambda: tg.check(right, block="256"), "`block` and `cuda` belong"),
        (lambda: tg.check(right, constraints=[]), "belong to traces of Wave"),
        (lambda: tg.sync(right, strategy="best"), "no strategy `best`"),
        (lambda: tg.sync(right, stagger=-1), "stagger"),
        (lambda: tg.explain(right, atomics="maybe"), "atomics"),
        (lambda: tg.schedule(right, strategy="best"), "best"),
        (lambda: tg.draw(right, sizes={"N": 4}), "no size `N`"),
        (lambda: tg.run(right, sizes={"N": 4}), "no size `N`"),
        (lambda: tg.run(right, seed=-1), "is not a seed"),
        (lambda: tg.run(right, inputs={"X": np.zeros(3)}), "TG022"),
        (lambda: tg.run(right, reference=lambda given, sizes: {"Z": 1}), "is not an array of the kernel"),
        (lambda: tg.run(right, reference=lambda given, sizes: None), "gives `NoneType`"),  # type: ignore[arg-type, return-value]
        (lambda: tg.run(shift, in_order=True), "it has no numbers"),
        (lambda: seeds.add_shared_memory_barriers(right), "is not a trace"),  # type: ignore[arg-type]
        (lambda: seeds.get_barriers_analysis(right.trace().kernel), "is not a trace"),  # type: ignore[arg-type]
    ]
    for call, message in wrong:
        with pytest.raises(tg.TidegateError, match=message):
            call()
