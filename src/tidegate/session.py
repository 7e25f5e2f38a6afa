"""One program on one target, with everything that has been found out about it.

Needs   a kernel, a graph, or the program of another compiler; its target
Gives   `Session`: the program's graph, flow, footprints, hazards, what is wrong with its shape, and its proof; the
        sessions of a loaded file
Keeps   each is computed when it is first asked for, once, and remembered. A changed program is another session
Cost    that of what is asked for
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

from tidegate.allowing import allowed_in, check_allowed, with_allowed
from tidegate.diag import BadInput, Finding, Label, Span
from tidegate.files import Loaded
from tidegate.graph.model import Access, SyncGraph
from tidegate.graph.plan import Plan
from tidegate.hosts.programs import host_programs
from tidegate.language.ops import Kernel
from tidegate.targets import Target, default_target, load_target

if TYPE_CHECKING:
    from tidegate.assumptions import Assumption
    from tidegate.footprint.model import Footprints
    from tidegate.graph.build import KernelGraph
    from tidegate.graph.flow import Flow
    from tidegate.hazards.find import Hazards
    from tidegate.simulate.judge import Judgement, Limits, Progress
    from tidegate.verify.ground import Ground
    from tidegate.verify.model import Suspect, Verification
    from tidegate.verify.prover import Prover
    from tidegate.verify.stale import Stale


class Origin(Protocol):
    """A program of another compiler, of which a graph was made."""

    @property
    def said(self) -> tuple[str, ...]:
        """How it was taken, where that is not just as it stands: a line for each deviation."""

    def findings(self) -> list[Finding]:
        """What is taken for worse than it may be."""

    @property
    def unmodelled(self) -> tuple[str, ...]:
        """What it does that no graph says: nothing is proved of it then. `assumed`: what its graph relies on."""

    @property
    def assumed(self) -> frozenset[Assumption]: ...

    @property
    def is_final(self) -> bool:
        """Whether it is code for the hardware, which no compiler changes any more."""

    @property
    def held(self) -> frozenset[Span]:
        """Places of synchronization that may serve what no graph says: advice leaves them alone."""

    def possible(self, plan: Plan) -> Plan:
        """A plan without the edits that only loosen and that the program's text has no way to say."""

    def with_sources(self, finding: Finding) -> Finding:
        """A finding with the places of the source that it comes from."""

    def beside(self, at: Span) -> str:
        """What stands beside a line of the program where it is quoted: the place of the source that it comes from."""


