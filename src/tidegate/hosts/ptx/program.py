"""The kernels of a PTX file as programs: a graph each, for one shape of the block.

Needs   a module, the shape of the block, a target
Gives   for each kernel its graph, and what is to be said of it
Keeps   what is not modelled is said, and nothing is proved then; a shape is never guessed
Cost    that of exploring each kernel
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod
from pathlib import PurePath

from tidegate.assumptions import (
    ALIGNED,
    AS_ONE,
    COMPILER_ORDER,
    IN_RANGE,
    LAUNCH,
    NO_ALIAS,
    NO_OVERFLOW,
    UNIFORM,
    Assumption,
)
from tidegate.diag import NOWHERE, BadInput, Finding, Label, Span, closest
from tidegate.graph.model import SyncGraph
from tidegate.graph.plan import Change, Delete, Edit, Plan
from tidegate.hints import in_ptx
from tidegate.hosts.isa import model as m
from tidegate.hosts.isa import nodes as n
from tidegate.hosts.isa.build import Launch, build_graph
from tidegate.hosts.isa.edits import Spelled, TextEdit
from tidegate.hosts.isa.explore import explore_code
from tidegate.hosts.isa.gaps import Use
from tidegate.hosts.isa.launching import choose_shape, shape_text
from tidegate.hosts.isa.saying import doubled_said, exact_said, findings_of, reasons_of, with_lines
from tidegate.hosts.isa.sources import Place, find_places, place_at
from tidegate.hosts.ptx import model as p
from tidegate.hosts.ptx.demangle import short_name
from tidegate.hosts.ptx.global_order import find_global_order, successors_of
from tidegate.hosts.ptx.launched import given_by
from tidegate.hosts.ptx.lower import lower
from tidegate.hosts.ptx.lower_products import with_products
from tidegate.hosts.ptx.parse import parse_ptx
from tidegate.hosts.ptx.uses import uses_of
from tidegate.hosts.ptx.write import MEETINGS, is_synchronization, own_text, write_ptx
from tidegate.targets import Target, known_targets, load_target

GRID = ("%ctaid", "%nctaid")


@dataclass(frozen=True, slots=True)
class Ptx:
    """A file: its module, and the kernel that is meant; an empty name means all.

    `grid`: how many blocks the launch has in each direction, if that is known.
    `notes`: what more is to be said of places in a function; `by`: the compiler, where the file is no PTX itself;
    `arguments`: values of parameters, by number from 0 or by name, as the launch will pass them.
    """

    file: str
    text: str
    module: p.Module
    chosen: str = ""
    block: tuple[int, ...] = ()
    grid: tuple[int, ...] = ()
    notes: Mapping[tuple[str, Span], tuple[str, ...]] = field(default_factory=dict)
    by: str = ""
    arguments: Mapping[str, int] = field(default_factory=dict)

    @property
    def kernels(self) -> tuple[p.Function, ...]:
        return tuple(each for each in self.module.entries if self.chosen in ("", each.name))

    def shown(self, name: str) -> str:
        """A kernel's name as C++ writes it, where no other is called so."""
        short = short_name(name)
        alike = [each for each in self.module.entries if short_name(each.name) == short]
        return short if len(alike) == 1 else name


