"""Damaged and enormous PTX ends in a verdict or a sentence, soon and in little memory."""

from __future__ import annotations

import random
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest

from oracles.hostile.hostile_ptx import BLOCKS, TEXTS, damage_ptx, long_ptx
from oracles.programs.ptx_kernels import TRANSPOSE, kernel
from tests.cli.test_robust import Typed, assert_refused, folder, typed
from tests.language.test_damage import watched
from tidegate.diag import BadInput, Sources
from tidegate.explanation import explain
from tidegate.explanation.show import show_explained
from tidegate.files import FINAL, Loaded, load
from tidegate.hosts.isa import explore
from tidegate.hosts.ptx import parse
from tidegate.limits import MOST_INSTRUCTIONS, MOST_KERNELS
from tidegate.passes import Checked, check_session
from tidegate.report.build import build_report
from tidegate.session import sessions_of
from tidegate.synchronize import propose, read_back, write_programs
from tidegate.verify import by_thread

__all__ = ["folder", "typed"]
DAMAGED = 150  # files; `make fuzz` asks for 5,000


def checked(text: str, tmp_path: Path, block: str | None = None) -> list[Checked]:
    """As `tidegate check` does it, without what is printed."""
    file = tmp_path / "k.ptx"
    file.write_text(text, encoding="utf-8", errors="surrogatepass", newline="")
    loaded: Loaded = load(str(file), block=block, takes=FINAL)
    assert isinstance(loaded.sources, Sources)
    return [check_session(unit) for unit in sessions_of(loaded, None)]


def test_the_corpus_is_checked(tmp_path: Path) -> None:
    """Damage to texts that are refused anyway would test little."""
    results = [result for text in TEXTS for result in checked(text, tmp_path)]
    assert len(results) == len(TEXTS)
    assert sum(result.is_proved for result in results) >= 5


