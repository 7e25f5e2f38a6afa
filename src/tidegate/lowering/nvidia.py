"""NVIDIA's instructions, as intrinsics of LLVM that become PTX.

Needs   a target of NVIDIA
Gives   `Nvidia`: threads, moves between lanes, matrix products, barriers, waits, copies
Keeps   an arrival of a wave is that of one lane, behind a fence of all of its lanes
Cost    constant for each operation

Intrinsics: https://llvm.org/docs/NVPTXUsage.html; fragments of `mma.m16n8k16` and `m16n8k32`: PTX ISA 9.0, "Matrix
Fragments for mma.m16n8k16 with floating point type" and "mma.m16n8k32".
"""

from __future__ import annotations

from collections.abc import Sequence

from tidegate.language import ops
from tidegate.language.ops import Value
from tidegate.language.types import BarrierObject, DType, Tile
from tidegate.lowering.gpu import Backend, MatrixProduct, by_words, refuse
from tidegate.lowering.ir import IrWriter, Scalar
from tidegate.lowering.matrices import fragments_of, read_fragments
from tidegate.lowering.memory import MemoryWriter, TileSpot
from tidegate.lowering.spread import TileSpread, width_of
from tidegate.targets import Target

FIRST_NAMED = 1  # barrier 0 is the workgroup's
STATIC = 48 * 1024  # bytes of shared memory that a kernel may have without asking at launch