@dataclass(frozen=True)
class PtxProgram:
    """One kernel of a file, for one shape of the block."""

    ptx: Ptx
    function: p.Function
    target: Target
    launch: Launch
    code: m.Code
    explored: n.Explored
    graph: SyncGraph
    named: str = ""  # the target that the file names, where the one taken is another

    @property
    def name(self) -> str:
        return self.ptx.shown(self.function.name)

    @property
    def said(self) -> tuple[str, ...]:
        found = [f"for blocks of {shape_text(self.launch.shape)} threads, {self.launch.waves} warps"]
        if self.ptx.grid:
            blocks = prod(self.ptx.grid)
            found.append(f"for grids of {shape_text(self.ptx.grid)} block{'s' * (blocks != 1)}")
        if self.ptx.arguments:
            given = ", ".join(f"{name} = {value}" for name, value in self.ptx.arguments.items())
            found.append(f"for launches with argument{'s' * (len(self.ptx.arguments) > 1)} {given}")
        if self.ptx.by:
            found.append(f"compiled by {self.ptx.by} for {self.ptx.module.target}")
        if self.named:
            found.append(self.retargeted)
        found += exact_said(self.explored)
        if self.graph.lanes < self.launch.lanes:
            found.append(f"lanes meet in groups of {self.graph.lanes}, which are treated as waves")
        found += doubled_said(self.explored, "warp")
        return tuple(found)

    @property
    def retargeted(self) -> str:
        return f"the file names `{self.named}`; treated as `{self.target.name}`" if self.named else ""

    @property
    def assumed(self) -> frozenset[Assumption]:
        doubled = (AS_ONE,) if self.explored.doubled else ()
        return frozenset((NO_ALIAS, IN_RANGE, COMPILER_ORDER, LAUNCH, NO_OVERFLOW, ALIGNED, UNIFORM, *doubled))

    @property
    def is_final(self) -> bool:
        return False

    @cached_property
    def unmodelled(self) -> tuple[str, ...]:
        found = reasons_of(self.explored)
        if self.function.clusters:
            found["blocks of a cluster, which are not modelled"] = None
        return tuple(found)

    def findings(self) -> list[Finding]:
        return findings_of(self.explored)

    @cached_property
    def held(self) -> frozenset[Span]:
        """Barriers that may order global memory, of which no graph knows."""
        return find_global_order(self.function, {each.name: each.space for each in self.ptx.module.variables})

    # --- its text, and how it can be changed ---

    @property
    def text(self) -> str:
        return self.ptx.text

    @property
    def body(self) -> tuple[p.Instruction | p.Label, ...]:
        return self.function.body

    @property
    def successors(self) -> list[list[int]]:
        return successors_of(self.body)

    @property
    def uses(self) -> list[Use]:
        return uses_of(self.body)

    @property
    def why_left(self) -> str:
        """Why its text is not changed."""
        return "CUDA source is not rewritten" if self.ptx.by else ""

    @property
    def spelled(self) -> Spelled:
        return Spelled(
            ("bar.sync 0;",), ("bar.warp.sync -1;",), (), (("cp.async.wait_group 0;",), ("cp.async.wait_all;",))
        )

    @cached_property
    def instructions(self) -> dict[Span, p.Instruction]:
        """By their places. In CUDA source several stand in one."""
        return {each.at: each for each in self.function.body if isinstance(each, p.Instruction)}

    def possible(self, plan: Plan) -> Plan:
        """Without edits of barriers that give a result, that may order global memory, or that bring lanes together
        for instructions which ask for that; without waits that go: how copies end that nobody waits for is not said."""

        def stays(edit: Edit) -> bool:
            at = self.graph.points[edit.point].at if isinstance(edit, Delete | Change) else NOWHERE
            item = self.instructions.get(at)
            if item is None or at in self.held or not is_synchronization(item):
                return True
            if isinstance(edit, Delete):
                return item.opcode == "cp" or ("warp" in item.modifiers and self.needs_lanes)
            return "wait_group" not in item.modifiers

        return Plan(tuple(each for each in plan.edits if not stays(each)))

    @cached_property
    def needs_lanes(self) -> bool:
        """Whether some instruction asks that the lanes of a warp come to it together, or who is there."""
        found = (each for each in self.function.body if isinstance(each, p.Instruction) and each.opcode not in MEETINGS)
        return any("aligned" in each.modifiers or each.opcode == "activemask" for each in found)

    def keeps_order(self, gone: frozenset[Span], own: frozenset[Span] = frozenset()) -> bool:
        """Barriers that may order global memory are held one by one."""
        return True

    def own_text(self, at: Span) -> str:
        return own_text(self.text, at)

    def written(self, edits: Sequence[TextEdit]) -> str:
        return write_ptx(self.text, edits)

    def rewritten(self, edits: Sequence[TextEdit]) -> PtxProgram:
        """This kernel, as it is read from the text with these edits."""
        text = write_ptx(self.ptx.text, edits)
        ptx = replace(self.ptx, text=text, module=parse_ptx(text, self.ptx.file), chosen=self.function.name)
        return next(iter(programs_of(ptx, self.target.name)))

    def with_sources(self, finding: Finding) -> Finding:
        """With the lines of the PTX, if it stands in the source, or of the source, if it stands in the PTX."""
        if not self.ptx.notes:
            return in_ptx(with_lines(finding, self._places))
        places = dict.fromkeys(each.at for each in finding.labels)
        more = dict.fromkeys(note for at in places for note in self.ptx.notes.get((self.function.name, at), ()))
        finding = in_ptx(finding)
        return replace(finding, notes=(*finding.notes, *more)) if more else finding

    def beside(self, at: Span) -> str:
        """The statement of the kernel, whatever functions were inlined there."""
        place = self.place_of(at)
        outer = place.chain[-1] if place is not None else None
        return f"{PurePath(outer.file).name}:{outer.line}" if outer is not None and outer.line else ""

    def place_of(self, at: Span) -> Place | None:
        """Where an instruction comes from, as its compiler notes in PTX that was given as such."""
        return None if self.ptx.notes else place_at(self._places, at.line)

    @cached_property
    def _places(self) -> list[Place | None]:
        return find_places(self.ptx.text)


