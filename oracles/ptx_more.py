"""Random PTX kernels with more of the instruction set than those of `oracles.ptx_threads`.

Needs   a seed and the shape of the block
Gives   a text
Keeps   what a run does with it, `ptx_threads` and `ptx_numbers` can say: no lane asks another one for a number
Cost    linear in the length of the text
"""

from __future__ import annotations

from oracles.ptx_threads import Maker

START = """  ld.param.u64 %rd1, [k_param_1];
  mov.u32 %r6, 3;
  mov.u32 %r4, %tid.y;
  mov.u32 %r5, %laneid;
  mov.u32 %r2, 5;"""
BITS = ("and.b32", "or.b32", "xor.b32", "shr.u32", "shr.s32", "min.u32", "max.s32", "min.s32")
BITS += ("mul.hi.u32", "mul.hi.s32")
SOME = (0, 1, 2, 3, 7, 8, 15, 16, 31, 32, 255, -1, -4)
PLACES, COUNTS = (0, 1, 3, 5, 30, 35), (0, 1, 2, 5, 31, 32, 40)
OF_ONE = (
    "cvt.s32.s8",
    "cvt.u32.u8",
    "cvt.s32.s16",
    "cvt.u32.u16",
    "cvt.s8.s32",
    "cvt.u8.u32",
    "cvt.u16.u32",
    "not.b32",
    "neg.s32",
    "abs.s32",
    "cnot.b32",
    "popc.b32",
    "clz.b32",
    "brev.b32",
)