class Nvidia(Backend):
    triple = "nvptx64-nvidia-cuda"
    debug_kind = "DebugDirectivesOnly"  # with tables the target is one for debugging, and ptxas optimizes nothing

    def __init__(self, target: Target, waves: int, named: Sequence[Value] = ()) -> None:
        super().__init__(target, waves)
        self.named = {each.name: FIRST_NAMED + number for number, each in enumerate(named)}

    @property
    def attributes(self) -> str:
        threads = self.waves * self.lanes
        return f'nounwind "nvvm.reqntid"="{threads}"'

    @property
    def convention(self) -> str:
        return "ptx_kernel"

    # --- threads ---

    def start(self, w: IrWriter) -> None:
        thread = w.call("i32", "llvm.nvvm.read.ptx.sreg.tid.x", ())
        bits = width_of(self.lanes)
        self.lane = w.int("and", thread, self.lanes - 1)
        self.wave = w.int("lshr", thread, bits) if self.waves > 1 else 0

    def workgroup(self, w: IrWriter, axis: int) -> Scalar:
        return w.call("i32", f"llvm.nvvm.read.ptx.sreg.ctaid.{'xyz'[axis]}", ())

    def from_lane(self, w: IrWriter, value: str, dtype: DType, lane: Scalar) -> str:
        self.together("a move between lanes")
        return by_words(w, value, dtype, lambda word: self._shuffled(w, word, lane))

    def _shuffled(self, w: IrWriter, word: str, lane: Scalar) -> str:
        given = (("i32", -1), ("i32", word), ("i32", lane), ("i32", self.lanes - 1))
        return w.call("i32", "llvm.nvvm.shfl.sync.idx.i32", given)

    # --- arithmetic ---

    def function(self, w: IrWriter, fn: str, kind: str, args: Sequence[str]) -> str:
        if kind != "float":
            raise KeyError(fn)
        (x, *_) = args
        match fn:
            case "exp2":
                return w.call("float", "llvm.nvvm.ex2.approx.f", (("float", x),))
            case "log2":
                return w.call("float", "llvm.nvvm.lg2.approx.f", (("float", x),))
            case "rsqrt":
                return w.call("float", "llvm.nvvm.rsqrt.approx.f", (("float", x),))
            case "sin" | "cos":
                return w.call("float", f"llvm.nvvm.{fn}.approx.f", (("float", x),))
        raise KeyError(fn)

    # --- matrix products ---

    def product(self, a: Tile, b: Tile, acc: Tile) -> MatrixProduct | None:
        kind = a.dtype.name
        if kind != b.dtype.name or len(a.shape) != 2:
            return None
        if not (kind in ("f16", "bf16") and acc.dtype.name in ("f32", "f16")):
            return None
        (rows, depth), columns = a.shape, b.shape[1]
        if rows % 16 or depth % 16 or columns % 8 or any(each & (each - 1) for each in (rows, depth, columns)):
            return None
        m, n, k = width_of(rows), width_of(columns), width_of(depth)
        # Bits of an element's number: of a, k then m; of b, n then k; of the accumulator, n then m.
        of_a = TileSpread((0, k + 3, 3, *range(4, k), *range(k + 4, k + m)), (1, 2, k, k + 1, k + 2))
        of_b = TileSpread((n, n + 3, *range(n + 4, n + k), *range(3, n)), (n + 1, n + 2, 0, 1, 2))
        of_acc = TileSpread((0, n + 3, *range(3, n), *range(n + 4, n + m)), (1, 2, n, n + 1, n + 2))
        return MatrixProduct(of_a, of_b, of_acc)

    def multiply(
        self, w: IrWriter, a: Sequence[str], b: Sequence[str], acc: Sequence[str], tiles: tuple[Tile, Tile, Tile]
    ) -> list[str]:
        self.together("a product of tiles")
        of_a, of_b, _ = tiles
        (rows, depth), columns = of_a.shape, of_b.shape[1]
        is_half = of_a.dtype.name == "f16"
        down, deep, across = rows // 16, depth // 16, columns // 8
        fragments_a = [self._pairs(w, a[8 * each : 8 * each + 8], is_half) for each in range(down * deep)]
        fragments_b = [self._pairs(w, b[4 * each : 4 * each + 4], is_half) for each in range(across * deep)]
        sums = list(acc)
        kind = "<2 x half>" if is_half else "i32"
        name = f"llvm.nvvm.mma.m16n8k16.row.col.{'f32.f32' if is_half else 'bf16'}"
        for step in range(deep):
            for down_at in range(down):
                for across_at in range(across):
                    at = 4 * (down_at * across + across_at)
                    given = [(kind, each) for each in fragments_a[down_at * deep + step]]
                    given += [(kind, each) for each in fragments_b[across_at * deep + step]]
                    given += [("float", each) for each in sums[at : at + 4]]
                    found = w.call("{ float, float, float, float }", name, given)
                    for place in range(4):
                        sums[at + place] = w.let(f"extractvalue {{ float, float, float, float }} {found}, {place}")
        return sums

    def _pairs(self, w: IrWriter, values: Sequence[str], is_half: bool) -> list[str]:
        kind, made = "half" if is_half else "bfloat", []
        for low, high in zip(values[::2], values[1::2], strict=True):
            first = w.once(f"insertelement <2 x {kind}> poison, {kind} {low}, i32 0")
            both = w.once(f"insertelement <2 x {kind}> {first}, {kind} {high}, i32 1")
            made.append(both if is_half else w.once(f"bitcast <2 x bfloat> {both} to i32"))
        return made

    def fragments(self, memory: MemoryWriter, spot: TileSpot, spread: TileSpread) -> list[str] | None:
        found = fragments_of(spot, spread) if not self.apart else None
        return read_fragments(memory, spot, spread, found) if found is not None else None

    # --- synchronization ---

    def sync(self, w: IrWriter, op: ops.Op) -> None:
        match op:
            case ops.WorkgroupBarrier():
                self.meet(w)
            case ops.SharedMemoryBarrier(counts, wait_async, deps):
                self.wait(w, op, counts, wait_async or bool(deps and not counts))
                self.meet(w)
            case ops.ConditionalBarrier(half):
                half_of = self.waves // 2
                inside = w.compare("slt" if half == "low" else "sge", self.wave, half_of)
                then, after = w.fresh("half"), w.fresh("halves")
                w.branch(inside, then, after)
                w.start(then)
                self.meet(w)
                w.jump(after)
                w.start(after)
            case ops.WaitCount(counts, deps):
                self.wait(w, op, counts, bool(deps and not counts))
            case ops.CommitGroup():
                w.call("void", "llvm.nvvm.cp.async.commit.group", ())
                if self.has_bulk:
                    w.call("void", "llvm.nvvm.cp.async.bulk.commit.group", ())
            case ops.Fence("wave"):
                self.meet_lanes(w)
            case ops.Fence("proxy_async"):
                asm(w, "fence.proxy.async.shared::cta;")
            case ops.SchedulingBarrier() | ops.SetWavePrio():
                pass  # PTX has no word for either: ptxas schedules, and warps have no priorities
            case _:
                raise refuse(f"`{type(op).__name__}`", op.at, self.target)

    @property
    def has_bulk(self) -> bool:
        return "bulk_group" in self.target.counters

    def meet(self, w: IrWriter) -> None:
        w.call("void", "llvm.nvvm.barrier.cta.sync.aligned.all", (("i32", 0),), " #1")

    def meet_lanes(self, w: IrWriter) -> None:
        self.together("a rendezvous of lanes")
        w.call("void", "llvm.nvvm.bar.warp.sync", (("i32", -1),), " #1")

    def wait(self, w: IrWriter, op: ops.Op, counts: Sequence[tuple[str, int]], for_all: bool) -> None:
        """Groups of copies; ordinary accesses to shared memory are performed when the thread goes on."""
        wanted = dict(counts)
        if unknown := wanted.keys() - {"group", *(("bulk_group",) if self.has_bulk else ())}:
            raise refuse(f"a wait for `{min(unknown)}`", op.at, self.target)
        if for_all:
            wanted = {"group": 0, **({"bulk_group": 0} if self.has_bulk else {})}
        if "group" in wanted:
            w.call("void", "llvm.nvvm.cp.async.wait.group", (("i32 immarg", wanted["group"]),))
        if "bulk_group" in wanted:
            w.call("void", "llvm.nvvm.cp.async.bulk.wait.group", (("i32 immarg", wanted["bulk_group"]),))

    def shared_memory(self, size: int) -> str:
        if size > STATIC:
            return "external addrspace(3) global [0 x i8], align 16"
        return f"internal addrspace(3) global [{size} x i8] undef, align 16"

    def signal(self, w: IrWriter, op: ops.Signal, *, and_wait: bool) -> None:
        """`bar.sync` and `bar.arrive`: there are no halves of one barrier."""
        barrier = op.barrier
        if isinstance(barrier, int):
            if not and_wait:
                raise refuse("a signal without its wait behind it", op.at, self.target)
            self.meet(w)
            return
        assert isinstance(barrier.type, BarrierObject)
        number, threads = self.named[barrier.name], barrier.type.arrivals * self.lanes
        how = "sync" if and_wait else "arrive"
        w.call("void", f"llvm.nvvm.barrier.cta.{how}.aligned.count", (("i32", number), ("i32", threads)), " #1")

    def depart(self, w: IrWriter, op: ops.Wait) -> None:
        raise refuse("a wait without its signal before it", op.at, self.target)

    # --- barrier objects in memory ---

    def set_up(self, w: IrWriter, address: str, arrivals: int) -> None:
        w.call("void", "llvm.nvvm.mbarrier.init.shared", (("ptr addrspace(3)", address), ("i32", arrivals)))

    def end_of_setting_up(self, w: IrWriter) -> None:
        """What was set up is seen by copies too, and by all waves once they have met."""
        if self.has_bulk:
            asm(w, "fence.proxy.async.shared::cta;")

    def arrive(self, w: IrWriter, address: str, expect: int) -> None:
        """For the whole wave, whose lanes have come here; by lane 0."""
        self.meet_lanes(w)
        then, after = w.fresh("one"), w.fresh("all")
        w.branch(w.compare("eq", self.lane, 0), then, after)
        w.start(then)
        place = w.let(f"ptrtoint ptr addrspace(3) {address} to i32")
        if expect:
            asm(w, f"mbarrier.arrive.expect_tx.shared.b64 _, [$0], {expect};", (("i32", place),))
        else:
            asm(w, "mbarrier.arrive.shared.b64 _, [$0];", (("i32", place),))
        w.jump(after)
        w.start(after)
        self.meet_lanes(w)

    def wait_for_phase(self, w: IrWriter, address: str, parity: Scalar) -> None:
        place = w.let(f"ptrtoint ptr addrspace(3) {address} to i32")
        again, after = w.fresh("again"), w.fresh("passed")
        w.jump(again)
        w.start(again)
        test = "try_wait" if self.has_bulk else "test_wait"
        done = w.let(
            f'call i32 asm sideeffect "{{ .reg .pred p; mbarrier.{test}.parity.shared.b64 p, [$1], $2; '
            f'selp.b32 $0, 1, 0, p; }}", "=r,r,r,~{{memory}}"(i32 {place}, i32 {parity})'
        )
        w.branch(w.compare("ne", done, 0), after, again)
        w.start(after)

    # --- copies ---

    def copy(self, w: IrWriter, dest: str, source: str, array: str, bytes_: int, given: Scalar) -> None:
        """`bytes_` of a lane, of which `given` are read and the rest is 0."""
        how = "cg" if bytes_ == 16 else "ca"
        name = f"llvm.nvvm.cp.async.{how}.shared.global.{bytes_}"
        places: list[tuple[str, Scalar]] = [("ptr addrspace(3)", dest), ("ptr addrspace(1)", source)]
        if given == bytes_:
            w.call("void", name, places)
        else:
            w.call("void", f"{name}.s", [*places, ("i32", given)])

    def copy_rows(self, w: IrWriter, dest: str, source: str, bytes_: int, told: str) -> None:
        place, object_ = (w.let(f"ptrtoint ptr addrspace(3) {each} to i32") for each in (dest, told))
        asm(
            w,
            "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [$0], [$1], $2, [$3];",
            (("i32", place), ("ptr addrspace(1)", source), ("i32", bytes_), ("i32", object_)),
        )

    def store_rows(self, w: IrWriter, dest: str, source: str, bytes_: int) -> None:
        place = w.let(f"ptrtoint ptr addrspace(3) {source} to i32")
        asm(
            w,
            "cp.async.bulk.global.shared::cta.bulk_group [$0], [$1], $2;",
            (("ptr addrspace(1)", dest), ("i32", place), ("i32", bytes_)),
        )


def asm(w: IrWriter, text: str, arguments: Sequence[tuple[str, Scalar]] = ()) -> None:
    """An instruction that LLVM has no intrinsic for, or none with this form."""
    kinds = ["l" if kind.startswith("ptr addrspace(1)") else "r" for kind, _ in arguments]
    constraints = ",".join([*kinds, "~{memory}"])
    given = ", ".join(f"{kind} {value}" for kind, value in arguments)
    w.do(f'call void asm sideeffect "{text}", "{constraints}"({given}) #1')