def programs_of(ptx: Ptx, asked: str | None) -> list[PtxProgram]:
    """Each kernel of a file; raises `BadInput` where its block has no shape."""
    target, named = _target(ptx.module.target, asked)
    target = with_products(target)
    return [_program(ptx, each, target, named) for each in ptx.kernels]


def _program(ptx: Ptx, function: p.Function, target: Target, named: str) -> PtxProgram:
    launch = Launch(_shape(ptx, function), target.lanes or 32)
    code = lower(function, ptx.module, target.lds.bytes or 232448)
    given, ranges = given_by(launch, code, function, _arguments(ptx, function), _grid(ptx, function))
    explored = explore_code(code, given, ranges, launch.lanes)
    group = _group(code, explored, launch)
    if group < launch.lanes:
        explored = explore_code(code, given, ranges, launch.lanes, group)
    graph = build_graph(code, explored, replace(launch, lanes=group), target)
    return PtxProgram(ptx, function, target, launch, code, explored, graph, named)


def _group(code: m.Code, explored: n.Explored, launch: Launch) -> int:
    """How many lanes stand for a wave in the graph: those of the tiles in which the lanes of a warp meet.

    Whoever is ordered as a wave of its own is ordered as a part of one. Where some barriers are for whole warps, or
    lanes read for each other, the warp is the wave, and barriers of tiles order nothing.
    """
    whole = any(isinstance(op.action, m.Touch) and op.action.collective for op in code.ops)
    if whole or len(explored.tiles) != 1 or launch.threads % launch.lanes:
        return launch.lanes
    (size,) = explored.tiles
    return size or launch.lanes


def _shape(ptx: Ptx, function: p.Function) -> tuple[int, ...]:
    """What the launch says, and the text: `.reqntid` is a demand (11.4)."""
    return choose_shape(ptx.shown(function.name), function.at, ptx.block, function.threads, function.most)