@dataclass(frozen=True, eq=False)
class Session:
    """`given`: the graph of a program that is not a kernel. `origin`: what that graph was made of. `note`: that the
    file names another target. `earlier`: what proofs have left of a program that differs in synchronization alone."""

    name: str
    target: Target
    kernel: Kernel | None
    given: SyncGraph | None = None
    origin: Origin | None = None
    note: str = ""
    earlier: Ground | None = None
    _hazards: dict[tuple[str, int], Hazards] = field(default_factory=dict, init=False, repr=False)
    _judged: dict[Limits, Judgement] = field(default_factory=dict, init=False, repr=False)

    @property
    def program(self) -> Kernel | SyncGraph:
        """What was given."""
        program = self.kernel or self.given
        assert program is not None
        return program

    # --- the program as a graph ---

    @cached_property
    def built(self) -> KernelGraph | None:
        """The graph of a kernel, with the place of each point in the kernel. Only for a kernel that has a meaning."""
        from tidegate.graph.build import build_graph

        return build_graph(self.kernel, self.target) if self.kernel is not None else None

    @property
    def graph(self) -> SyncGraph:
        graph = self.built.graph if self.built is not None else self.given
        assert graph is not None
        return graph

    @cached_property
    def flow(self) -> Flow:
        from tidegate.graph.flow import flow_of

        return flow_of(self.graph)

    @cached_property
    def footprints(self) -> Footprints:
        from tidegate.footprint.resolve import find_footprints

        return find_footprints(self.flow)

    def hazards(self, atomics: str = "commute", stagger: int = 0) -> Hazards:
        from tidegate.hazards.find import find_hazards

        if (atomics, stagger) not in self._hazards:
            found = find_hazards(self.flow, self.target, atomics=atomics, stagger=stagger, footprints=self.footprints)
            self._hazards[atomics, stagger] = found
        return self._hazards[atomics, stagger]

    # --- what is wrong with it ---

    @cached_property
    def of_kernel(self) -> tuple[Finding, ...]:
        """What the text of a kernel shows: its meaning, its memory, the workgroup's barrier, its fit to the target."""
        from tidegate.language.check import check

        return tuple(check(self.kernel, self.target)) if self.kernel is not None else ()

    @cached_property
    def of_graph(self) -> tuple[Finding, ...]:
        """What the shape of the graph shows. Of a kernel its text has shown most."""
        from tidegate.graph.fit import find_graph_misfits
        from tidegate.graph.wellformed import check_graph

        found = tuple(check_graph(self.graph))
        if self.kernel is not None or any(each.is_bad_input for each in found):
            return found
        return (*found, *find_graph_misfits(self.graph, self.target, lowered=self.origin is not None))

    @property
    def meaningless(self) -> list[Finding]:
        """What leaves the program without a meaning."""
        found = self.of_kernel if self.kernel is not None else self.of_graph
        return [each for each in found if each.is_bad_input]

    @cached_property
    def stale(self) -> tuple[Stale, ...]:
        """Counts that do not wait for what stands beside them, if conditions are free."""
        from tidegate.verify.stale import claims, find_stale

        if not any(claims(point.action) for point in self.graph.points):
            return ()
        return tuple(find_stale(self.flow, self.target))

    # --- its proof ---

    @cached_property
    def ground(self) -> Ground:
        """What every proof of this program rests on, and of those that differ in synchronization alone."""
        from tidegate.verify.ground import Ground

        return self.earlier or Ground(self.graph, self.target, self.footprints)

    @cached_property
    def prover(self) -> Prover:
        """For plans that change the synchronization of this program."""
        from tidegate.verify.prover import Prover

        return Prover(self.graph, self.target)

    @cached_property
    def verification(self) -> Verification:
        """That buffers of a kernel live has been seen in its shape; Triton sees to that of its own programs."""
        from tidegate.verify.verify import verify

        is_host = self.origin is not None
        memory = self.kernel is None and not is_host
        return verify(self.graph, self.target, memory=memory, trusted=is_host, ground=self.ground)

    @cached_property
    def turned_down(self) -> tuple[Suspect, ...] | None:
        """What a proof without the user's allowances would report in addition; None if it would be proved as well."""
        from tidegate.verify.verify import verify

        strict = replace(self.target, allowed=frozenset())
        if strict.fenced == self.target.fenced or not _crosses_behind_reads(self.graph):
            return None
        is_host = self.origin is not None
        found = verify(self.graph, strict, memory=self.kernel is None and not is_host, trusted=is_host)
        if found.is_proved:
            return None
        known = {(each.x, each.y, each.within_a_wave) for each in self.verification.suspects}
        new = (each for each in found.suspects if (each.x, each.y, each.within_a_wave) not in known)
        return tuple(each for each in new if each.why == "unfenced")

    # --- its runs ---

    def judged(self, limits: Limits, progress: Progress | None = None) -> Judgement:
        """What came of running it up to these limits."""
        from tidegate.simulate.judge import judge

        if limits not in self._judged:
            self._judged[limits] = judge(self.graph, self.target, limits, progress)
        return self._judged[limits]

    def share_runs(self, other: Session) -> None:
        """What is known of the runs of this program is known of another session's if that has the same program."""
        if self._judged and other.target is self.target and other.graph == self.graph:
            other._judged.update(self._judged)


def _crosses_behind_reads(graph: SyncGraph) -> bool:
    """Whether there are generic reads and writes of the async proxy."""
    accesses = [each.action for each in graph.points if isinstance(each.action, Access)]
    reads = any(each.proxy == "generic" and each.effect == "read" for each in accesses)
    return reads and any(each.proxy != "generic" and each.effect != "read" for each in accesses)


def sessions_of(loaded: Loaded, target: str | None, allow: Iterable[str] = ()) -> list[Session]:
    """The programs of a file, each with its target: the one asked for, else the one it names, else the default.

    `allow`: codes that are turned down to notes, beside those that the file allows.
    """
    allowed = check_allowed(allow) | allowed_in(loaded.sources.text(loaded.file), loaded.file)
    sessions = _sessions(loaded, target)
    return [replace(each, target=with_allowed(each.target, allowed)) for each in sessions] if allowed else sessions


def _sessions(loaded: Loaded, target: str | None) -> list[Session]:
    sessions = [Session(each.name, _target_of(each, target), each) for each in loaded.kernels]
    if loaded.graph is not None:
        sessions.append(Session(loaded.graph.name, pick_target(loaded.graph.target, target), None, loaded.graph))
    hosts = host_programs(loaded.ttgir, loaded.ptx, loaded.amdgcn, target)
    return [*sessions, *(Session(host.name, host.target, None, graph, host, host.retargeted) for host, graph in hosts)]


def _target_of(kernel: Kernel, asked: str | None) -> Target:
    """As `pick_target`; a name that the kernel gives is a mistake in the kernel."""
    try:
        return pick_target(kernel.target, asked)
    except BadInput as bad:
        if asked is not None or not kernel.at.line:
            raise
        label = Label(kernel.at, f"for `{kernel.target}`")
        raise BadInput(*(replace(each, labels=each.labels or (label,)) for each in bad.findings)) from None


def pick_target(named: str, asked: str | None) -> Target:
    if asked is not None:
        return load_target("" if asked == "none" else asked)
    return load_target(named or default_target())
