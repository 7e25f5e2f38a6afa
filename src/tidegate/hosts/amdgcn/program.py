"""The kernels of an assembly as programs: a graph each, for one shape of the block.

Needs   an assembly, the shape of the block where its metadata does not say it
Gives   for each kernel its graph, and what is to be said of it
Keeps   what is not modelled is said, and nothing is proved then; a shape is never guessed
Cost    that of exploring each kernel
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import PurePath

import numpy as np

from tidegate.assumptions import AS_ONE, IN_RANGE, LAUNCH, NO_ALIAS, NO_OVERFLOW, UNIFORM, Assumption
from tidegate.diag import NOWHERE, BadInput, Finding, Label, Span, closest
from tidegate.footprint.arithmetic import Range
from tidegate.graph.model import SyncGraph
from tidegate.graph.plan import Change, Delete, Edit, Plan
from tidegate.hosts.amdgcn import model as a
from tidegate.hosts.amdgcn.facts import find_facts
from tidegate.hosts.amdgcn.held import find_held, find_successors, unordered
from tidegate.hosts.amdgcn.lower import lower
from tidegate.hosts.amdgcn.needs import Needs
from tidegate.hosts.amdgcn.parse import parse_amdgcn
from tidegate.hosts.amdgcn.starts import Starts
from tidegate.hosts.amdgcn.uses import uses_of
from tidegate.hosts.amdgcn.write import own_text, write_amdgcn
from tidegate.hosts.isa import model as m
from tidegate.hosts.isa import nodes as n
from tidegate.hosts.isa.blocks import find_blocks
from tidegate.hosts.isa.build import Launch, build_graph
from tidegate.hosts.isa.edits import Spelled, TextEdit
from tidegate.hosts.isa.explore import explore_code
from tidegate.hosts.isa.gaps import Use
from tidegate.hosts.isa.launching import AXES, MOST_THREADS, choose_shape, full_shape, shape_text
from tidegate.hosts.isa.saying import doubled_said, exact_said, findings_of, reasons_of, with_lines
from tidegate.hosts.isa.sources import Place, find_places, place_at
from tidegate.hosts.isa.values import Value, number, symbol
from tidegate.index import WORKGROUP, Name
from tidegate.targets import Target, load_target


@dataclass(frozen=True, slots=True)
class Amdgcn:
    """A file: its assembly, and the kernel that is meant; an empty name means all.

    `arguments`: values of parameters by their offset in bytes, as the launch will pass them.
    """

    file: str
    text: str
    assembly: a.Assembly
    chosen: str = ""
    block: tuple[int, ...] = ()
    arguments: Mapping[str, int] = field(default_factory=dict)

    @property
    def kernels(self) -> tuple[a.KernelText, ...]:
        return tuple(each for each in self.assembly.kernels if self.chosen in ("", each.name))


@dataclass(frozen=True)
class AmdgcnProgram:
    """One kernel of a file, for one shape of the block. `assumed_shape`: that of the metadata's largest block."""

    amdgcn: Amdgcn
    kernel: a.KernelText
    target: Target
    launch: Launch
    code: m.Code
    explored: n.Explored
    graph: SyncGraph
    named: str = ""  # the target that the file names, where the one taken is another
    from_metadata: bool = False

    @property
    def name(self) -> str:
        return self.kernel.name

    @property
    def said(self) -> tuple[str, ...]:
        shape = shape_text(self.launch.shape)
        metadata = ", as its metadata says" if self.from_metadata else ""
        found = [f"for blocks of {shape} threads, {self.launch.waves} waves{metadata}"]
        found += [self.retargeted] if self.named else []
        return (*found, *exact_said(self.explored), *doubled_said(self.explored, "wave"))

    @property
    def retargeted(self) -> str:
        return f"the file names `{self.named}`; treated as `{self.target.name}`" if self.named else ""

    @property
    def assumed(self) -> frozenset[Assumption]:
        doubled = (AS_ONE,) if self.explored.doubled else ()
        return frozenset((NO_ALIAS, IN_RANGE, LAUNCH, NO_OVERFLOW, UNIFORM, *doubled))

    @property
    def is_final(self) -> bool:
        return True

    @cached_property
    def unmodelled(self) -> tuple[str, ...]:
        found = reasons_of(self.explored)
        if self.launch.threads % self.launch.lanes:  # masks and their opposites are those of full waves here
            found["a block whose last wave is not full"] = None
        return tuple(found)

    def findings(self) -> list[Finding]:
        return findings_of(self.explored)

    @cached_property
    def held(self) -> frozenset[Span]:
        return find_held(self.kernel)

    def needs(self, gone: frozenset[Span] = frozenset()) -> Needs:
        """What its waits are for beside shared memory, without some barriers."""
        body = tuple(each for each in self.kernel.body if each.at not in gone)
        return Needs(body, self.target, self._meets_together)

    def keeps_order(self, gone: frozenset[Span], own: frozenset[Span] = frozenset()) -> bool:
        """Whether without these barriers no read of global memory comes together with a write behind it.

        `own`: barriers that were not there before.

        Where waves come to different barriers, places say nothing about who is ahead of whom.
        """
        if gone <= own:
            return True
        return self._meets_together and unordered(self.kernel, gone | own) <= unordered(self.kernel, own)

    @cached_property
    def _meets_together(self) -> bool:
        """Whether all waves come to the same barriers, as far as exploring shows."""
        blocks = find_blocks(self.code).blocks
        meeting = {
            number
            for number, block in enumerate(blocks)
            if any(isinstance(op.action, m.Meet) for op in self.code.ops[block.first : block.last])
        }
        return all(self.explored.apart.get(each) is False for each in meeting)

    # --- its text, and how it can be changed ---

    @property
    def text(self) -> str:
        return self.amdgcn.text

    @property
    def body(self) -> tuple[a.AsmLine | a.Mark, ...]:
        return self.kernel.body

    @property
    def successors(self) -> list[list[int]]:
        return find_successors(self.body)

    @property
    def uses(self) -> list[Use]:
        starts = Starts(self.kernel, self.launch.lanes, self.target.barrier.split)
        return uses_of(self.body, find_facts(self.body, self.launch.lanes, starts.arguments))

    @property
    def why_left(self) -> str:
        """Why its text is not changed."""
        return ""

    @property
    def spelled(self) -> Spelled:
        def wait(operation: str) -> tuple[str, ...]:
            counter = self.target.counter_of(operation)
            new = self.target.barrier.split
            return (f"s_wait_{counter} 0x0" if new else f"s_waitcnt {counter}(0)",) if counter else ()

        barrier = ("s_barrier_signal -1", "s_barrier_wait -1") if self.target.barrier.split else ("s_barrier",)
        copies = [wait(each) for each in ("gather_to_lds", "tensor_load_to_lds")]
        return Spelled(barrier, (), (wait("local_read"),), tuple(each for each in copies if each))

    def possible(self, plan: Plan) -> Plan:
        """Without edits of barriers that may order global memory; waits are asked for one by one (`needs`)."""

        def stays(edit: Edit) -> bool:
            at = self.graph.points[edit.point].at if isinstance(edit, Delete | Change) else NOWHERE
            return not at.line or at in self.held

        return Plan(tuple(each for each in plan.edits if not stays(each)))

    def own_text(self, at: Span) -> str:
        return own_text(self.text, at)

    def written(self, edits: Sequence[TextEdit]) -> str:
        return write_amdgcn(self.text, edits)

    def rewritten(self, edits: Sequence[TextEdit]) -> AmdgcnProgram:
        """This kernel, as it is read from the text with these edits."""
        text = write_amdgcn(self.text, edits)
        assembly = parse_amdgcn(text, self.amdgcn.file)
        amdgcn = replace(self.amdgcn, text=text, assembly=assembly, chosen=self.kernel.name)
        return next(iter(programs_of(amdgcn, self.target.name)))

    def place_of(self, at: Span) -> Place | None:
        return place_at(self._places, at.line)

    def with_sources(self, finding: Finding) -> Finding:
        return with_lines(finding, self._places)

    def beside(self, at: Span) -> str:
        """The statement that an instruction comes from."""
        place = place_at(self._places, at.line)
        return f"{PurePath(place.file).name}:{place.line}" if place is not None else ""

    @cached_property
    def _places(self) -> list[Place | None]:
        return find_places(self.amdgcn.text)