class MoreMaker(Maker):
    """The same statements, and others between them."""

    def __init__(self, seed: int, threads: int = 64, wide: int = 0) -> None:
        super().__init__(seed, threads)
        self.wide = wide or threads
        self.read = 0

    def text(self) -> str:
        found = super().text()
        rows = f".reqntid {self.wide}, {self.threads // self.wide}, 1"
        for old, new in (
            (f".reqntid {self.threads}, 1, 1", rows),
            ("(.param .u32 k_param_0)", "(.param .u32 k_param_0, .param .u64 k_param_1)"),
            ("%rd<2>;", "%rd<9>;"),
            ("  mov.u32 %r2, 5;", START),
        ):
            found = found.replace(old, new, 1)
        return found

    def statement(self, depth: int) -> None:
        roll = self.random.random()
        if roll < 0.55:
            super().statement(depth)
        elif roll < 0.72:
            self.number()
        elif roll < 0.82:
            self.memory()
        elif roll < 0.9:
            self.shared()
        elif roll < 0.95 and self.preds:
            self.logic()
        else:
            self.meeting(depth)

    def one(self) -> str:
        return self.random.choice((*self.values, "%r4", "%r5", "%r3", "%r1", *(("%r6", "%r6") if self.read else ())))

    def some(self) -> str:
        return self.random.choice((self.one(), str(self.random.choice(SOME))))

    def guard(self, share: float = 0.25) -> str:
        rnd = self.random
        return f"@{rnd.choice(('', '!'))}%p{rnd.randrange(self.preds)} " if self.preds and rnd.random() < share else ""

    def number(self) -> None:
        rnd = self.random
        to, one = rnd.choice(("%r2", "%r3", "%r4")), self.one()
        table = rnd.randrange(256)
        lines = [
            f"{rnd.choice(BITS)} {to}, {one}, {self.some()};",
            f"{rnd.choice(OF_ONE)} {to}, {one};",
            f"bfe.{rnd.choice('us')}32 {to}, {one}, {rnd.choice(PLACES)}, {rnd.choice(COUNTS)};",
            f"bfi.b32 {to}, {one}, {self.one()}, {rnd.choice(PLACES)}, {rnd.choice(COUNTS)};",
            f"prmt.b32 {to}, {one}, {self.one()}, {rnd.choice((0x3210, 0x5410, 0x9876, 0x1044, 0x8888))};",
            f"lop3.b32 {to}, {one}, {self.one()}, {self.one()}, {table};",
            f"shf.l.wrap.b32 {to}, {one}, {self.one()}, {rnd.choice((1, 4, 31))};",
            f"mul24.lo.u32 {to}, {one}, {self.some()};",
            f"mad.lo.s32 {to}, {one}, {self.some()}, {self.one()};",
            f"sad.s32 {to}, {one}, {self.one()}, {self.one()};",
            f"slct.u32.s32 {to}, {one}, {self.one()}, {self.one()};",
            f"rem.s32 {to}, {one}, {rnd.choice((3, -5, 7))};",
            f"div.s32 {to}, {one}, {rnd.choice((3, -5, 8))};",
            f"min.relu.s32 {to}, {one}, {self.some()};",
            f"add.sat.s32 {to}, {one}, {self.some()};",
        ]
        if self.preds:
            lines += [f"selp.b32 {to}, {one}, {self.some()}, %p{rnd.randrange(self.preds)};"] * 3
        line = rnd.choice(lines)
        if rnd.random() < 0.08:
            self.lines.append(f"add.cc.u32 %r7, {one}, {self.some()};")
            line = f"addc.u32 {to}, {self.one()}, 0;"
        self.lines.append(self.guard() + line)

    def memory(self) -> None:
        """A number that all threads share, or one of each thread's own."""
        rnd = self.random
        self.read += 1
        guard = self.guard()
        if rnd.random() < 0.5:
            self.lines.append(f"{guard}ld.global.u32 %r6, [%rd1+{4 * rnd.randrange(4)}];")
        else:
            self.lines.append(f"mul.wide.u32 %rd2, {self.one()}, 4;")
            self.lines.append("add.u64 %rd3, %rd1, %rd2;")
            self.lines.append(f"{guard}ld.global.u32 %r6, [%rd3];")

    def shared(self) -> None:
        """Accesses whose result is used, atomics, pairs and matrices."""
        rnd = self.random
        place = 100 + len(self.lines)
        wide = rnd.choice((4, 4, 8, 16))
        self.lines.append(f"and.b32 %r{place}, {self.one()}, {rnd.choice((63, 127, 0, 3))};")
        self.lines.append(f"mad.lo.u32 %r{place}, %r{place}, {wide}, {rnd.choice((0, 16, 512))};")
        self.lines.append(f"mov.u32 %r{place + 1}, {rnd.choice('ab')};")
        self.lines.append(f"add.u32 %r{place}, %r{place}, %r{place + 1};")
        at, guard = f"[%r{place}]", self.guard()
        lines = [
            f"red.shared.add.u32 {at}, {self.one()};",
            f"red.shared.max.{rnd.choice('us')}32 {at}, {self.one()};",
            f"atom.shared.add.u32 %r6, {at}, 1;",
            f"ld.shared.u32 %r6, {at};",
            f"ld.shared.u32 %r6, {at};",
            f"st.shared.u32 {at}, {rnd.choice((1, 2))};",
        ]
        if wide >= 8:
            lines.append(f"st.shared.v2.u32 {at}, {{%r1, %r2}};")
        line = rnd.choice(lines)
        if wide == 16 and rnd.random() < 0.3:
            count = rnd.choice((1, 2, 4))
            parts = ", ".join(f"%r{390 + each}" for each in range(count))
            guard, line = "", f"ldmatrix.sync.aligned.m8n8.x{count}.shared.b16 {{{parts}}}, {at};"
        if "%r6" in line:
            self.read += 1
        self.lines.append(guard + line)

    def logic(self) -> None:
        rnd = self.random
        to, one, other = (f"%p{rnd.randrange(self.preds)}" for _ in range(3))
        word = rnd.choice(("lt.and.s32", "ge.or.u32", "eq.xor.s32", "ne.and.u32", "le.s16", "gt.u16"))
        lines = [f"{rnd.choice(('and', 'or', 'xor'))}.pred {to}, {one}, {other};", f"not.pred {to}, {one};"]
        if word[-2:] == "32":
            lines.append(f"setp.{word} {to}, {self.one()}, {self.some()}, {rnd.choice(('', '!'))}{one};")
        else:
            lines.append(f"setp.{word.replace('16', '32')} {to}, {self.one()}, {self.some()};")
        self.lines.append(self.guard(0.15) + rnd.choice(lines))

    def meeting(self, depth: int) -> None:
        rnd = self.random
        all_ = -(-self.threads // 32) * 32
        line = rnd.choice(
            ("bar.sync 1;", f"bar.sync 0, {all_};", "barrier.sync 0;", "cp.async.wait_all;", "bar.warp.sync -1;")
        )
        if self.preds and rnd.random() < 0.2:
            self.read += 1
            line = f"bar.red.popc.u32 %r6, 0, %p{rnd.randrange(self.preds)};"
        self.lines.append(self.guard(0.1) + line)
