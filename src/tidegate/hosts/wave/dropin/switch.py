"""Tidegate in the place of Wave's passes, switched on and off in the running process.

Needs   wave-lang 3.9.1 with torch 2.13.0 and IREE 3.9.0
Gives   `install`, `uninstall`, and for a while `enabled` and `disabled`; `traces`, what a compilation works on
Keeps   Wave's own passes come back as they were; Wave's cache tells apart what was compiled with which options and
        which Tidegate; a mistake of ours never ends somebody's compilation: Wave's own pass runs instead
Cost    nothing while it is switched off

    wave_compile ─▶ LaunchableWave._trace_and_get_kernel_signature ─▶ … schedule_reordering … add_shared_memory_barriers
                    ours: remembers whose constraints these are        ours, if asked     ours
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from tidegate.diag import BadInput, Finding, TidegateError
from tidegate.edition import fingerprint, own_version
from tidegate.hosts.dropin import Modes
from tidegate.hosts.wave.context import Context, context_of
from tidegate.hosts.wave.dropin.checking import remember
from tidegate.hosts.wave.dropin.final import compile_watched, find_doubt
from tidegate.hosts.wave.dropin.passing import Options, Placement, place_barriers
from tidegate.hosts.wave.dropin.records import Entry, record, record_assembly
from tidegate.synchronize import SyncOptions
from tidegate.targets import load_target

# What is known to work together.
TESTED = {"wave-lang": ("3.9.1",), "torch": ("2.13.0",), "iree-base-compiler": ("3.9.0",)}
INSTALL = "`pip install 'tidegate[wave]'`"
STRATEGIES = ("auto", "wave", "none")
ASM = "asm"
VERIFY = (False, True, ASM)


class UnsupportedWave(TidegateError, RuntimeError):
    """Wave is not there, or not in a version that Tidegate knows."""


class NotPlaced(TidegateError, RuntimeError):
    """A loop was reordered for ping-pong, and barriers that are enough under its stagger were not found after all."""


def check_version() -> None:
    """Raises `UnsupportedWave` if this Wave, its torch or its IREE is not known."""
    for package, tested in TESTED.items():
        try:
            found = version(package)
        except PackageNotFoundError:
            raise UnsupportedWave(f"Tidegate needs {package} {tested[0]}, which is not installed: {INSTALL}") from None
        if found.split("+")[0] not in tested:
            raise UnsupportedWave(f"Tidegate knows {package} {' or '.join(tested)}; {found} is installed")


# --- on and off ---------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Compilation:
    """What is being compiled: whose constraints, for which target, and how its loop was reordered."""

    kernel: Any
    options: Any
    schedule: str = ""
    is_reordered: bool = False  # by us: then Wave's own barriers would not do

    @property
    def name(self) -> str:
        return str(getattr(self.kernel, "_name", "") or self.options.func_name or "kernel")


_compiled: ContextVar[_Compilation | None] = ContextVar("compiled", default=None)
_recorded: ContextVar[Entry | None] = ContextVar("recorded", default=None)  # the last trace, till it is assembly
_listeners: list[Callable[[Traced], None]] = []


def install(
    *,
    counts: bool = False,
    schedule: bool | str = False,
    verify: bool | str = True,
    strategy: str = "",
    remove_redundant: bool = False,
) -> None:
    """Replaces Wave's barrier pass for all that this process compiles from now on. Called again, it changes options.

    `counts`: waits for copies leave under way what need not have landed, where Wave waits for all. `schedule`: loops
    are reordered for ping-pong by Tidegate, which takes Wave's strategies or its own, whichever is cheapest (True or
    "auto"), Wave's ("wave"), or so many clusters ("clusters=4"). `verify`: what was put in is proved, as it is read
    back; "asm": so is the assembly that LLVM makes of every kernel. `strategy`: `minimal` or `intersecting`; else what
    fits the target. `remove_redundant`: barriers that stand in the trace already go if nothing needs them. Raises
    `UnsupportedWave` without the versions that are known, `BadInput` for an option that does not exist.
    """
    _modes.install(_options(counts, schedule, verify, strategy, remove_redundant))


def uninstall() -> None:
    """Gives Wave its own passes back. What is compiled already stays as it is."""
    _modes.uninstall()


@contextmanager
def enabled(
    *,
    counts: bool = False,
    schedule: bool | str = False,
    verify: bool | str = True,
    strategy: str = "",
    remove_redundant: bool = False,
) -> Iterator[None]:
    """For a while: `with tidegate.wave.enabled(): wave_compile(options, kernel)`. In all threads."""
    with _modes.during(_options(counts, schedule, verify, strategy, remove_redundant)):
        yield


@contextmanager
def disabled() -> Iterator[None]:
    """For a while Wave's own passes, in a process with Tidegate installed."""
    with _modes.during(None):
        yield


