"""`tidegate sync kernel.s`: what goes, what grows, what is put in, and when nothing is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from oracles.programs.amdgcn_kernels import DOUBLE, TRANSPOSE, TRANSPOSE_SPLIT, kernel, program
from tests.cli.test_robust import Typed, assert_refused, folder, typed
from tidegate.hosts.amdgcn.parse import parse_amdgcn
from tidegate.hosts.amdgcn.write import find_difference
from tidegate.synchronize import Synchronized, propose, read_back, write_programs
from tidegate.synchronize.instructions import session_of
from tidegate.synchronize.stages import judge_result

# The wait in its loop is early enough for the scalar, too.
TIGHT = DOUBLE.replace("s_waitcnt lgkmcnt(0)\n", "", 1)

__all__ = ["folder", "typed"]


def synced(text: str) -> tuple[Synchronized, str]:
    """The result, and the text: read back and judged as the command does it."""
    result = propose(session_of(program(text)))
    assert result.made is not None
    new = write_programs([result], text, "k.s")
    (written,) = read_back([result], new, "k.s")
    judge_result(result, written)
    assert not result.doubt
    return result, new


def done(result: Synchronized) -> list[tuple[str, str]]:
    return [(each.what, each.text) for each in result.edits]


def mended(text: str) -> list[tuple[str, str]]:
    """What is done to a program so that it is proved; done once, nothing is left to do."""
    result, new = synced(text)
    assert result
    assert synced(new)[1] == new
    return done(result)


def refused(text: str) -> str:
    result, new = synced(text)
    assert new == text
    assert not result
    (why,) = [each for each in result.notes if each.startswith(("no barrier is inserted", "left as it is"))]
    return why


# --- what goes, and what grows ------------------------------------------------------------------------------------


def test_a_redundant_barrier_goes_and_nothing_else() -> None:
    text = kernel(TRANSPOSE.replace("s_barrier\n", "s_barrier\ns_barrier\n"))
    result, new = synced(text)
    assert done(result) == [("delete", "s_barrier")]
    assert new == kernel(TRANSPOSE)


def test_both_halves_of_a_barrier_go() -> None:
    pair = "s_barrier_signal -1\ns_barrier_wait -1\n"
    text = kernel(TRANSPOSE_SPLIT.replace("s_barrier_wait -1\n", f"s_barrier_wait -1\n{pair}"), "gfx1201")
    result, new = synced(text)
    assert sorted(done(result)) == [("delete", "s_barrier_signal -1"), ("delete", "s_barrier_wait -1")]
    assert synced(new)[1] == new
    assert new.count("s_barrier_signal") == new.count("s_barrier_wait") == 1


def test_nothing_is_done_to_what_is_tight() -> None:
    for body, target in ((TRANSPOSE, "gfx942"), (TRANSPOSE_SPLIT, "gfx1201"), (TIGHT, "gfx942")):
        text = kernel(body, target)
        result, new = synced(text)
        assert new == text
        assert result


def test_a_wait_for_copies_is_loosened_as_far_as_shared_memory_allows() -> None:
    text = kernel(TIGHT.replace("s_waitcnt vmcnt(1)", "s_waitcnt vmcnt(0)"))
    assert ("change", "s_waitcnt vmcnt(1)") in mended(text)


def test_a_wait_that_registers_need_is_loosened_as_far_as_they_allow() -> None:
    loads = "global_load_dword v10, v9, s[2:3]\nglobal_load_dword v11, v9, s[2:3]\n"
    tail = f"{loads}s_waitcnt vmcnt(0)\nv_mov_b32_e32 v12, v10\ns_waitcnt vmcnt(0)\nv_mov_b32_e32 v12, v11\n"
    assert mended(kernel(TRANSPOSE + tail)) == [("change", "s_waitcnt vmcnt(1)")]


def test_one_of_two_counters_goes() -> None:
    both = TRANSPOSE.replace("s_waitcnt lgkmcnt(0)\ns_barrier", "s_waitcnt vmcnt(0) lgkmcnt(0)\ns_barrier")
    result, new = synced(kernel(both))
    assert done(result) == [("change", "s_waitcnt lgkmcnt(0)")]
    assert new == kernel(TRANSPOSE)
    split = TRANSPOSE_SPLIT.replace("s_wait_dscnt 0x0\ns_barrier", "s_wait_loadcnt_dscnt 0x0\ns_barrier")
    assert mended(kernel(split, "gfx1201")) == [("change", "s_wait_loadcnt_dscnt 0x3f00")]


def test_comments_and_line_ends_stay() -> None:
    text = kernel(TRANSPOSE.replace("s_barrier\n", "s_barrier\ns_barrier ; why not\n")).replace("\n", "\r\n")
    _, new = synced(text)
    assert new.count("\r\n") == new.count("\n")
    assert "; why not" in new
    assert new.count("s_barrier") == 1


LOAD, STORE = "global_load_dword v7, v9, s[2:3]\ns_waitcnt vmcnt(0)\n", "global_store_dword v9, v8, s[2:3]\n"


def left(between: str) -> str:
    """What stands between the accesses to shared memory afterwards, one letter for each."""
    _, new = synced(kernel(TRANSPOSE.replace("s_barrier\n", between)))
    words = {"s_barrier": "B", "global_load_dword": "L", "global_store_dword": "S"}
    return "".join(words.get(line.split()[0], "") for line in new.split("\n") if line.startswith("\t"))


def test_a_barrier_between_a_read_and_a_write_of_global_memory_stays() -> None:
    """The waves may work in place: one reads before it what another writes behind it."""
    assert left(f"s_barrier\n{LOAD}s_barrier\n{STORE}") == "LBS"
    assert left(f"{LOAD}s_barrier\n{STORE}s_barrier\n") == "LBS"
    assert left(f"s_barrier\n{LOAD}s_barrier\n") in ("BL", "LB")
    assert left(f"s_barrier\ns_barrier\n{STORE}") == "BS"


def test_of_barriers_that_could_go_alone_one_keeps_the_order() -> None:
    assert left(f"s_barrier\n{LOAD}s_barrier\ns_nop 0\ns_barrier\n{STORE}") == "LBS"


# --- what is put in -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("body", "target"), [(TRANSPOSE, "gfx942"), (TRANSPOSE_SPLIT, "gfx1201")])
def test_a_missing_barrier_is_inserted_with_its_wait(body: str, target: str) -> None:
    new = target != "gfx942"
    barrier = ["s_barrier_signal -1", "s_barrier_wait -1"] if new else ["s_barrier"]
    wait = "s_wait_dscnt 0x0" if new else "s_waitcnt lgkmcnt(0)"
    lines = [each for each in body.strip().split("\n") if each not in barrier]
    lines.remove(wait)  # the first one, before the barrier
    assert sorted(mended(kernel("\n".join(lines), target))) == sorted(("insert", each) for each in (wait, *barrier))


def test_a_missing_wait_is_inserted_before_the_barrier() -> None:
    without = TRANSPOSE.replace("s_waitcnt lgkmcnt(0)\ns_barrier", "s_barrier")
    assert mended(kernel(without)) == [("insert", "s_waitcnt lgkmcnt(0)")]


def test_a_missing_wait_for_copies_is_inserted() -> None:
    """Before the next copy to the same bytes a wait for all is what a wait for all but one is behind it."""
    text = kernel(TIGHT.replace("s_waitcnt vmcnt(1)\n", "", 1))
    assert mended(text) == [("insert", "s_waitcnt vmcnt(0)")]
    assert "s_waitcnt vmcnt(0)  ; orders accesses to LDS\n\tbuffer_load_dword v2, s[12:15]" in synced(text)[1]


def test_a_register_that_holds_what_was_loaded_speaks_against_a_barrier() -> None:
    body = """
    v_lshlrev_b32_e32 v1, 2, v0
    v_xor_b32_e32 v2, 0x100, v1
    ds_read_b32 v3, v1
    s_waitcnt lgkmcnt(0)
    ds_write_b32 v2, v0
    v_mov_b32_e32 v4, v3
    ds_write_b32 v1, v4 offset:2048
    s_waitcnt lgkmcnt(0)
    """
    assert "`v3` holds what line" in refused(kernel(body))


def test_what_is_not_modelled_stays_as_it_is() -> None:
    assert "left as it is" in refused(kernel("s_swappc_b64 s[30:31], s[4:5]\n" + TRANSPOSE))


def test_where_registers_are_not_known_waits_stay() -> None:
    text = kernel(TRANSPOSE.replace("s_waitcnt lgkmcnt(0)\ns_barrier", "s_waitcnt vmcnt(0) lgkmcnt(0)\ns_barrier"))
    text = text.replace("\ts_endpgm", "\texp mrt0 v0, v1, v2, v3\n\ts_endpgm", 1)
    assert synced(text)[1] == text


# --- what was written ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("ds_read_b32 v6", "ds_read_b32 v7", "holds other instructions"),
        ("group_segment_fixed_size 0", "group_segment_fixed_size 4", "is declared otherwise"),
        ("gfx942", "gfx950", "its head is another one"),
    ],
)
def test_a_text_with_another_change_is_doubted(old: str, new: str, said: str) -> None:
    before = kernel(TRANSPOSE)
    after = parse_amdgcn(before.replace(old, new), "k.s")
    assert said in find_difference(parse_amdgcn(before, "k.s"), after)


def test_the_command_writes_the_file(folder: Path, typed: Typed) -> None:
    (folder / "k.s").write_text(kernel(TRANSPOSE.replace("s_barrier\n", "s_barrier\ns_barrier\n")))
    done = typed("sync", "k.s", "-o", "out.s")
    assert done.returncode == 0
    assert "in place: removed 1 `s_barrier`" in done.stdout
    assert (folder / "out.s").read_text() == kernel(TRANSPOSE)


@pytest.mark.parametrize(
    ("options", "said"),
    [("--strategy minimal", "assembly is synchronized in place"), ("-o out.ptx", "would hold `.s` text")],
)
def test_options_that_mean_nothing_here(folder: Path, typed: Typed, options: str, said: str) -> None:
    (folder / "k.s").write_text(kernel(TRANSPOSE))
    done = typed("sync", "k.s", *options.split())
    assert_refused(done)
    assert said in done.stderr


def test_the_document(folder: Path, typed: Typed) -> None:
    (folder / "k.s").write_text(kernel(TIGHT.replace("s_waitcnt vmcnt(1)", "s_waitcnt vmcnt(0)")))
    (result,) = json.loads(typed("sync", "k.s", "--json").stdout)["programs"]
    assert [each["op"] for each in result["plan"]] == ["s_waitcnt vmcnt(1)"]
    assert result["verified"]["proved"]


def test_advice_about_waits(folder: Path, typed: Typed) -> None:
    (folder / "k.s").write_text(kernel(TIGHT.replace("s_waitcnt vmcnt(1)", "s_waitcnt vmcnt(0)")))
    said = typed("check", "k.s", "--advice").stdout
    assert "`vmcnt(1)` is enough instead of `vmcnt(0)`" in said
    assert "one more would be too many: shared memory" in said
    (folder / "tight.s").write_text(kernel(TIGHT))
    assert "no barrier or wait can be reduced" in typed("check", "tight.s", "--advice").stdout