def _arguments(ptx: Ptx, function: p.Function) -> dict[str, int]:
    """Values of parameters by their names in the text; raises `BadInput` for one that is not there or does not fit."""
    found: dict[str, int] = {}
    params = {each.name: each for each in function.params}
    for key, value in ptx.arguments.items():
        name = function.params[int(key)].name if key.isdigit() and int(key) < len(function.params) else key
        name = name if name in params else f"{function.name}_{key}"
        if name not in params:
            has = f"`{ptx.shown(function.name)}` has {len(function.params)} parameters"
            help_ = f"by number, 0 to {len(function.params) - 1}" if function.params else ""
            raise BadInput(Finding("TG022", f"{has}, none of them is `{key[:80]}`", (Label(function.at),), help=help_))
        size = params[name].bytes
        if size not in (1, 2, 4, 8) or not 0 <= value < 1 << 8 * size - 1:
            said = f"argument `{key}` of `{ptx.shown(function.name)}` has {size} bytes, and cannot be {value}"
            help_ = "an integer from 0 that fits with its sign"
            raise BadInput(Finding("TG022", said, (Label(function.at),), help=help_))
        found[name] = value
    return found


def _grid(ptx: Ptx, function: p.Function) -> tuple[int, ...]:
    """Raises `BadInput` for a kernel that does not ask: the verdict would name a grid on which it does not depend."""
    asks = any(
        each.name.startswith(GRID)
        for item in function.body
        if isinstance(item, p.Instruction)
        for each in item.operands
        if isinstance(each, p.Name)
    )
    if ptx.grid and not asks:
        said = f"`--grid` has no effect: `{ptx.shown(function.name)}` does not ask how many blocks there are"
        help_ = "leave it out: what is proved holds for any number of blocks"
        raise BadInput(Finding("TG022", said, (Label(function.at),), help=help_))
    return ptx.grid


def _target(named: str, asked: str | None) -> tuple[Target, str]:
    """The target of a file: what is written for an architecture runs on those after it (PTX ISA 11.1.2)."""
    if asked is not None:
        target = load_target("" if asked == "none" else asked)
        if target.vendor != "NVIDIA":
            raise BadInput(Finding("TG007", f"PTX is for NVIDIA GPUs, and `{asked}` is not one"))
        return target, named if target.name != named else ""
    nvidia = sorted((each for each in map(load_target, known_targets()) if each.vendor == "NVIDIA"), key=_number)
    wanted = _digits(named)
    target = next((each for each in reversed(nvidia) if _number(each) <= wanted), nvidia[0])
    return target, named if target.name != named else ""


def _number(target: Target) -> int:
    return _digits(target.name)


def _digits(name: str) -> int:
    return int("".join(re.findall("[0-9]", name))[:9] or 0)


def pick(ptx: Ptx, name: str) -> str:
    """The kernel that a name means, mangled or not, or the only one with this part; raises `BadInput` if none is."""
    known = [each.name for each in ptx.module.entries]
    wanted = name.replace(" ", "")
    for called in (_itself, _short, _plain):
        found = [each for each in known if called(each) == wanted]
        if found:
            return _only(ptx, name, found)
    found = [each for each in known if wanted in each or wanted in _short(each)]
    if found:
        return _only(ptx, name, found)
    shown = {ptx.shown(each): each for each in known}
    meant = closest(name, shown)
    help_ = f"did you mean `{meant}`?" if meant else f"it holds: {', '.join(shown) or 'no kernel'}"
    raise BadInput(Finding("TG007", f"the file has no kernel `{name}`", (), help=help_))


def _only(ptx: Ptx, name: str, found: list[str]) -> str:
    if len(found) == 1:
        return found[0]
    help_ = f"name one of them: {', '.join(map(ptx.shown, found))}"
    raise BadInput(Finding("TG007", f"`{name}` may be any of {len(found)} kernels", (), help=help_))


def _itself(name: str) -> str:
    return name


def _short(name: str) -> str:
    return short_name(name).replace(" ", "")


def _plain(name: str) -> str:
    """Without namespaces and template arguments."""
    return short_name(name).partition("<")[0].rpartition("::")[2]
