"""The benchmarks on Triton's kernels: mutants are what they say, tables say what was found, children run alone."""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from dataclasses import asdict
from pathlib import Path

import pytest

from bench import __main__ as bench_main
from bench import triton_barriers as barriers
from bench import triton_figures as figures
from bench import triton_mutants as mutants
from bench import triton_time as timing
from oracles.triton_kernels import texts as kernel_texts
from tidegate.diag import Finding
from tidegate.graph.show import show_graph
from tidegate.hosts.triton.program import programs_of
from tidegate.hosts.triton.read import read_ttgir
from tidegate.simulate.judge import Judgement
from tidegate.verify.model import Verification

try:
    import triton  # noqa: F401
except ImportError:
    pytest.skip(
        "NOT TESTED: the benchmarks on Triton's kernels need Triton, which is not installed; "
        "`pip install tidegate[triton]`",
        allow_module_level=True,
    )

COPIED, ALTERNATE, PRODUCT = "gluon-matmul-copied-s2.sm_80", "gluon-alternate.gfx942", "matmul-s1-w4.sm_90"
# A kernel for each kind of mutation in which it does harm for one of the first few seeds.
HARMED = {
    "swapped": ALTERNATE,
    "dropped": ALTERNATE,
    "count": COPIED,
    "renamed": COPIED,
    "slot": COPIED,
    "offset": COPIED,
    "fence": PRODUCT,
}
TRIED = 8


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("texts")


@pytest.fixture(autouse=True)
def _own_folder(texts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_texts, "folder", lambda: texts)


def text_of(name: str) -> str:
    return kernel_texts.synchronized_text_of(kernel_texts.pair_named(name))


def mutant(kind: str, seed: int, name: str = COPIED) -> mutants.Mutant | None:
    made = mutants.mutate(text_of(name), kind, random.Random(seed))
    return None if made is None else mutants.Mutant(seed, kind, name, *made)


def changed(kind: str, name: str = COPIED, seed: int = 0) -> tuple[list[str], list[str]]:
    """The lines that a mutation takes away and puts in."""
    one = mutant(kind, seed, name)
    assert one is not None
    before, after = Counter(text_of(name).split("\n")), Counter(one.text.split("\n"))
    return sorted((before - after).elements()), sorted((after - before).elements())


# --- texts --------------------------------------------------------------------------------------------------------


def test_a_text_is_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    pair = kernel_texts.pair_named(ALTERNATE)
    text = kernel_texts.text_of(pair)
    monkeypatch.setattr(kernel_texts, "compile_ttgir", lambda *_: pytest.fail("compiled again"))
    assert kernel_texts.text_of(pair) == text
    assert [each.name for each in kernel_texts.pairs() if each.name == ALTERNATE] == [ALTERNATE]


# --- mutants ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [COPIED, ALTERNATE, PRODUCT])
def test_as_triton_leaves_it_a_kernel_is_proved(name: str) -> None:
    found = mutants.examine(mutants.Mutant(0, "none", name, "", text_of(name)))
    assert found.outcome == mutants.PROVED, found


@pytest.mark.parametrize("kind", mutants.KINDS)
def test_a_seed_says_everything(kind: str) -> None:
    name = PRODUCT if kind == "fence" else COPIED
    assert mutant(kind, 3, name) == mutant(kind, 3, name)
    if kind != "fence":  # which stands in one place only
        assert len({made.text for seed in range(8) if (made := mutant(kind, seed, name))}) > 1


def test_a_number_is_a_mutant_and_kinds_come_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    few = tuple(map(kernel_texts.pair_named, (COPIED, PRODUCT)))
    monkeypatch.setattr(mutants, "pairs", lambda: few)
    drawn = [mutants.draw(number) for number in range(len(mutants.KINDS))]
    assert tuple(each.kind for each in drawn) == mutants.KINDS
    assert drawn[4] == mutants.draw(4)


