"""The steps of a trace as the assembly that they ask for, so that both can be read alike.

Needs   steps as `oracles.wave_kernels.stepping` writes them, and the target
Gives   `plan_text`: a function with a barrier, a wait or an access for each step, and branches for loops
Keeps   a loop whose count is a number runs at least once; with `unrolled` as often as it says; others may not run
Cost    linear in the steps, times the counts of loops where they are unrolled

    {"op": "iterate", "count": 8}                 .LBB0_1:
    {"op": "write", "bytes": 16}                  \tds_write 16
    {"op": "shared_memory_barrier"}               \ts_waitcnt lgkmcnt(0)
                                                  \ts_barrier
    {"op": "end"}                                 \ts_cbranch_scc0 .LBB0_1
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

WIDEST = 16  # bytes of a lane that one instruction takes along
TENSOR_COPY = "tensor_load_to_lds"
MAY_NOT_RUN = "  ; may not run"
Step = dict[str, Any]


def plan_text(steps: Sequence[Step], target: str, *, unrolled: bool = False, at_top: bool = False) -> str:
    """What the steps ask for, as one function; `at_top`: loops are left where they begin, with a way past each."""
    writer = _Writer(target.startswith("gfx12"), unrolled, at_top)
    writer.region(steps)
    return "\n".join(["plan:", *writer.lines, "\ts_endpgm", ".Lfunc_end0:"])


def barriers_by_depth(steps: Sequence[Step]) -> dict[int, int]:
    """Places where waves meet, or say that they are there, by the depth of loops around them."""
    found: dict[int, int] = {}
    for each in steps:
        if "barrier" in each["op"] and each["op"] != "shared_memory_barrier_wait":
            found[each["depth"]] = found.get(each["depth"], 0) + 1
    return dict(sorted(found.items()))


@dataclass(slots=True)
class _Writer:
    is_split: bool  # a barrier is a signal and its wait
    unrolled: bool
    at_top: bool
    lines: list[str] = field(default_factory=list)
    labels: int = 0
    unsure: int = 0  # conditionals and loops around that may not run

    def region(self, steps: Sequence[Step]) -> None:
        at = 0
        while at < len(steps):
            step = steps[at]
            if step["op"] not in ("iterate", "conditional"):
                self.lines += [f"\t{each}{MAY_NOT_RUN * bool(self.unsure)}" for each in self.code(step)]
                at += 1
                continue
            end = next(n for n in range(at, len(steps)) if _ends(steps[n], step))
            self.inner(step, steps[at + 1 : end])
            at = end + 1

    def inner(self, step: Step, body: Sequence[Step]) -> None:
        """A loop or a conditional."""
        count = step["count"]
        if step["op"] == "iterate" and self.unrolled and count is not None:
            for _ in range(count):
                self.region(body)
            return
        if count == 0:
            return
        top, end = self.label(), self.label()
        if count is None or self.at_top:
            self.branch("s_cbranch_execz", end)
        self.lines.append(f"{top}:")
        self.unsure += count is None
        self.region(body)
        self.unsure -= count is None
        if step["op"] == "iterate":
            self.branch("s_cbranch_scc0", top)
        self.lines.append(f"{end}:")

    def label(self) -> str:
        self.labels += 1
        return f".LBB0_{self.labels}"

    def branch(self, name: str, to: str) -> None:
        self.lines += [f"\t{name} {to}", f"{self.label()}:"]

    def code(self, step: Step) -> Iterator[str]:
        """Instructions for one step."""
        args = step.get("args", [])
        match step["op"]:
            case "shared_memory_barrier":
                if args[0]:
                    yield self.wait(VM=0)
                yield from self.wait_for(args[1])
                yield self.wait(DS=0)
                yield from self.barrier()
            case "workgroup_barrier":
                yield from self.barrier()
            case "shared_memory_barrier_signal":
                yield from self.wait_for(args[1])
                yield self.wait(DS=0)
                yield f"s_barrier_signal {args[0]}"
            case "shared_memory_barrier_wait":
                yield f"s_barrier_wait {args[0]}"
            case "memory_counter_wait":
                if args[0] is not None:
                    yield self.wait(VM=args[0])
                if args[2] is not None:
                    yield self.wait(DS=args[2])
            case _:
                yield from self.access(step)

    def wait(self, **counts: int) -> str:
        ((queue, count),) = counts.items()
        if self.is_split:
            return f"s_wait_{'dscnt' if queue == 'DS' else 'loadcnt'} {count}"
        return f"s_waitcnt {'lgkmcnt' if queue == 'DS' else 'vmcnt'}({count})"

    def wait_for(self, tensors: bool) -> Iterator[str]:
        if tensors:
            yield "s_wait_tensorcnt 0"

    def barrier(self) -> Iterator[str]:
        yield from ("s_barrier_signal -1", "s_barrier_wait -1") if self.is_split else ("s_barrier",)

    def access(self, step: Step) -> Iterator[str]:
        size = step["bytes"]
        match step["does"]:
            case "copy" if step["op"] == TENSOR_COPY:
                yield f"{TENSOR_COPY} s[0:1]"
            case "copy":
                yield f"buffer_load_dword{f'x{size // 4}' if size > 4 else ''} v0, s[0:3], 0 offen lds"
            case "load":
                yield from ["global_load_dwordx4 v[0:3], v4, off"] * -(-size // WIDEST)
            case "store":
                yield from ["global_store_dwordx4 v[0:3], v4, off"] * -(-size // WIDEST)
            case "atomic":
                yield "ds_add_u32 v0, v1"
            case does:
                yield f"ds_{does} {size}"


def _ends(step: Step, begun: Step) -> bool:
    return step["op"] == "end" and step["graph"] == begun["graph"]
