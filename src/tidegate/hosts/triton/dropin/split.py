"""Triton's stage that makes LLVM IR, with someone else in the place of its barrier pass.

Needs   a backend of Triton 3.9 and the options of one compilation
Gives   the stage that Triton would run, except that where its barrier pass stands a `Placer` is asked for the new text
        of the module; where it has none, Triton's own pass runs
Keeps   every other pass, with its arguments and in its order; Triton's modules are not changed: the stage is the same
        code with other globals; locations survive, since text is printed and parsed with them
Cost    printing and parsing the module once

    prefix of passes ─▶ text ─▶ placer ─▶ text ─▶ the rest        a placer that gives a text
    prefix of passes ─▶ text ─▶ placer, Triton's pass ─▶ the rest        one that gives none
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from types import FunctionType, ModuleType
from typing import Any, Protocol

from tidegate.hosts.triton.libtriton import parse_in, target_named

Stage = Callable[[Any, dict[str, Any]], Any]

BARRIER_PASS = "add_membar"
# What the stage takes from its module, and is given otherwise here.
_INSTRUMENT = "instrument"
_OWN = {"cuda": "nvidia", "hip": "amd"}


@dataclass(frozen=True, slots=True)
class Given:
    """A module where Triton's barrier pass would run."""

    kernel: str
    text: str  # in Triton's own syntax, with locations
    metadata: dict[str, Any]  # of the compilation; Triton keeps it beside what it compiles
    target: str = ""  # as Triton writes it: `cuda:90`


class Placer(Protocol):
    """Who places barriers."""

    def place(self, given: Given) -> str | None:
        """The module's new text; None leaves it to Triton's own pass."""

    def placed(self, given: Given, text: Callable[[], str]) -> None:
        """Told after Triton's own pass has run; `text` gives the module then."""


class Unsplittable(Exception):
    """The stage is not the one that is known here."""


def split_stage(backend: Any, options: Any, capability: Any, placer: Placer) -> Stage:
    """The stage `llir` of a backend with a placer in it."""
    kind = backend.target.backend
    make = getattr(backend.make_llir, "__func__", backend.make_llir)
    if not isinstance(make, FunctionType) or any(name not in make.__globals__ for name in (*_taken(kind), _INSTRUMENT)):
        raise Unsplittable(f"the stage `llir` of Triton's backend `{kind}` is not the one that is known")
    before = (backend,) if hasattr(backend.make_llir, "__self__") else ()
    after = (options,) if capability is None else (options, capability)

    def stage(source: Any, metadata: dict[str, Any]) -> Any:
        module = _Module(source)
        run = _Run(placer, metadata)
        split = FunctionType(make.__code__, run.globals_for(make.__globals__, kind), make.__name__, make.__defaults__)
        split.__kwdefaults__ = make.__kwdefaults__
        return split(*before, module, metadata, *after)

    return stage


def _taken(kind: str) -> tuple[str, ...]:
    """The modules of libtriton that the stage uses."""
    return ("ir", "passes", "llvm", _OWN.get(kind, "?"))


# --- what stands in for parts of libtriton ------------------------------------------------------------------------


class _Module:
    """A module that may be exchanged for another one on its way through the stage."""

    def __init__(self, real: Any) -> None:
        self.real = real

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)

    def read(self, text: str) -> None:
        """Goes on with what a text says, in the same context."""
        self.real = parse_in(text, self.real.context)


@dataclass(slots=True)
class _Run:
    """One run of the stage."""

    placer: Placer
    metadata: dict[str, Any]

    def globals_for(self, real: dict[str, Any], kind: str) -> dict[str, Any]:
        taken = {name: _Names(real[name]) for name in _taken(kind)}
        manager = real["ir"].pass_manager
        taken["ir"].own["pass_manager"] = lambda context: _Manager(self, manager, context)
        to_module = real["llvm"].to_module
        taken["llvm"].own["to_module"] = lambda module, *args: to_module(getattr(module, "real", module), *args)
        return {**real, **taken, _INSTRUMENT: _recorded(real[_INSTRUMENT])}


class _Names:
    """A module of libtriton; what takes a pass manager there is put down, and called later."""

    def __init__(self, real: ModuleType) -> None:
        self.real = real
        self.own: dict[str, Any] = {}

    def __getattr__(self, name: str) -> Any:
        if name in self.own:
            return self.own[name]
        found = getattr(self.real, name)
        if isinstance(found, ModuleType):
            return _Names(found)
        return _recorded(found) if callable(found) and not isinstance(found, type) else found


def _recorded(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        if args and isinstance(args[0], _Manager):
            args[0].calls.append((function, args[1:], kwargs))
            return None
        return function(*args, **kwargs)

    return call


Call = tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]


@dataclass(slots=True)
class _Manager:
    """A pass manager that is filled when it runs."""

    run_of: _Run
    make: Callable[[Any], Any]
    context: Any
    calls: list[Call] = field(default_factory=list)
    debug: bool = False

    def enable_debug(self) -> None:
        self.debug = True

    def run(self, module: _Module, name: str) -> None:
        places = [number for number, call in enumerate(self.calls) if getattr(call[0], "__name__", "") == BARRIER_PASS]
        if len(places) != 1:  # a manager without barriers: as it is
            self.carry_out(self.calls, module, name)
            return
        at = places[0]
        self.carry_out(self.calls[:at], module, name)
        run = self.run_of
        real = module.real
        given = Given(module.get_entry_func_name(), str(real.str()), run.metadata, target_named(real))
        text = run.placer.place(given)
        if text is None:
            self.carry_out(self.calls[at : at + 1], module, name)
            run.placer.placed(given, lambda: str(module.real.str()))
        elif text != given.text:
            module.read(text)
        self.carry_out(self.calls[at + 1 :], module, name)

    def carry_out(self, calls: list[Call], module: _Module, name: str) -> None:
        manager = self.make(self.context)
        if self.debug:
            manager.enable_debug()
        for function, args, kwargs in calls:
            function(manager, *args, **kwargs)
        manager.run(module.real, name)
