"""Damaged and enormous PTX, for the hostile runs and for tests in this process: drawn from a seed.

The corpus has an instruction of every kind that is followed, and some that are not. Damage knows the parts of an
instruction: operands are lost and exchanged, modifiers too, numbers grow, jumps lead elsewhere.
"""

from __future__ import annotations

import random
import re

from oracles.programs.damaged_text import change_lines
from oracles.programs.ptx_kernels import DOUBLE, HEAD, HISTOGRAM, RING, SHIFT, TAIL, TRANSPOSE, TREE, kernel

MIXED = """
  ld.param.u64 %rd1, [k_param_0];
  cvta.to.global.u64 %rd1, %rd1;
  mov.u32 %r1, %tid.x;
  mov.u32 %r2, %laneid;
  mov.u32 %r3, tile;
  cvt.u64.u32 %rd2, %r1;
  mul.wide.s32 %rd3, %r1, 4;
  mad.wide.u32 %rd4, %r1, 4, %rd1;
  shr.u32 %r4, %r1, 5;
  bfe.u32 %r5, %r1, 2, 3;
  bfi.b32 %r6, %r5, %r4, 4, 8;
  lop3.b32 %r7, %r1, %r5, %r6, 150;
  prmt.b32 %r8, %r1, %r7, 12816;
  and.b32 %r9, %r8, 255;
  mul.hi.u32 %r10, %r1, -1431655765;
  div.u32 %r11, %r1, 3;
  rem.s32 %r12, %r1, 7;
  min.u32 %r13, %r12, 5;
  selp.b32 %r14, %r12, %r13, %p1;
  setp.lt.and.s32 %p2|%p3, %r1, 16, !%p1;
  not.pred %p4, %p2;
  shl.b32 %r15, %r1, 4;
  add.s32 %r16, %r3, %r15;
  mov.b64 %rd5, {%r1, %r2};
  mov.b64 {%r17, %r18}, %rd5;
  st.shared.v4.f32 [%r16], {%f1, %f2, %f3, %f4};
  bar.warp.sync -1;
  ld.shared.v2.f32 {%f5, %f6}, [%r16+8];
  shfl.sync.idx.b32 %r19|%p5, %r1, 0, 31, -1;
  vote.sync.any.pred %p6, %p2, -1;
  @%p4 st.shared.u8 [%r16+3], %r1;
  barrier.sync 0;
  ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r20, %r21, %r22, %r23}, [%r16];
  mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f1, %f2}, {%r20, %r21}, {%r22}, {%f3, %f4};
  bar.red.popc.u32 %r24, 0, %p2;
  atom.shared.add.u32 %r25, [%r16], 1;
  red.shared.max.u32 [%r16+4], %r1;
  cp.async.cg.shared.global [%r16], [%rd4], 16;
  cp.async.wait_all;
  bar.sync 0;
  { .reg .b32 %t; mov.u32 %t, %ctaid.x; cvta.shared.u64 %rd6, %rd2; ld.u32 %t, [%rd6]; }
  membar.cta;
  @%p1 bra $OUT;
  mbarrier.init.shared.b64 [%r16], 1;
  call.uni (), vprintf, (%rd1, %rd2);
  exit;
$OUT:
"""
TEXTS = tuple(
    kernel(body, shape)
    for body, shape in (
        (TRANSPOSE, "16, 16"),
        (TREE.format(last=16) + TAIL.format(sync="bar.warp.sync -1;"), "256"),
        (DOUBLE.format(barrier="bar.sync 0;", toggle=1), "64"),
        (RING.format(left=1, slots=3), "64"),
        (HISTOGRAM.format(add="red.shared.add.u32 [%r6], 1;"), "256"),
        (SHIFT.format(sync="bar.sync 0;"), "96, 1, 1"),
        (MIXED, "8, 4, 2"),
    )
)
WORDS = (
    *".version .target .address_size .entry .visible .func .extern .shared .global .const .local .param .reg".split(),
    *".pred .b8 .b32 .b64 .u16 .s32 .f32 .f64 .v2 .v4 .align .reqntid .maxntid .maxnreg .pragma .loc .file".split(),
    *".section .branchtargets .explicitcluster .reqnctapercluster sm_90 sm_100a 8.0 %tid.x %ntid.y %ctaid.z".split(),
    *"mov.u32 add.s32 ld.shared.u32 st.shared.f32 ld.u32 st.b32 bar.sync bar.arrive bar.red.popc.u32".split(),
    *"barrier.cluster.arrive bar.warp.sync bra bra.uni brx.idx call ret exit trap cp.async.wait_group".split(),
    *"cp.async.bulk.commit_group mbarrier.init.shared.b64 wgmma.mma_async ldmatrix.sync.aligned.m8n8.x4".split(),
    *"atom.shared.cas.b32 red.shared.add.f32 shfl.sync.idx.b32 setp.lt.s32 selp.b32 lop3.b32 prmt.b32".split(),
    *"mul.wide.u32 mul.hi.u64 mad.lo.s32 div.s32 rem.u64 shl.b64 shr.s32 bfe.s32 bfi.b64 popc.b32 clz.b64".split(),
    *"cvt.u64.u32 cvta.shared.u64 cvt.s8.s32 not.pred vote.sync.any.pred brev.b64 min.s64 abs.s32 neg.s64".split(),
    *"%p1 %r1 %r4 %rd1 %f1 %t tile tile+4 k k_param_0 _ WARP_SZ %laneid %lanemask_lt %clock $L1 $NOPE".split(),
    *"{ } ( ) [ ] < > , ; : @ @! ! - ~ | + = // /* */ \\ \" ' # ? &".split(),
    *"0 1 -1 3 7 16 31 32 64 255 4095 65536 2147483647 4294967295 9223372036854775807 18446744073709551615".split(),
    *("1" * 40, "9" * 5000, "0x", "0xffffffffffffffffff", "0b101", "08", "0f7fc00000", "0d", "1.5", "1.0e999"),
    *("é", "²", "٣", "\x00", "\x1b[31m", "\u202e", "\x85", "\ufeff", "\r", "\f", "\u2028"),
)
BLOCKS = (
    *("64", "16x16", "8x8x4", "1", "7", "33", "1024", "1025", "0", "-1", "", "x", "xx", "1x", "64x64x64", "1x1x1x1"),
    *("1e3", "²", "٣", "9" * 19, "9" * 5000, "256x72057594037927937", "4294967296x4294967296", "16,16", "\x1b[31m"),
    *(" 64", "64 ", "+64", "0x40", "nan", "64.0", "--json"),
)
_TOKEN = re.compile(r"[%$.\w]+|\s+|.", re.DOTALL)
_INSTRUCTION = re.compile(r"^  (?:@!?%\w+ )?([a-z][\w.]*)( [^;\n]*)?;", re.MULTILINE)