def test_a_mutation_does_what_it_says() -> None:
    assert changed("dropped", ALTERNATE)[1] == changed("fence", PRODUCT)[1] == []
    (gone,) = changed("dropped", ALTERNATE)[0]
    assert '"ttg.barrier"' in gone
    (gone,) = changed("fence", PRODUCT)[0]
    assert '"ttng.fence_async_shared"' in gone
    (none, (new,)) = changed("added")
    assert (none, new.strip()) == ([], mutants.BARRIER)
    assert changed("swapped") == ([], [])
    ((old,), (new,)) = changed("count")
    assert old.partition("num = ")[0] == new.partition("num = ")[0] != old
    ((old,), (new,)) = changed("renamed")
    assert "memdesc" in old
    assert f'"{mutants.UNKNOWN}"' in new
    for kind, name in (("slot", "ttg.memdesc_index"), ("bounds", "scf.for")):
        ((old,), new) = changed(kind)
        assert f'"{name}"(' in old
        assert sorted(each.count("%mutant = ") for each in new) == [0, 1]
        assert all("%mutant" in each for each in new)
    ((old,), (new,)) = changed("offset")
    assert old.partition("allocation.offset = ")[0] == new.partition("allocation.offset = ")[0]
    garbled = mutant("garbled", 0)
    assert garbled is not None
    assert 0 < len(text_of(COPIED)) - len(garbled.text) <= 400


def test_nothing_is_used_before_it_is_made() -> None:
    made = {line.result for line in mutants.operations(text_of(COPIED).split("\n")) if line.result}
    for seed in range(30):
        one = mutant("swapped", seed)
        assert one is not None
        known: set[str] = set()
        for line in mutants.operations(one.text.split("\n")):
            assert known.issuperset(made.intersection(line.operands)), one.name
            known.add(line.result)


@pytest.mark.parametrize("kind", HARMED)
def test_harm_is_noticed(kind: str) -> None:
    """Among the first seeds there is one that both find, and none on which they disagree."""
    found = [mutants.examine(each) for seed in range(TRIED) if (each := mutant(kind, seed, HARMED[kind])) is not None]
    outcomes = {each.outcome for each in found}
    assert mutants.SHOWN in outcomes, found
    assert not outcomes & set(mutants.MUST_BE_NONE), found


@pytest.mark.parametrize("kind", ["added", "bounds"])
def test_what_does_no_harm_is_in_the_graph_all_the_same(kind: str) -> None:
    def shown(text: str) -> str:
        return show_graph(programs_of(read_ttgir(text, "mutant"))[0].built.graph)

    one = mutant(kind, 0)
    assert one is not None
    assert shown(one.text) != shown(text_of(COPIED))
    assert mutants.examine(one).outcome not in mutants.MUST_BE_NONE


