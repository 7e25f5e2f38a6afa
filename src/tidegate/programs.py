"""A program in whatever form a user holds it.

Needs   a kernel, a module of one, a graph, a trace of Tidegate or of Wave, the path of a file, or what `sync` or
        `schedule` has made
Gives   `Opened`: the session of that program, and the text that its places refer to
Keeps   anything else is `BadInput` that says what to give instead; only Python files are executed
Cost    that of reading the file, or of the graph of a Wave trace
"""

from __future__ import annotations

import os
import sys
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

from tidegate.allowing import check_allowed, with_allowed
from tidegate.diag import BadInput, Finding, Sources
from tidegate.graph.build import KernelGraph
from tidegate.graph.model import SyncGraph
from tidegate.language.ops import Kernel, Module
from tidegate.language.trace import CapturedTrace, KernelFunction
from tidegate.session import Session, pick_target, sessions_of
from tidegate.targets import Target

if TYPE_CHECKING:
    from tidegate.files import Loaded
    from tidegate.hosts.cuda.options import CudaOptions
    from tidegate.hosts.wave.dropin.checking import WaveProgram

TAKES = "give a kernel, a graph, a trace, or the path of a file"


class WaveTrace(Protocol):
    """What is used of Wave's `CapturedTrace`, which is not imported for it."""

    def get_root_graph(self) -> Any: ...


class Made(Protocol):
    """What `sync` and `schedule` give: with the program that came of it, if there is one."""

    @property
    def session(self) -> Session | None: ...


KernelLike = Kernel | CapturedTrace | KernelFunction
Program = KernelLike | Module | KernelGraph | SyncGraph | Made | WaveTrace | str | os.PathLike[str]


@dataclass(frozen=True, slots=True)
class Opened:
    """`loaded`, `where`: of a program from a file. `wave`: of a trace of Wave."""

    session: Session
    sources: Sources = field(default_factory=Sources)
    loaded: Loaded | None = None
    where: str = ""
    wave: WaveProgram | None = None

    @property
    def text(self) -> str:
        """That of the file; empty if there is none, and for Python, where a kernel has no text of its own."""
        if self.loaded is None or Path(self.loaded.file).suffix.lower() == ".py":
            return ""
        return self.loaded.sources.texts.get(self.loaded.file, "")


def open_program(
    program: Program,
    target: str | Target | None = None,
    *,
    as_compiled: bool = True,
    takes: Container[str] = (),
    block: str | None = None,
    cuda: CudaOptions | None = None,
    constraints: Iterable[Any] | None = None,
    subs: Mapping[Any, Any] | None = None,
    allow: Iterable[str] = (),
) -> Opened:
    """`as_compiled`, `takes`, `block`, `cuda`: see `files.load`. `constraints`, `subs`: see `wave.check`.
    `allow`: codes of findings that are turned down.
    """
    allowed = check_allowed(allow)
    opened = _opened(program, target, as_compiled, takes, block, cuda, constraints, subs)
    facts = with_allowed(opened.session.target, allowed)
    return replace(opened, session=replace(opened.session, target=facts)) if allowed else opened


def _opened(
    program: Program,
    target: str | Target | None,
    as_compiled: bool,
    takes: Container[str],
    block: str | None,
    cuda: CudaOptions | None,
    constraints: Iterable[Any] | None,
    subs: Mapping[Any, Any] | None,
) -> Opened:
    if target is not None and not isinstance(target, str | Target):
        refuse(
            f"`{_short(target)}` is not a target", 'give its name, as in `"gfx942"`, or what `tg.load_target` returns'
        )
    wave = trace_of(program)
    if wave is not None:
        return _open_wave(wave, target, constraints, subs)
    if constraints is not None or subs is not None:
        refuse("`constraints` and `subs` belong to traces of Wave", "leave them out")
    if isinstance(program, str | os.PathLike):
        where = os.fspath(program)
        if not isinstance(where, str):
            refuse("the path of a file must be text, not bytes", TAKES)
        return _open_file(where, target, as_compiled=as_compiled, takes=takes, block=block, cuda=cuda)
    if block is not None or cuda is not None:
        refuse(
            "`block` and `cuda` belong to PTX, CUDA and assembly",
            "give the path of a `.ptx`, `.cu` or `.s` file, or leave them out",
        )
    if isinstance(session := getattr(program, "session", None), Session):
        facts = _facts(session.target.name or "none", target) if target is not None else session.target
        if session.origin is not None and facts != session.target:
            refuse("this result was made for another target", "name the target when it is made")
        return Opened(replace(session, target=facts) if facts != session.target else session)
    if hasattr(type(program), "session"):
        refuse("no program came of it", "the result says why: print it")
    if isinstance(program, SyncGraph):
        return Opened(Session(program.name, _facts(program.target, target), None, program))
    kernel = kernel_of(program)
    return Opened(Session(kernel.name, _facts(kernel.target, target), kernel))