def damage_ptx(rng: random.Random, text: str) -> str:
    for _ in range(rng.choice((1, 1, 1, 2, 3, 6))):
        text = rng.choice(
            (_tokens, _tokens, _operands, _operands, _operands, _modifiers, change_lines, _numbers, _jumps)
        )(rng, text)
    kind = rng.random()
    if kind < 0.04:
        text = text[: rng.randrange(len(text) + 1)]
    elif kind < 0.06:
        text = text.replace("\n", rng.choice(("\r\n", "\r", "\n\n", " ")))
    return text


def _tokens(rng: random.Random, text: str) -> str:
    tokens = _TOKEN.findall(text)
    if not tokens:
        return text
    a, b = rng.randrange(len(tokens)), rng.randrange(len(tokens))
    match rng.choice(("delete", "double", "swap", "copy", "word", "word", "insert")):
        case "delete":
            del tokens[a]
        case "double":
            tokens.insert(a, tokens[a])
        case "swap":
            tokens[a], tokens[b] = tokens[b], tokens[a]
        case "copy":
            tokens[a] = tokens[b]
        case "word":
            tokens[a] = rng.choice(WORDS)
        case _:
            tokens.insert(a, f" {rng.choice(WORDS)} ")
    return "".join(tokens)


def _operands(rng: random.Random, text: str) -> str:
    """Operands of one instruction are lost, doubled, exchanged or those of another."""
    found = list(_INSTRUCTION.finditer(text))
    if not found:
        return text
    match, other = rng.choice(found), rng.choice(found)
    operands = (match[2] or "").split(",")
    kind = rng.choice(("lose", "lose", "all", "double", "turn", "other", "word"))
    if kind == "lose":
        del operands[rng.randrange(len(operands))]
    elif kind == "all":
        operands = []
    elif kind == "double":
        operands.append(rng.choice(operands))
    elif kind == "turn":
        rng.shuffle(operands)
    elif kind == "other":
        operands = (other[2] or "").split(",")
    else:
        operands[rng.randrange(len(operands))] = f" {rng.choice(WORDS)}"
    return f"{text[: match.end(1)]} {','.join(operands).strip()};{text[match.end() :]}"