def _options(counts: bool, schedule: bool | str, verify: bool | str, strategy: str, remove_redundant: bool) -> Options:
    check_version()
    SyncOptions(strategy=strategy).check()
    name = schedule if isinstance(schedule, str) else "auto" if schedule else ""
    number = name.removeprefix("clusters=")
    if name and name not in STRATEGIES and not (number != name and number.isdigit() and int(number) > 0):
        help = "`auto`, `wave`, `none` or `clusters=K`"
        raise BadInput(Finding("TG012", f"there is no schedule `{name}`", (), help=help))
    if verify not in VERIFY:
        raise BadInput(Finding("TG022", f"`verify` cannot be {verify!r}", (), help='False, True or "asm"'))
    return Options(counts, name, verify, strategy, remove_redundant)


# --- Wave's passes ------------------------------------------------------------------------------------------------

_own: dict[str, Any] = {}  # Wave's own functions, while ours stand in their places


def _wave() -> Any:
    return import_module("wave_lang.kernel.wave.wave")  # the package's own `wave` is the decorator


def _compiling() -> Any:
    return import_module("wave_lang.kernel.wave.compile")


def _replace_passes() -> None:
    if _own:
        return
    wave, cache = _wave(), import_module("wave_lang.kernel.wave.cache")
    launchable, manager = wave.LaunchableWave, cache.WaveCacheManager
    _own["barriers"] = wave.add_shared_memory_barriers
    _own["schedule"] = wave.schedule_reordering
    _own["trace"] = launchable._trace_and_get_kernel_signature
    _own["hash"] = manager.get_hash
    compiling = _compiling()
    _own["vmfb"], _own["emit"] = compiling.compile_to_vmfb, compiling._generate_asm_code
    compiling.compile_to_vmfb = functools.wraps(_own["vmfb"])(_compile_to_vmfb)
    compiling._generate_asm_code = functools.wraps(_own["emit"])(_emit_assembly)
    wave.add_shared_memory_barriers = functools.wraps(_own["barriers"])(_add_shared_memory_barriers)
    wave.schedule_reordering = functools.wraps(_own["schedule"])(_schedule_reordering)
    launchable._trace_and_get_kernel_signature = functools.wraps(_own["trace"])(_trace)
    manager.get_hash = functools.wraps(_own["hash"])(_get_hash)


def _restore_passes() -> None:
    if not _modes.is_empty or _listeners or not _own:
        return
    wave, cache = _wave(), import_module("wave_lang.kernel.wave.cache")
    wave.add_shared_memory_barriers = _own["barriers"]
    wave.schedule_reordering = _own["schedule"]
    wave.LaunchableWave._trace_and_get_kernel_signature = _own["trace"]
    cache.WaveCacheManager.get_hash = _own["hash"]
    compiling = _compiling()
    compiling.compile_to_vmfb, compiling._generate_asm_code = _own["vmfb"], _own["emit"]
    _own.clear()


_modes: Modes[Options | None] = Modes(None, _replace_passes, _restore_passes)  # None: Wave itself


def _trace(self: Any, options: Any, *rest: Any, **named: Any) -> Any:
    """As Wave's own; remembers what is being compiled."""
    token = _compiled.set(_Compilation(self, options))
    try:
        return _own["trace"](self, options, *rest, **named)
    finally:
        _compiled.reset(token)


def _get_hash(self: Any, constraints: Any, kernel_fn: Any, options: Any) -> str:
    """The key of Wave's cache, with what Tidegate does to a kernel."""
    found = str(_own["hash"](self, constraints, kernel_fn, options))
    current = _modes.current
    if current is None:
        return found
    return hashlib.sha256(f"{found} {own_version()} {fingerprint()} {current}".encode()).hexdigest()