def programs_of(amdgcn: Amdgcn, asked: str | None) -> list[AmdgcnProgram]:
    """Each kernel of a file; raises `BadInput` where its block has no shape."""
    target, named = _target(amdgcn.assembly.target, asked)
    return [_program(amdgcn, each, target, named) for each in amdgcn.kernels]


def target_of(amdgcn: Amdgcn, asked: str | None = None) -> Target:
    return _target(amdgcn.assembly.target, asked)[0]


def _target(named: str, asked: str | None) -> tuple[Target, str]:
    """Instructions are those of one generation: the target that the file names, or one that is asked for."""
    if asked is None and not named:
        help_ = "name it, as in `--target gfx942`"
        raise BadInput(Finding("TG007", "the file names no AMD GPU", (), help=help_))
    wanted = asked if asked is not None else named
    target = load_target("" if wanted == "none" else wanted)
    if target.vendor != "AMD":
        raise BadInput(Finding("TG007", f"this is assembly for AMD GPUs, and `{wanted}` is not one"))
    return target, named if named not in ("", target.name, *target.aliases) else ""


def _program(amdgcn: Amdgcn, kernel: a.KernelText, target: Target, named: str) -> AmdgcnProgram:
    shape, from_metadata = _shape(amdgcn, kernel)
    launch = Launch(shape, _lanes(kernel, target))
    starts = Starts(kernel, launch.lanes, target.barrier.split)
    code = lower(kernel, target, starts, amdgcn.assembly.arrays)
    given, ranges = given_by(launch, code, _arguments(amdgcn, kernel))
    explored = explore_code(code, given, ranges, launch.lanes)
    graph = build_graph(code, explored, launch, target)
    return AmdgcnProgram(amdgcn, kernel, target, launch, code, explored, graph, named, from_metadata)