def _modifiers(rng: random.Random, text: str) -> str:
    found = list(_INSTRUCTION.finditer(text))
    if not found:
        return text
    match, other = rng.choice(found), rng.choice(found)
    words = match[1].split(".")
    kind = rng.choice(("lose", "double", "turn", "other", "whole"))
    if kind == "lose":
        del words[rng.randrange(len(words))]
    elif kind == "double":
        words.append(rng.choice(words))
    elif kind == "turn":
        rng.shuffle(words)
    elif kind == "other":
        words[rng.randrange(len(words))] = rng.choice(other[1].split("."))
    else:
        words = [rng.choice([each for each in WORDS if each[:1].isalpha() and each.isascii()])]
    return f"{text[: match.start(1)]}{'.'.join(words)}{text[match.end(1) :]}"


def _numbers(rng: random.Random, text: str) -> str:
    found = list(re.finditer(r"(?<![\w.%$])\d+(?![\w.])", text))
    if not found:
        return text
    match = rng.choice(found)
    other = ("0", "1", "2", "5", "33", "4096", "65535", "-7", "4294967295", "-9223372036854775808", "9" * 25)
    return text[: match.start()] + rng.choice(other) + text[match.end() :]


def _jumps(rng: random.Random, text: str) -> str:
    """A label or a guard somewhere else: loops that never end, code that nothing comes to."""
    lines = text.split("\n")
    at = rng.randrange(len(lines) + 1)
    new = ("$N:", "$L1:", "bra $N;", "@%p1 bra $N;", "@!%p2 bra $L1;", "@%p9 bra $N;", "ret;", "@%p1 exit;", "{", "}")
    lines.insert(at, rng.choice(new))
    if rng.random() < 0.6:
        lines.insert(rng.randrange(len(lines) + 1), "$N:")
    return "\n".join(lines)


# --- deep and long --------------------------------------------------------------------------------------------------

# What stands in itself, and the text around it.
_ENTRY = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k()\n"
NESTS = (
    ("{", f"{_ENTRY}.reqntid 64\n{{INSIDE ret;}}"),
    ("[", kernel("mov.u32 %r1, INSIDE;", "64")),
    ("(", kernel("call INSIDE;", "64")),
    ("{", kernel("mov.b64 INSIDE, %rd1;", "64")),
    ("-", kernel("mov.u32 %r1, INSIDE 1;", "64")),
    ("!", kernel("mov.pred %p1, INSIDE %p2;", "64")),
    ("[%r1, ", kernel("ld.shared.u32 %r1, INSIDE;", "64")),
    ("%r1|", kernel("mov.u32 INSIDE %r1, 0;", "64")),
    ("[2]", kernel(".shared .b8 a INSIDE;", "64")),
    ("/*", kernel("INSIDE", "64")),
    ("@%p1 ", kernel("INSIDE ret;", "64")),
)


def _body(line: str, count: int, before: str = "") -> str:
    return kernel(before + "".join(line.replace("NUMBER", str(number)) for number in range(count)), "64")


def _barriers(count: int) -> str:
    return _body("bar.sync 0;\n", count)


def _sums(count: int) -> str:
    """Each address is made of the one before."""
    return _body("add.s32 %r4, %r4, %r1; st.shared.f32 [%r4], %f1;\n", count, "mov.u32 %r1, %tid.x;mov.u32 %r4, tile;")