def _add_shared_memory_barriers(trace: Any, target: str = "") -> None:
    compiled, options = _compiled.get(), _modes.current
    context = _context(compiled)
    if context is not None and compiled is not None:
        remember(trace, context, target, compiled.name)
    for listener in _listeners:
        listener(Traced(trace, context, target, compiled.name if compiled else "", "before"))
    if options is None or compiled is None:
        _own["barriers"](trace, target=target)
    else:
        found = _placed(trace, context, target, options, compiled.name)
        if found.why_not and compiled.is_reordered:
            message = f"the loop of @{compiled.name} was reordered, and its barriers cannot be placed: {found.why_not}"
            raise NotPlaced(f"{message}; compile it with `schedule=False`")
        if found.why_not:
            _own["barriers"](trace, target=target)
        entry = Entry(compiled.name, target, found, compiled.schedule)
        record(entry)
        _recorded.set(entry)
    for listener in _listeners:
        listener(Traced(trace, context, target, compiled.name if compiled else "", "after"))


def _entry_to_check() -> Entry | None:
    """The entry of the kernel that is about to become assembly, if its assembly is to be checked."""
    entry, options = _recorded.get(), _modes.current
    _recorded.set(None)
    return entry if options is not None and options.verify == ASM else None


def _compile_to_vmfb(asm: str, options: Any) -> Any:
    entry = _entry_to_check()
    if entry is None:
        return _own["vmfb"](asm, options)
    made, doubt = compile_watched(_own["vmfb"], asm, options, entry.kernel)
    record_assembly(entry, doubt)
    return made


def _emit_assembly(module: Any, options: Any) -> Any:
    """Wave's own emitter, which takes the place of LLVM."""
    entry, text = _entry_to_check(), _own["emit"](module, options)
    if entry is not None:
        record_assembly(entry, find_doubt([str(text)], entry.kernel))
    return text


def _context(compiled: _Compilation | None) -> Context | None:
    """Sizes and waves of what is being compiled, if they are known."""
    try:
        return context_of(compiled.kernel.constraints) if compiled is not None else None
    except BadInput:
        return None


def _placed(trace: Any, context: Context | None, target: str, options: Options, name: str) -> Placement:
    if context is None:
        return Placement(why_not="the number of waves of this trace is unknown")
    try:
        return place_barriers(trace, context, load_target(target), options, name)
    except BadInput as bad:
        return Placement(why_not=bad.findings[0].message)
    except Exception as error:  # a mistake of ours must not end somebody else's compilation
        return Placement(why_not=f"Tidegate fails: {type(error).__name__}: {error}")


def _schedule_reordering(trace: Any, constraints: Any, scheduling_type: Any, *rest: Any) -> Any:
    compiled, options = _compiled.get(), _modes.current
    if options is None or not options.schedule or compiled is None:
        return _own["schedule"](trace, constraints, scheduling_type, *rest)
    from tidegate.hosts.wave.dropin.schedule import schedule_reordering

    try:
        found = schedule_reordering(
            trace,
            constraints,
            scheduling_type,
            *rest,
            target=compiled.options.target,
            strategy=options.schedule,
            counts=options.counts,
        )
        compiled.schedule, compiled.is_reordered = str(found), found.strategy != "none"
    except Exception as error:  # as above
        compiled.schedule = f"as it was: Tidegate fails: {type(error).__name__}: {error}"
    return None


# --- what a compilation works on ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Traced:
    """A trace at one moment of its compilation. Wave changes it in place: what is to be kept has to be copied."""

    trace: Any
    context: Context | None
    target: str
    kernel: str
    when: str  # before or after barriers are put in


@dataclass(slots=True)
class Traces:
    """The traces of what is compiled in a `with` block, as they stand after their barriers."""

    found: list[Traced] = field(default_factory=list)

    def __iter__(self) -> Iterator[Traced]:
        return iter(self.found)

    def __len__(self) -> int:
        return len(self.found)


@contextmanager
def traces(listener: Callable[[Traced], None] | None = None) -> Iterator[Traces]:
    """Collects what is compiled meanwhile: `with tidegate.wave.traces() as found: wave_compile(options, kernel)`.

    Each can then be handed to `check`. A listener is called before and after barriers are put in, with Wave's own
    context open.
    """
    check_version()
    found = Traces()

    def listen(traced: Traced) -> None:
        if listener is not None:
            listener(traced)
        if traced.when == "after":
            found.found.append(traced)

    with _modes.lock:
        _listeners.append(listen)
        _replace_passes()
    try:
        yield found
    finally:
        with _modes.lock:
            _listeners.remove(listen)
            _restore_passes()