def test_damaged_ptx(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    ends: Counter[str] = Counter()
    count = request.config.getoption("--count") or DAMAGED
    for seed in range(count):
        rng = random.Random(seed)
        text = damage_ptx(rng, rng.choice(TEXTS))
        with watched(f"seed {seed}:\n{text}"):
            try:
                results = checked(text, tmp_path)
                ends["proved" if all(result.is_proved for result in results) else "checked"] += 1
            except BadInput:
                ends["refused"] += 1
            except Exception as error:
                raise AssertionError(f"seed {seed}: {type(error).__name__}: {error}\n{text}") from error
    assert ends["proved"] > 0.1 * count
    assert ends["checked"] > 0.1 * count


def test_damaged_ptx_is_synchronized_explained_and_drawn(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """What `sync` writes of it differs in barriers and waits alone, and is read back."""
    edited = 0
    for seed in range(request.config.getoption("--count") or 40):
        rng = random.Random(seed)
        text = damage_ptx(rng, rng.choice(TEXTS))
        file = tmp_path / "k.ptx"
        file.write_text(text, encoding="utf-8", errors="surrogatepass", newline="")
        with watched(f"seed {seed}:\n{text}", 40):
            try:
                units = sessions_of(load(str(file), takes=FINAL), None)
                results = [propose(unit) for unit in units]
                for unit in units[:1]:
                    show_explained(explain(unit), Sources({str(file): text}))
                    build_report(unit, Sources({str(file): text}))
                if all(each.made is not None for each in results):
                    new = write_programs(results, text, str(file))
                    assert not [each.doubt for each in read_back(results, new, str(file)) if each.doubt]
                    edited += new != text
            except BadInput:
                continue
            except Exception as error:
                raise AssertionError(f"seed {seed}: {type(error).__name__}: {error}\n{text}") from error
    assert edited


# --- what damage has found ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("block", BLOCKS[4:])
def test_shapes_of_blocks(folder: Path, typed: Typed, block: str) -> None:
    """`²` is a digit for Python and no number, 5,000 digits are none either, and 256x72057594037927937 threads were 256
    in 64 bits."""
    (folder / "k.ptx").write_text(kernel(TRANSPOSE))
    done = typed("check", "k.ptx", f"--block={block}")
    assert done.returncode in (0, 1) if block in ("7", "33", "1024", " 64", "64 ", "16,16") else done.returncode == 2
    if done.returncode == 2:
        assert_refused(done)


@pytest.mark.parametrize("shape", ["65536, 65536, 65536", "0", "256, 72057594037927937", "1, 1, 1, 2000"])
def test_a_text_may_ask_for_too_many_threads(shape: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="at most 1024"):
        checked(kernel(TRANSPOSE, shape), tmp_path)


@pytest.mark.parametrize(
    "body",
    [
        "mov.u32 %r1, NUMBER;",
        "add.s32 %r1, %r1, -NUMBER;",
        "ld.shared.f32 %f1, [NUMBER];",
        "ld.shared.f32 %f1, [tile+NUMBER];",
        "ld.shared.f32 %f1, [%r1+-NUMBER];",
        "bar.sync 0, NUMBER;",
        ".shared .b8 more[NUMBER];",
        ".shared .align NUMBER .b8 more[4];",
        ".reg .b32 %q<NUMBER>;",
    ],
)
@pytest.mark.parametrize("number", ["9" * 25, "9" * 5000, "0x" + "f" * 17, "18446744073709551616"])
def test_integers_have_64_bits(body: str, number: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="TG001: an integer has at most 64 bits"):
        checked(kernel(body.replace("NUMBER", number)), tmp_path, "64")


@pytest.mark.parametrize("number", ["18446744073709551615", "9223372036854775808", "0xffffffffffffffff"])
def test_integers_of_64_bits_are_read(number: str, tmp_path: Path) -> None:
    body = f"mov.u64 %rd1, {number}; add.s64 %rd2, %rd1, -{number}; ld.shared.f32 %f1, [%rd2+{number}];"
    body += f"mov.u32 %r1, tile; ld.shared.f32 %f1, [%r1+-{number}]; ld.shared.f32 %f1, [tile+{number}+{number}];"
    checked(kernel(body), tmp_path, "64")


@pytest.mark.parametrize("target", ["sm_" + "9" * 5000, "sm_²", "sm_", "x", "compute_٣"])
def test_a_target_of_any_name(target: str, tmp_path: Path) -> None:
    with suppress(BadInput):
        checked(kernel(TRANSPOSE, "64").replace("sm_80", target), tmp_path)


INSTRUCTIONS = (
    *"add.s32 sub.u64 mul.lo.s32 mul.wide.u32 mul.hi.s32 mad.lo.s32 mad.wide.s32 div.u32 rem.s32 min.u32".split(),
    *"and.b32 or.b64 xor.b32 not.b32 shl.b32 shr.u32 neg.s32 abs.s32 bfe.u32 bfi.b32 lop3.b32 prmt.b32".split(),
    *"popc.b32 clz.b32 brev.b32 selp.b32 cvt.u64.u32 cvta.shared.u64 mov.u32 mov.b64 mov.pred not.pred".split(),
    *"and.pred setp.lt.s32 setp.lt.and.u32 shfl.sync.idx.b32 vote.sync.any.pred bar.sync bar.red.popc.u32".split(),
    *"bar.warp.sync bar.arrive bra call ret ld.shared.u32 st.shared.u32 atom.shared.add.u32 cp.async.wait_all".split(),
    *"red.shared.add.u32 cp.async.ca.shared.global cp.async.wait_group".split(),
    "ldmatrix.sync.aligned.m8n8.x4.shared.b16",
)
OPERANDS = ("%r1", "%rd1", "%p1", "tile", "[%r1]", "[tile+4]", "7", "{%r1, %r2}", "%p1|%p2", "!%p1", "%nope", "_")


@pytest.mark.parametrize("instruction", INSTRUCTIONS)
def test_an_instruction_with_any_operands(instruction: str, tmp_path: Path) -> None:
    """`add.s32 %r1;`, `mov;` and the like ended in an `IndexError`."""
    rng = random.Random(instruction)
    for count in (0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 5, 6):
        operands = ", ".join(rng.choice(OPERANDS) for _ in range(count))
        use = "mov.u32 %r9, tile; add.s32 %r9, %r9, %r1; st.shared.u8 [%r9], %r2;"
        checked(kernel(f"{instruction} {operands};\n{use}"), tmp_path, "64")


@pytest.mark.parametrize("body", [".shared .b8 more" + "[2]" * 20_000 + ";", ".shared .b8 more[1099511627777];"])
def test_an_array_larger_than_any_memory(body: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="larger than any memory"):
        checked(kernel(body), tmp_path, "64")


def test_coordinates_in_each_other_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="nested more than 64 deep"):
        checked(kernel("ld.shared.u32 %r1, " + "[%r1, " * 3000), tmp_path, "64")


def test_registers_have_a_bound(tmp_path: Path) -> None:
    """Each is written out: twenty lines took two gigabytes and a minute."""
    one = kernel(f".reg .b32 %q<{parse.MOST_REGISTERS}>;", "64")
    with pytest.raises(BadInput, match="at most 262,144 registers"):
        checked(one, tmp_path)
    lines = one.replace(f"<{parse.MOST_REGISTERS}>", "<250000>").split("\n")
    entry = "\n".join(lines[3:])
    text = "\n".join(lines[:3]) + "\n" + "".join(entry.replace("entry k", f"entry k{number}") for number in range(6))
    with pytest.raises(BadInput, match="at most 1,048,576 registers"):
        checked(text, tmp_path)


def test_larger_files_than_a_command_takes(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=f"instructions, and commands take at most {MOST_INSTRUCTIONS:,}"):
        checked(kernel("bar.sync 0;\n" * MOST_INSTRUCTIONS, "64"), tmp_path)
    entry = ".visible .entry k{}()\n.reqntid 64\n{{ ret; }}\n"
    text = ".version 8.0\n.target sm_80\n" + "".join(map(entry.format, range(MOST_KERNELS + 1)))
    with pytest.raises(BadInput) as found:
        checked(text, tmp_path)
    assert (found.value.findings[0].code, found.value.findings[0].help) == (
        "TG023",
        "pick one kernel with `FILE::name`",
    )
    (tmp_path / "k.ptx").write_text(text)
    assert load(f"{tmp_path}/k.ptx::k17", takes=FINAL).ptx is not None


def reason(text: str, tmp_path: Path) -> str:
    (result,) = checked(text, tmp_path)
    assert result.verification is not None
    return " ".join(result.verification.undecided)


@pytest.mark.slow
def test_much_to_explore_ends(tmp_path: Path) -> None:
    """Loops in each other took 35 seconds, registers that a loop rotates five gigabytes."""
    loops = "".join(f"$N{each}:\n" for each in range(1400))
    loops += "".join(f"@%p1 bra $N{each};\nst.shared.u8 [%r4], 0;\n" * 8 for each in range(170))
    assert "than can be followed" in reason(kernel(f"mov.u32 %r4, tile;\n{loops}", "64"), tmp_path)
    jumps = "".join(f"@%p1 bra $N{each};\n$N{each}:\n" for each in range(explore.MOST_BLOCKS))
    assert "pieces of code between jumps" in reason(kernel(jumps, "64"), tmp_path)
    set_, moved, used = (
        "".join(line.format(each) for each in range(2000))
        for line in (
            "mov.u32 %q{0}, {0};\n",
            "mad.lo.u32 %q{0}, %q{0}, 3, %r1;\n",
            "xor.b32 %r2, %r2, %q{0};\n",
        )
    )
    text = f".reg .b32 %q<2000>; mov.u32 %r1, %tid.x; mov.u32 %r5, 0;\n{set_}$L:\n{moved}"
    text += f"add.s32 %r5, %r5, 1; setp.lt.u32 %p1, %r5, 60; @%p1 bra $L;\n{used}"
    text += "and.b32 %r2, %r2, 1023; mov.u32 %r3, tile; add.s32 %r3, %r3, %r2; st.shared.u8 [%r3], 0;"
    with watched("rotating registers"):
        assert reason(kernel(text, "1024"), tmp_path) == "registers hold more than can be followed (line 12)"


def test_pairs_of_accesses_by_thread_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand accesses between two barriers took minutes."""
    monkeypatch.setattr(by_thread, "MOST_ASKED", 1000)
    lines = "".join(f"st.shared.u8 [%r4+{256 * each}], %r1;\n" for each in range(60))
    body = f"mov.u32 %r1, %tid.x; mov.u32 %r4, tile; add.s32 %r4, %r4, %r1;\n{lines}"
    text = kernel(body, "64", size=256 * 60)
    assert reason(text, tmp_path) == "more pairs of accesses than can be compared thread by thread"
    monkeypatch.undo()
    assert reason(text, tmp_path) == ""


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(24))
def test_long_ptx(seed: int, tmp_path: Path) -> None:
    with watched(f"seed {seed}", 40), suppress(BadInput):
        checked(long_ptx(random.Random(seed)), tmp_path)


@pytest.mark.parametrize("name", ["schedule", "run", "run --in-order"])
def test_other_commands_do_not_take_ptx(folder: Path, typed: Typed, name: str) -> None:
    """They said `--block`, which they do not have, or knew nothing of what is not modelled."""
    (folder / "k.ptx").write_text(kernel(TRANSPOSE, "16, 16"))
    done = typed(*name.split(), "k.ptx")
    assert_refused(done)
    assert "PTX has no operations to run" in done.stderr
    assert "tidegate check kernel.ptx --block" in done.stderr


def test_show_takes_a_block(folder: Path, typed: Typed) -> None:
    (folder / "k.ptx").write_text(kernel(TRANSPOSE))
    assert "graph @k target sm_80 waves 8 lanes 32" in typed("show", "k.ptx", "--block", "16x16").stdout
    assert_refused(typed("show", "k.ptx"))