def _arithmetic(count: int) -> str:
    """Much to compute behind one access."""
    line = "mul.lo.s32 %r4, %r4, %r1; add.s32 %r4, %r4, NUMBER;\n"
    return _body(line, count, "mov.u32 %r1, %tid.x;mov.u32 %r4, 1;").replace(
        "\n  ret;", "\nand.b32 %r4, %r4, 1023; mov.u32 %r5, tile; add.s32 %r5, %r5, %r4; st.shared.u8 [%r5], 0;\n  ret;"
    )


def _branches(count: int) -> str:
    line = "@%p1 bra $NNUMBER; st.shared.f32 [%r4], %f1; $NNUMBER:\n"
    before = "mov.u32 %r1, %tid.x; mov.u32 %r4, tile; setp.lt.u32 %p1, %r1, %r9;\n"
    return _body(line, count, before)


def _loops(count: int) -> str:
    """Loops in each other, whose ends nobody knows."""
    opened = "".join(f"$N{number}:\n add.s32 %r4, %r4, 4;\n" for number in range(count))
    closed = "".join(
        f"bar.sync 0;\n setp.lt.u32 %p1, %r4, %r9; @%p1 bra $N{each};\n" for each in reversed(range(count))
    )
    return kernel(f"mov.u32 %r4, tile;\n{opened} st.shared.f32 [%r4], %f1;\n{closed}", "64")


def _rounds(count: int) -> str:
    """A loop of so many trips, all of which are known, around much work."""
    work = "mad.lo.s32 %r4, %r4, %r1, %r5;\n" * 400
    return kernel(
        f"mov.u32 %r1, %tid.x; mov.u32 %r5, 0; mov.u32 %r4, 1;\n$N1:\n{work} and.b32 %r6, %r4, 1023; mov.u32 %r7, tile;"
        " add.s32 %r7, %r7, %r6; st.shared.u8 [%r7], 0; bar.sync 0;\n"
        f"add.s32 %r5, %r5, 1; setp.lt.u32 %p1, %r5, {count}; @%p1 bra $N1;\n",
        "1024",
    )


def _kernels(count: int) -> str:
    return ".version 8.0\n.target sm_80\n" + "".join(
        f".visible .entry k{number}()\n.reqntid 64\n{{\n  bar.sync 0;\n  ret;\n}}\n" for number in range(count)
    )


def _registers(count: int) -> str:
    lines = "".join(f"  .reg .b32 %q{number}_<100000>;\n" for number in range(count))
    return kernel(lines + "bar.sync 0;", "64")


def _arrays(count: int) -> str:
    lines = "".join(f"  .shared .align 4 .b8 a{number}[64];\n" for number in range(count))
    return kernel(f"{lines} mov.u32 %r1, a0; st.shared.u32 [%r1], 0; wmma.store.d.sync.aligned.shared.f32 [%r1], %f1;")


def _labels(count: int) -> str:
    return _body("$LNUMBER: bra $LNUMBER;\n", count)


def _comments(count: int) -> str:
    return kernel("// " + "x" * 10 * count + "\n/*" + "*" * 10 * count + "*/ bar.sync 0;", "64")


LONG = (_barriers, _sums, _arithmetic, _branches, _loops, _rounds, _kernels, _registers, _arrays, _labels, _comments)
COUNTS = (50, 300, 3000, 100_000)


def long_ptx(rng: random.Random) -> str:
    return rng.choice(LONG)(rng.choice(COUNTS))


def deep_ptx(rng: random.Random) -> str:
    inside, text = rng.choice(NESTS)
    return text.replace("INSIDE", inside * rng.choice((5, 60, 70, 3000, 50_000)))


def garbage(rng: random.Random) -> bytes:
    """Bytes that are no text, or not in UTF-8, or as other systems write it."""
    text = rng.choice(TEXTS)
    match rng.randrange(6):
        case 0:
            return rng.randbytes(rng.choice((0, 1, 100, 100_000)))
        case 1:
            return text.replace("bar.sync", "// \xe9\n bar.sync").encode("latin-1")
        case 2:
            return text.encode("utf-16")
        case 3:
            return text.replace("\n", "\r\n").encode()
        case 4:
            return HEAD.encode() + rng.randbytes(1000)
        case _:
            return bytes(rng.choice(b"\n ;{}[]().,%@$") for _ in range(rng.choice((10, 3000))))