def kernel_of(item: object) -> Kernel:
    """The kernel itself."""
    if isinstance(item, KernelFunction):
        item = item.trace()
    if isinstance(item, CapturedTrace | KernelGraph):
        item = item.kernel
    if isinstance(item, Module):
        return _the_only(item)
    if not isinstance(item, Kernel):
        refuse(f"`{type(item).__name__}` is not a kernel", f"{TAKES}; `@tidegate.kernel` makes a kernel of a function")
    return item


def refuse(message: str, help: str) -> NoReturn:
    raise BadInput(Finding("TG022", message, (), help=help))


def _the_only(module: Module) -> Kernel:
    if len(module.kernels) != 1:
        names = ", ".join(each.name for each in module.kernels) or "none"
        refuse(f"the module has {len(module.kernels)} kernels, not one", f"pick one from its `.kernels`: {names}")
    return module.kernels[0]


def _facts(named: str, asked: str | Target | None) -> Target:
    return asked if isinstance(asked, Target) else pick_target(named, asked)


def _short(item: object) -> str:
    text = repr(item)
    return text if len(text) <= 40 else type(item).__name__


# --- files --------------------------------------------------------------------------------------------------------


def _open_file(
    where: str,
    target: str | Target | None,
    *,
    as_compiled: bool,
    takes: Container[str],
    block: str | None,
    cuda: CudaOptions | None,
) -> Opened:
    from tidegate.files import load

    if "\n" in where:
        refuse("this is the text of a program, not the path of a file", "read it with `tg.parse` or `tg.parse_graph`")
    named = (target.name or "none") if isinstance(target, Target) else target
    loaded = load(where, as_compiled=as_compiled, block=block, takes=takes, cuda=cuda, target=named)
    sessions = sessions_of(loaded, named)
    if len(sessions) != 1:
        names = ", ".join(f"`{loaded.file}::{each.name}`" for each in sessions[:3])
        refuse(f"`{loaded.file}` holds {len(sessions)} kernels", f"pick one: {names}")
    (session,) = sessions
    if isinstance(target, Target) and session.target != target:
        if session.origin is not None:  # its graph was made for the target of that name
            refuse(f"the facts of `{target.name}` were changed", "give the path of a target file, as text")
        session = replace(session, target=target)
    return Opened(session, loaded.sources, loaded, where)


# --- Wave ---------------------------------------------------------------------------------------------------------


def trace_of(item: object) -> Any:
    """A trace of Wave, perhaps as `tidegate.wave.traces()` collects it, or None. Nothing is imported to find out."""
    switch = sys.modules.get("tidegate.hosts.wave.dropin.switch")
    if switch is not None and isinstance(item, switch.Traced):
        return item.trace
    of_wave = any(each.__module__.startswith("wave_lang.") for each in type(item).__mro__)
    return item if of_wave and hasattr(item, "get_root_graph") else None


def _open_wave(
    trace: Any, target: str | Target | None, constraints: Iterable[Any] | None, subs: Mapping[Any, Any] | None
) -> Opened:
    from tidegate.hosts.wave.dropin.checking import session_of, trace_program

    name = (target.name or "none") if isinstance(target, Target) else target
    wave = trace_program(trace, name, constraints=constraints, sizes=dict(subs) if subs is not None else None)
    return Opened(session_of(wave), wave=wave)