def _lanes(kernel: a.KernelText, target: Target) -> int:
    if (narrow := kernel.settings.get("wavefront_size32")) is not None:
        return 32 if narrow else 64
    (stated,) = kernel.facts.get("wavefront_size", ())[:1] or (target.lanes,)
    return stated if stated in (32, 64) else target.lanes


def _shape(amdgcn: Amdgcn, kernel: a.KernelText) -> tuple[tuple[int, ...], bool]:
    """A demand of the text; or else the largest block that it is compiled for, if its author has set one.

    1024 is what compilers take where nobody says anything; and how threads are numbered is not known where a kernel
    looks at more than one axis.
    """
    wanted = kernel.facts.get("reqd_workgroup_size", ())
    wanted = wanted if len(wanted) == 3 else ()
    most = kernel.facts.get("max_flat_workgroup_size", ())[:1]
    one_axis = not kernel.settings.get("system_vgpr_workitem_id", 0)
    from_metadata = not (amdgcn.block or wanted) and bool(most) and one_axis and most != (MOST_THREADS,)
    asked = most if from_metadata else amdgcn.block
    return choose_shape(kernel.name, kernel.at, asked, wanted, most), from_metadata


def _arguments(amdgcn: Amdgcn, kernel: a.KernelText) -> dict[str, int]:
    """By the offset of their words; raises `BadInput` for one that is not there."""
    size = kernel.settings.get("kernarg_size", 0)
    found: dict[str, int] = {}
    for key, value in amdgcn.arguments.items():
        place = int(key, 0) if key.isdigit() else -1
        if not 0 <= place < max(size, 1) or place % 4 or not 0 <= value < 1 << 31:
            help_ = "an argument of 32 bits by its offset in bytes, and an integer from 0: `--arg 24=4096`"
            said = f"`{kernel.name}` has arguments of {size} bytes, and no `{key[:80]}` that can be {value}"
            raise BadInput(Finding("TG022", said, (Label(kernel.at),), help=help_))
        found[f"param {place}"] = value
    return found


def given_by(launch: Launch, code: m.Code, arguments: Mapping[str, int]) -> tuple[dict[str, Value], dict[str, Range]]:
    """What the hardware and the launch decide."""
    threads, shape = launch.threads, full_shape(launch.shape)
    linear = np.arange(threads, dtype=np.int64)
    lane = linear % launch.lanes
    x, y, z = linear % shape[0], linear // shape[0] % shape[1], linear // (shape[0] * shape[1])
    found = {
        "%packed0": number(x, threads),
        "%packed1": number(x | y << 10, threads),
        "%packed2": number(x | y << 10 | z << 20, threads),
        "%laneid": number(lane, threads),
        "%wave": number(linear // launch.lanes, threads),
        "%below_low": number(np.minimum(lane, 32), threads),
        "%below_high": number(np.maximum(lane - 32, 0), threads),
    }
    most = (1 << 31) - 1
    ranges: dict[str, Range] = {}
    for place, axis in enumerate(AXES):
        found[f"%ctaid.{axis}"] = symbol(Name(WORKGROUP[place]), threads)
        ranges[WORKGROUP[place]] = (0, most if axis == "x" else 65535)
    for each in sorted(
        {each.name for op in code.ops for each in m.operands_of(op.action) if isinstance(each, m.Given)}
    ):
        if each in arguments:
            found[each] = number(arguments[each], threads)
        elif each.startswith("param "):
            found[each] = symbol(Name(f"%arg_{each.removeprefix('param ').replace('-', 'm')}"), threads)
    return found, ranges


def pick(amdgcn: Amdgcn, name: str) -> str:
    """The kernel that a name means, or the only one with this part; raises `BadInput` if none is."""
    known = [each.name for each in amdgcn.assembly.kernels]
    found = [each for each in known if each == name] or [each for each in known if name in each]
    if len(found) == 1:
        return found[0]
    if found:
        help_ = f"name one of them: {', '.join(found)}"
        raise BadInput(Finding("TG007", f"`{name}` may be any of {len(found)} kernels", (), help=help_))
    meant = closest(name, known)
    help_ = f"did you mean `{meant}`?" if meant else f"it holds: {', '.join(known) or 'no kernel'}"
    raise BadInput(Finding("TG007", f"the file has no kernel `{name}`", (), help=help_))
