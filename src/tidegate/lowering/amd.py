"""AMD's instructions, as intrinsics of LLVM that become AMDGCN assembly.

Needs   a target of AMD
Gives   `Amd`: lanes, moves between lanes, matrix products, barriers, waits, copies
Keeps   LLVM's bare barrier drains nothing, and LLVM moves accesses across it: each barrier and wait stands between two
        fences that order shared memory, so that what was proved of the kernel is what LLVM must keep
Cost    constant for each operation

Intrinsics and fences: https://llvm.org/docs/AMDGPUUsage.html. Who holds what of a matrix: CDNA3 ISA, "Matrix
Arithmetic Instructions"; RDNA3 ISA, "WMMA"; RDNA4 ISA, "WMMA"; gfx1250 as LLVM's and Triton's layouts have it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tidegate.diag import NOWHERE
from tidegate.language import ops
from tidegate.language.ops import Value
from tidegate.language.types import DType, Tile
from tidegate.lowering.gpu import Backend, MatrixProduct, by_words, refuse
from tidegate.lowering.ir import IrWriter, Scalar
from tidegate.lowering.spread import FREE, TileSpread, width_of
from tidegate.targets import Target

CDNA_LANES = 64
LOCAL_ONLY = "!7"  # what fences synchronize: shared memory
LARGEST = 0x7FFFFFFE  # bytes that a descriptor reaches
PLAIN_WORDS = 0x27000  # its last word on gfx9: 32 bits, not swizzled (as Triton's `createDescriptor` has it)
MOST = {"vmcnt": 63, "lgkmcnt": 15, "expcnt": 7}


@dataclass(frozen=True, slots=True)
class MatrixUnit:
    """A matrix instruction of 16x16 elements. Bits of rows, columns and depth, by registers and lanes."""

    name: str
    depth: int  # elements of a product's sum
    of_a: tuple[tuple[int, ...], tuple[int, ...]]  # bits of depth in registers; bits of depth in the upper lanes
    of_acc: tuple[tuple[int, ...], tuple[int, ...]]  # bits of rows in registers; in the upper lanes
    packed: str = ""  # what LLVM takes two bfloats as


class Amd(Backend):
    triple = "amdgcn-amd-amdhsa"
    scope = 'syncscope("workgroup")'

    def __init__(self, target: Target, waves: int, named: Sequence[Value] = ()) -> None:
        super().__init__(target, waves)
        # Which generation it is follows from its facts: CDNA has waves of 64 lanes; from gfx12 on LDS has a counter of
        # its own; from gfx1250 on so have copies, each lane has its own address in them, and sums are twice as deep.
        self.is_cdna = self.lanes == CDNA_LANES
        self.has_split_counters = target.counter_of("local_read") != target.counter_of("scalar_read")
        self.copies_by_lane = target.counter_of("gather_to_lds") not in ("", target.counter_of("global_read"))
        self.deepest = max((each.k for each in target.mma if (each.m, each.n, each.a) == (16, 16, "f16")), default=0)

    @property
    def attributes(self) -> str:
        threads = self.waves * self.lanes
        said = [f'"amdgpu-flat-work-group-size"="{threads},{threads}"', '"uniform-work-group-size"="true"']
        if self.copies_by_lane:  # no clusters: else LLVM asks the hardware for the workgroup's place in one
            said.append('"amdgpu-cluster-dims"="0,0,0"')
        return " ".join(("nounwind", *said))

    @property
    def convention(self) -> str:
        return "amdgpu_kernel"

    def shared_memory(self, size: int) -> str:
        return f"internal addrspace(3) global [{size} x i8] poison, align 16"

    def metadata(self) -> str:
        return '!7 = !{!"amdgpu-synchronize-as", !"local"}'

    # --- threads ---

    def start(self, w: IrWriter) -> None:
        thread = w.call("i32", "llvm.amdgcn.workitem.id.x", ())
        self.lane = w.int("and", thread, self.lanes - 1)
        if self.waves > 1:
            wave = w.int("lshr", thread, width_of(self.lanes))
            self.wave = w.call("i32", "llvm.amdgcn.readfirstlane.i32", (("i32", wave),))

    def workgroup(self, w: IrWriter, axis: int) -> Scalar:
        return w.call("i32", f"llvm.amdgcn.workgroup.id.{'xyz'[axis]}", ())

    def from_lane(self, w: IrWriter, value: str, dtype: DType, lane: Scalar) -> str:
        self.together("a move between lanes")
        place = w.int("shl", lane, 2)

        def moved(word: str) -> str:
            return w.call("i32", "llvm.amdgcn.ds.bpermute", (("i32", place), ("i32", word)))

        return by_words(w, value, dtype, moved)

    # --- arithmetic ---

    def function(self, w: IrWriter, fn: str, kind: str, args: Sequence[str]) -> str:
        if kind != "float":
            raise KeyError(fn)
        (x, *_) = args
        match fn:
            case "exp2" | "log2" | "sin" | "cos":
                return w.call("float", f"llvm.{fn}.f32", (("float", x),))
            case "rsqrt":
                return w.call("float", "llvm.amdgcn.rsq.f32", (("float", x),))
        raise KeyError(fn)

    # --- matrix products ---

    def unit(self, a: Tile, b: Tile, acc: Tile) -> MatrixUnit | None:
        kind = a.dtype.name
        if kind != b.dtype.name or kind not in ("f16", "bf16") or acc.dtype.name != "f32" or len(a.shape) != 2:
            return None
        is_half = kind == "f16"
        if self.is_cdna:  # a lane holds four neighbours of the sum
            which = "f16" if is_half else "bf16.1k"
            return MatrixUnit(f"llvm.amdgcn.mfma.f32.16x16x16{which}", 16, ((0, 1), (2, 3)), ((0, 1), (2, 3)), "i16")
        if self.deepest == 32:
            return MatrixUnit(
                f"llvm.amdgcn.wmma.f32.16x16x32.{kind}.v8f32.v16{kind}", 32, ((0, 1, 2, 4), (3,)), ((0, 1, 2), (3,))
            )
        if self.has_split_counters:
            in_type = "v8f16" if is_half else "v8i16"
            name = f"llvm.amdgcn.wmma.f32.16x16x16.{kind}.v8f32.{in_type}"
            return MatrixUnit(name, 16, ((0, 1, 2), (3,)), ((0, 1, 2), (3,)), "i16")
        in_type = "v16f16" if is_half else "v16i16"  # both halves of a wave hold a and b
        name = f"llvm.amdgcn.wmma.f32.16x16x16.{kind}.v8f32.{in_type}"
        return MatrixUnit(name, 16, ((0, 1, 2, 3), (FREE,)), ((1, 2, 3), (0,)), "i16")

    def product(self, a: Tile, b: Tile, acc: Tile) -> MatrixProduct | None:
        unit = self.unit(a, b, acc)
        if unit is None:
            return None
        (rows, depth), columns = a.shape, b.shape[1]
        if rows % 16 or columns % 16 or depth % unit.depth or any(each & (each - 1) for each in (rows, depth, columns)):
            return None
        m, n, k = width_of(rows), width_of(columns), width_of(depth)
        step = width_of(unit.depth)
        regs, lanes = unit.of_a
        # Bits of an element's number: of a, k then m; of b, n then k; of the accumulator, n then m.
        of_a = TileSpread(
            (*regs, *range(step, k), *range(k + 4, k + m)),
            (*range(k, k + 4), *lanes),
        )
        of_b = TileSpread(
            (*(n + each for each in regs), *range(n + step, n + k), *range(4, n)),
            (*range(4), *(each if each == FREE else n + each for each in lanes)),
        )
        regs, lanes = unit.of_acc
        of_acc = TileSpread(
            (*(n + each for each in regs), *range(4, n), *range(n + 4, n + m)),
            (*range(4), *(n + each for each in lanes)),
        )
        return MatrixProduct(of_a, of_b, of_acc)

    def multiply(
        self, w: IrWriter, a: Sequence[str], b: Sequence[str], acc: Sequence[str], tiles: tuple[Tile, Tile, Tile]
    ) -> list[str]:
        self.together("a product of tiles")
        of_a, of_b, _ = tiles
        unit = self.unit(*tiles)
        assert unit is not None
        (rows, depth), columns = of_a.shape, of_b.shape[1]
        down, deep, across = rows // 16, depth // unit.depth, columns // 16
        wide, many = 1 << len(unit.of_a[0]), 1 << len(unit.of_acc[0])
        kind = "half" if of_a.dtype.name == "f16" else "bfloat"
        packed = kind if kind == "half" or not unit.packed else unit.packed

        def vector(values: Sequence[str], kind: str) -> str:
            whole = "poison"
            for place, each in enumerate(values):
                whole = w.once(f"insertelement <{len(values)} x {kind}> {whole}, {kind} {each}, i32 {place}")
            return whole

        def operand(values: Sequence[str]) -> str:
            whole = vector(values, kind)
            return whole if packed == kind else w.once(f"bitcast <{wide} x {kind}> {whole} to <{wide} x {packed}>")

        parts_a = [operand(a[wide * each : wide * each + wide]) for each in range(down * deep)]
        parts_b = [operand(b[wide * each : wide * each + wide]) for each in range(across * deep)]
        sums = [vector(acc[many * each : many * each + many], "float") for each in range(down * across)]
        for step in range(deep):
            for row in range(down):
                for column in range(across):
                    at = row * across + column
                    given = [parts_a[row * deep + step], parts_b[column * deep + step], sums[at]]
                    sums[at] = self._multiplied(w, unit, f"<{wide} x {packed}>", f"<{many} x float>", given)
        return [
            w.once(f"extractelement <{many} x float> {each}, i32 {place}") for each in sums for place in range(many)
        ]

    def _multiplied(self, w: IrWriter, unit: MatrixUnit, kind: str, sums: str, given: Sequence[str]) -> str:
        a, b, acc = given
        if self.is_cdna:
            more = (("i32 immarg", 0), ("i32 immarg", 0), ("i32 immarg", 0))
            return w.call(sums, unit.name, ((kind, a), (kind, b), (sums, acc), *more))
        if self.copies_by_lane:
            no, none = ("i1 immarg", "false"), ("i16 immarg", 0)
            return w.call(sums, unit.name, (no, (kind, a), no, (kind, b), none, (sums, acc), no, no))
        return w.call(sums, unit.name, ((kind, a), (kind, b), (sums, acc)))

    # --- synchronization ---

    def sync(self, w: IrWriter, op: ops.Op) -> None:
        match op:
            case ops.WorkgroupBarrier():
                self.meet(w)
            case ops.SharedMemoryBarrier(counts, wait_async, deps):
                w.do(f"fence {self.scope} release, !mmra {LOCAL_ONLY}")
                self.wait(w, op, counts, wait_async or bool(deps and not counts))
                w.call("void", "llvm.amdgcn.s.barrier", (), " #1")
                w.do(f"fence {self.scope} acquire, !mmra {LOCAL_ONLY}")
            case ops.ConditionalBarrier(half):
                inside = w.compare("slt" if half == "low" else "sge", self.wave, self.waves // 2)
                then, after = w.fresh("half"), w.fresh("halves")
                w.branch(inside, then, after)
                w.start(then)
                self.meet(w)
                w.jump(after)
                w.start(after)
            case ops.WaitCount(counts, deps):
                self.keep_order(w)
                self.wait(w, op, counts, bool(deps and not counts))
                self.keep_order(w)
            case ops.Fence("wave"):
                w.do('fence syncscope("wavefront") seq_cst')
            case ops.SchedulingBarrier():
                w.call("void", "llvm.amdgcn.sched.barrier", (("i32 immarg", 0),), " #1")
            case ops.SetWavePrio(level):
                w.call("void", "llvm.amdgcn.s.setprio", (("i16 immarg", level),))
            case _:
                raise refuse(f"`{type(op).__name__}`", op.at, self.target)

    def keep_order(self, w: IrWriter) -> None:
        """LLVM moves no access across this, and makes no instruction of it."""
        w.do('fence syncscope("singlethread") seq_cst')

    def meet(self, w: IrWriter) -> None:
        self.keep_order(w)
        w.call("void", "llvm.amdgcn.s.barrier", (), " #1")
        self.keep_order(w)

    def wait(self, w: IrWriter, op: ops.Op, counts: Sequence[tuple[str, int]], for_all: bool) -> None:
        wanted = dict(counts)
        if for_all:
            wanted |= dict.fromkeys(self.of_copies(), 0)
        if self.has_split_counters:
            for name, count in wanted.items():
                if name not in ("loadcnt", "storecnt", "dscnt", "kmcnt", "asynccnt", "tensorcnt"):
                    raise refuse(f"a wait for `{name}`", op.at, self.target)
                w.call("void", f"llvm.amdgcn.s.wait.{name}", (("i16 immarg", count),))
            return
        if not wanted:
            return
        if not wanted.keys() <= MOST.keys():
            raise refuse(f"a wait for {', '.join(f'`{each}`' for each in wanted)}", op.at, self.target)
        vm, lgkm, exp = (wanted.get(name, most) for name, most in MOST.items())
        if self.is_cdna:  # vmcnt 3:0 and 15:14, expcnt 6:4, lgkmcnt 11:8
            word = vm & 15 | exp << 4 | min(lgkm, 15) << 8 | (vm >> 4 & 3) << 14
        else:  # gfx11: expcnt 2:0, lgkmcnt 9:4, vmcnt 15:10
            word = exp | (wanted.get("lgkmcnt", 63) & 63) << 4 | vm << 10
        w.call("void", "llvm.amdgcn.s.waitcnt", (("i32 immarg", word),))

    def of_copies(self) -> list[str]:
        """The counters of asynchronous copies."""
        rows = (self.target.operations.get(name) for name in ("gather_to_lds", "tensor_load_to_lds", "lds_to_global"))
        return list(
            dict.fromkeys(str(each.counter) for each in rows if each is not None and each.present and each.counter)
        )

    def signal(self, w: IrWriter, op: ops.Signal, *, and_wait: bool) -> None:
        if not isinstance(op.barrier, int):
            raise refuse("a named barrier", op.at, self.target)
        if and_wait:
            self.meet(w)
            return
        self.keep_order(w)
        w.call("void", "llvm.amdgcn.s.barrier.signal", (("i32 immarg", op.barrier),), " #1")
        self.keep_order(w)

    def depart(self, w: IrWriter, op: ops.Wait) -> None:
        if not isinstance(op.barrier, int):
            raise refuse("a named barrier", op.at, self.target)
        self.keep_order(w)
        w.call("void", "llvm.amdgcn.s.barrier.wait", (("i16 immarg", op.barrier),), " #1")
        self.keep_order(w)

    def set_up(self, w: IrWriter, address: str, arrivals: int) -> None:
        raise refuse("an mbarrier", NOWHERE, self.target)

    end_of_setting_up = arrive = wait_for_phase = set_up  # type: ignore[assignment]

    # --- copies ---

    def copy(self, w: IrWriter, dest: str, source: str, array: str, bytes_: int, given: Scalar) -> None:
        """Each lane to a place of its own (gfx1250), or lane i to the i-th piece behind the first lane's (before)."""
        if self.copies_by_lane:
            bits = {1: "b8", 4: "b32", 8: "b64", 16: "b128"}[bytes_]
            places: list[tuple[str, Scalar]] = [("ptr addrspace(1)", source), ("ptr addrspace(3)", dest)]
            name = f"llvm.amdgcn.global.load.async.to.lds.{bits}"
            w.call("void", name, [*places, ("i32 immarg", 0), ("i32 immarg", 0)])
            return
        first = w.let(f"ptrtoint ptr addrspace(3) {dest} to i32")
        first = w.call("i32", "llvm.amdgcn.readfirstlane.i32", (("i32", first),))
        base = w.let(f"inttoptr i32 {first} to ptr addrspace(3)")
        # The buffer's form: LLVM 22 moves a part of an address of `global_load_lds` into its offset, which the hardware
        # adds to the place in shared memory, too (seen on gfx90a; ISA, "LDS_ADDR = ... + inst_offset").
        words = [w.let(f"ptrtoint ptr addrspace(1) {each} to i64") for each in (source, array)]
        apart = w.let(f"trunc i64 {w.let(f'sub i64 {words[0]}, {words[1]}')} to i32")
        numbers = (("i32 immarg", bytes_), ("i32", apart), ("i32", 0), ("i32 immarg", 0), ("i32 immarg", 0))
        to = (("ptr addrspace(8)", self.resource(w, array)), ("ptr addrspace(3)", base))
        w.call("void", "llvm.amdgcn.raw.ptr.buffer.load.lds", (*to, *numbers))

    def resource(self, w: IrWriter, array: str) -> str:
        """A descriptor of the bytes from the start of an array on."""
        name = "llvm.amdgcn.make.buffer.rsrc.p8.p1"
        given = (("ptr addrspace(1)", array), ("i16", 0), ("i64", LARGEST), ("i32", PLAIN_WORDS))
        return w.call("ptr addrspace(8)", name, given)

    def store(self, w: IrWriter, dest: str, source: str, bytes_: int) -> None:
        bits = {1: "b8", 4: "b32", 8: "b64", 16: "b128"}[bytes_]
        places: list[tuple[str, Scalar]] = [("ptr addrspace(1)", dest), ("ptr addrspace(3)", source)]
        name = f"llvm.amdgcn.global.store.async.from.lds.{bits}"
        w.call("void", name, [*places, ("i32 immarg", 0), ("i32 immarg", 0)])
