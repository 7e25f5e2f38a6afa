"""The functions of a TTGIR file as programs: a graph each, and a plan carried out in the file's own text.

Needs   a `Ttgir` and a target
Gives   for each kernel its graph and what is to be said of it; for plans the new text
Keeps   what is not understood is said as findings, never dropped
Cost    that of `build` and `write`
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tidegate.assumptions import Assumption
from tidegate.diag import BadInput, Finding, Label, Span
from tidegate.graph import model as g
from tidegate.graph.plan import Change, Delete, Edit, Plan
from tidegate.hints import in_ttgir
from tidegate.hosts.mlir.model import Operation
from tidegate.hosts.triton import libtriton
from tidegate.hosts.triton.build import Built, build
from tidegate.hosts.triton.effects import NOTHING, Effect, Touches, WaitsFor, effects, may_go
from tidegate.hosts.triton.places import Source
from tidegate.hosts.triton.read import Ttgir
from tidegate.hosts.triton.target import find_misfit, gpu_of, name_of, target_of
from tidegate.language.ops import WaitCount
from tidegate.targets import Target

UNFOLLOWED = "copies, barriers and barrier objects with unknown places or arrivals"
BULK = "tma"  # the queue of bulk copies to global memory
CLUSTERS = "workgroups of a cluster, which are not modelled"


@dataclass(frozen=True, slots=True)
class TritonProgram:
    """One kernel of a file."""

    ttgir: Ttgir
    function: Operation
    target: Target
    built: Built
    named: str = ""  # the target that the file names, where another one was asked for

    @property
    def name(self) -> str:
        return self.built.graph.name

    @property
    def said(self) -> tuple[str, ...]:
        """How the file was taken, where that is not just as it stands."""
        found = [*([self.retargeted] if self.retargeted else ()), *self.ttgir.changed]
        if self.ttgir.is_compiled:
            found.append(f"as Triton {libtriton.version()} compiles it: its own barriers were inserted first")
        return tuple(found)

    @property
    def retargeted(self) -> str:
        """That another target was asked for than the file names."""
        taken = f"`{self.target.name}`" if self.target.name else "no particular target"
        return f"the file names `{self.named}`; treated as {taken}, as requested" if self.named else ""

    def source(self, at: Span) -> Source | None:
        """Where in the Triton source a place of the file comes from."""
        return self.ttgir.places.source(at.line) if at.file == self.ttgir.file else None

    @property
    def assumed(self) -> frozenset[Assumption]:
        """What the graph relies on and does not show."""
        return self.built.assumed

    @property
    def is_final(self) -> bool:
        return False

    @property
    def unmodelled(self) -> tuple[str, ...]:
        rows = [effects().get(op.name, NOTHING) for op in self.built.unknown]
        # What goes on by itself, or lets waves wait for it, is more than an access to all that it can reach.
        unfollowed = any(row.mbarrier or row.queue or row.barrier or _tells_objects(row) for row in rows)
        return (*((CLUSTERS,) if self.has_clusters else ()), *((UNFOLLOWED,) if unfollowed else ()))

    @property
    def has_clusters(self) -> bool:
        return (self.ttgir.module.operation.integer("ttg.num-ctas") or 1) > 1

    def findings(self) -> list[Finding]:
        """Operations that are taken for worse than they may be."""
        found = []
        if self.has_clusters:
            message = "the workgroups of a cluster share memory: only accesses within one workgroup were checked"
            found.append(Finding("TG407", message, (Label(self.function.at),)))
        for op in self.built.unknown:
            label = Label(op.at, "may read and write everything it can reach")
            message = f"the effect of `{op.name}` on shared memory is unknown here"
            found.append(Finding("TG407", message, (label,), help=_HELP))
        return found

    @property
    def held(self) -> frozenset[Span]:
        return frozenset()

    def possible(self, plan: Plan) -> Plan:
        """A plan without the edits that only loosen and cannot be written.

        A wait whose token is used stays, and so does the count of one that counts instructions. A wait for bulk stores
        stays as it is: a workgroup that ends gives its memory back, whether or not they have read it.
        """
        used = self.ttgir.used

        def stays(edit: Edit) -> bool:
            op = self.built.before[edit.point] if isinstance(edit, Delete | Change) else None
            if op is None or not isinstance(edit, Delete | Change):
                return False
            effect = effects().get(op.name, NOTHING)
            if isinstance(edit, Delete):
                return effect.wait == BULK or not may_go(op, used)
            by_instructions = isinstance(effect.does, WaitsFor) and effect.does.unit == "instructions"
            if not by_instructions and effect.wait != BULK:
                return False
            old = self.built.graph.points[edit.point].action
            return (
                isinstance(old, g.Sync)
                and isinstance(old.op, WaitCount)
                and isinstance(edit.op, WaitCount)
                and dict(old.op.counts).keys() == dict(edit.op.counts).keys()
                and all(count >= dict(old.op.counts)[queue] for queue, count in edit.op.counts)
            )

        return Plan(tuple(each for each in plan.edits if not stays(each)))

    def beside(self, at: Span) -> str:
        return ""  # lines of TTGIR name their source themselves

    def with_sources(self, finding: Finding) -> Finding:
        """A finding with the lines of the Triton source that its places come from, and a way out that TTGIR has."""
        if finding.code == "TG108":
            finding = replace(finding, help=_ORDER_LANES.format(finding.at.line))
        finding = in_ttgir(finding)
        lines = []
        for label in finding.labels:
            source = self.source(label.at)
            if source is not None:
                lines.append(f"line {label.at.line} comes from {source}")
        return replace(finding, notes=(*finding.notes, *dict.fromkeys(lines))) if lines else finding


def _tells_objects(row: Effect) -> bool:
    return isinstance(row.does, Touches) and "barrier" in row.does.memory


_HELP = "add a row to `effects.toml`; until then it counts as an access to everything"


# The first place of a finding is that of the later access.
_ORDER_LANES = (
    "insert `ttg.barrier local` before line {}, `gl.barrier()` in Gluon, `tl.debug_barrier()` in Triton: "
    "TTGIR has no fence for the lanes of a warp alone"
)


def programs_of(ttgir: Ttgir, asked: str | None = None) -> list[TritonProgram]:
    """The kernels of a file, for its own GPU or the target asked for.

    What Triton's passes make of a file depends on the GPU: for another one than it names, the file is read again.
    """
    return programs_for(ttgir, target_of(ttgir.gpu, asked))


def programs_for(ttgir: Ttgir, target: Target) -> list[TritonProgram]:
    """The same for a target as `target_of` gives it."""
    named = name_of(ttgir.gpu)
    if misfit := find_misfit(ttgir.gpu, ttgir.lanes, target):
        own = target.name == named
        message = f"the file names {named}, and does not fit `{target.name}`: {misfit}"
        help = f"compile the kernel for `{target.name}`, or {'correct its lanes' if own else 'leave out `--target`'}"
        raise BadInput(Finding("TG022", message, (Label(Span(ttgir.file, 0, 0, 0)),), help=help))
    if target.name == named:
        return [TritonProgram(ttgir, each, target, build(ttgir, each, target)) for each in ttgir.kernels]
    gpu = gpu_of(target)
    read = ttgir if gpu is None else ttgir.for_gpu(gpu)
    return [TritonProgram(read, each, target, build(read, each, target), named) for each in read.kernels]