def test_a_text_without_its_end_is_bad_input() -> None:
    text = text_of(ALTERNATE)
    found = mutants.examine(mutants.Mutant(0, "garbled", ALTERNATE, "", text[: len(text) // 2]))
    assert found.outcome == mutants.REJECTED


def test_disagreement_and_crashes_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    dropped = next(each for seed in range(TRIED) if (each := mutant("dropped", seed, ALTERNATE)) is not None)
    graph = programs_of(read_ttgir(dropped.text, "mutant"))[0].built.graph
    race = Judgement(findings=[Finding("TG101", "a race")], pairs={(1, 2)})
    assert mutants.compare(graph, Verification(), race).outcome == mutants.MISSED
    assert mutants.compare(graph, Verification(), Judgement()).outcome == mutants.PROVED
    assert mutants.compare(graph, Verification(undecided=("why",)), race).outcome == mutants.SHOWN_ALONE
    assert mutants.compare(graph, Verification(undecided=("why",)), Judgement()).outcome == mutants.UNDECIDED
    suspects = mutants.verify(graph, programs_of(read_ttgir(dropped.text, "mutant"))[0].target)
    if suspects.suspects:
        assert mutants.compare(graph, suspects, race).outcome == mutants.UNSUSPECTED
    monkeypatch.setattr(mutants, "verify", lambda *_: 1 // 0)
    sums = mutants.Sums([(0, 1)])
    sums.add(dropped)
    assert not sums.is_good
    assert "ZeroDivisionError" in mutants.table(sums)


# --- barriers -----------------------------------------------------------------------------------------------------


def test_a_pair_is_counted_both_ways() -> None:
    row = barriers.examine(kernel_texts.pair_named(ALTERNATE))
    assert (row.triton, row.ours, row.undecided, row.count) == ([2, 2], [1, 1], [], 0)
    assert row.outcome == barriers.FEWER
    sums = barriers.Sums([(0, 1)], [asdict(row)])
    assert "| gluon-alternate | 2 / 1 · 2 / 1 |" in barriers.table(sums)
    assert sums.is_good


def test_a_suspect_of_tritons_has_a_witness_and_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    row = barriers.Row(ALTERNATE, "gluon-alternate", "gfx942", [1, 1], [1, 1])
    for seed in range(TRIED):
        dropped = mutant("dropped", seed, ALTERNATE)
        assert dropped is not None
        barriers.suspects_of(programs_of(read_ttgir(dropped.text, "mutant"))[0], row)
        if row.count:
            break
    assert row.suspects
    assert row.shown
    assert "line " in row.suspects[0]
    assert "byte " in row.suspects[0]
    assert "wave " in row.suspects[0]
    monkeypatch.setitem(barriers.JUDGEMENTS, ALTERNATE, "a barrier was taken away by hand")
    assert "a barrier was taken away by hand" in barriers.table(barriers.Sums([(0, 1)], [asdict(row)]))


def test_what_is_worse_or_undecided_stands_out() -> None:
    more = barriers.Row("a.sm_80", "a", "sm_80", [2, 1], [2, 2])
    lost = barriers.Row("b.sm_80", "b", "sm_80", undecided=["no idea"])
    fewer = barriers.Row("c.sm_80", "c", "sm_80", [4, 4], [2, 1])
    waits = barriers.Row("d.sm_80", "d", "sm_80", [4, 4], [4, 4], waits=["insert wait_count async(0) before 3"])
    for rows in ([more], [lost], [waits]):
        assert not barriers.Sums([(0, 1)], [asdict(each) for each in rows]).is_good
    text = barriers.table(barriers.Sums([(0, 4)], [asdict(each) for each in (more, lost, fewer, waits)]))
    assert "MORE BARRIERS THAN TRITON" in text
    assert "| b.sm_80 | no idea |" in text
    assert "| not decided, of all | 25.0% |" in text
    assert "geometric mean of 3 pairs where both have some | 0.794 |" in text


# --- time ---------------------------------------------------------------------------------------------------------


def test_a_child_leaves_nothing_behind() -> None:
    seen: list[int] = []

    def work() -> timing.Times:
        seen.append(1)
        return {"pid": os.getpid()}

    assert figures.in_a_child(work, 60)["pid"] != os.getpid()
    assert not seen


def test_a_child_that_fails_is_said() -> None:
    assert "ZeroDivisionError" in figures.in_a_child(lambda: {"never": 1 / 0}, 60)["error"]


def test_a_child_that_does_not_end_is_ended_and_one_that_breaks_is_seen() -> None:
    assert figures.in_a_child(lambda: time.sleep(60) or {}, 0.2)["error"] == "takes more than 0.2 s"
    assert figures.in_a_child(lambda: os._exit(3), 60)["error"] == "the process ended with 3"


def test_a_module_is_measured_in_all_its_parts() -> None:
    row = timing.measure(kernel_texts.text_of(kernel_texts.pair_named(ALTERNATE)), ALTERNATE)
    assert row["error"] == ""
    assert row["children"] == timing.CHILDREN
    assert all(row[part] > 0 for part in timing.PARTS)
    assert row["both"] > row["ratio"] > 0


def test_what_is_slower_stands_out() -> None:
    times = {"triton": 30.0, "plan": 60.0, "reading": 1.0, "graph": 1.0, "writing": 1.0, "ratio": 2.0, "both": 2.1}
    slow = {"name": "a", "error": "", **times}
    small = {**slow, "name": "b", "triton": 2.0}
    failed = {"name": "c", "error": "no idea"}
    assert timing.Sums([(0, 1)], [small, failed]).is_good
    sums = timing.Sums([(0, 3)], [slow, small, failed])
    assert not sums.is_good
    text = timing.table(sums)
    assert "SLOWER THAN TRITON" in text
    assert "| c | no idea |" in text


# --- all of them --------------------------------------------------------------------------------------------------


def test_without_triton_the_others_are_run_and_that_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert set(bench_main.NEED_TRITON) <= set(bench_main.all_that_can_run())
    monkeypatch.setattr(bench_main.libtriton, "is_installed", lambda: False)
    assert not set(bench_main.NEED_TRITON) & set(bench_main.all_that_can_run())
    assert "NOT RUN: triton-barriers, triton-time, triton-mutants" in capsys.readouterr().out
