"""Tidegate in the place of Triton's barrier pass, switched on and off in the running process.

Needs   Triton 3.9.0
Gives   `install`, `uninstall`, and for a while `enabled`, `disabled` and `between`
Keeps   Triton's cache tells apart what was compiled with which options and which Tidegate; a hook that somebody else
        has set is called too; a stage that somebody else has replaced is left alone
Cost    a few microseconds for each launch: Triton asks for the key

    knobs.runtime.add_stages_inspection_hook() ─▶ key        knobs.runtime.…(backend, stages, …) ─▶ stages["llir"]
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tidegate.diag import BadInput, Finding, TidegateError
from tidegate.edition import fingerprint, own_version
from tidegate.hosts.dropin import Modes
from tidegate.hosts.dropin.final import Doubt, find_assembly_doubt, find_final_doubt
from tidegate.hosts.triton import libtriton
from tidegate.hosts.triton.dropin.placing import Placement, find_doubt, place_barriers
from tidegate.hosts.triton.dropin.records import Entry, record, record_final_proof, record_proof, say_fallback
from tidegate.hosts.triton.dropin.split import Given, Placer, Stage, Unsplittable, split_stage
from tidegate.synchronize import SyncOptions

LLIR, PTX, AMDGCN = "llir", "ptx", "amdgcn"
FINAL = {"ptx": PTX, "asm": AMDGCN}  # what `verify` names, and the stage that makes it
VERIFY = (False, True, *FINAL)


class UnsupportedTriton(TidegateError, RuntimeError):
    """Triton is not there, or not in a version that Tidegate knows."""


@dataclass(frozen=True, slots=True)
class Options:
    """`merge_waits`: whether a wait may move earlier to save a barrier: as the cost model says, never, always.

    `verify`: True proves also what Triton's own pass makes of kernels that are left to it; "ptx" proves, besides, the
    PTX of every kernel, "asm" the assembly of every kernel for AMD GPUs.
    """

    merge_waits: str = "model"
    verify: bool | str = False

    def check(self) -> None:
        """Raises `BadInput` for an option that does not exist."""
        SyncOptions(merge_waits=self.merge_waits).check()
        if self.verify not in VERIFY:
            message = f"`verify` cannot be {self.verify!r}"
            raise BadInput(Finding("TG022", message, (), help='False, True, "ptx" or "asm"'))


# --- on and off ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Mode:
    """Who places barriers now; None: Triton itself."""

    key: str
    placer: Callable[[], Placer] | None


_OFF = _Mode("", None)
_previous: list[Any] = []  # the hook that was there before ours, while ours is


def install(*, merge_waits: str = "model", verify: bool | str = False) -> None:
    """Replaces Triton's barrier pass for all that this process compiles from now on. Called again, it changes options.

    Raises `UnsupportedTriton` without Triton 3.9.0, and `BadInput` for an option that does not exist.
    """
    _modes.install(_mode_of(Options(merge_waits, verify)))


def uninstall() -> None:
    """Gives Triton its own pass back. What is compiled already stays as it is."""
    _modes.uninstall()


@contextmanager
def enabled(*, merge_waits: str = "model", verify: bool | str = False) -> Iterator[None]:
    """For a while: `with tidegate.triton.enabled(): kernel[grid](...)`. In all threads, as Triton's own knobs."""
    with _modes.during(_mode_of(Options(merge_waits, verify))):
        yield


@contextmanager
def disabled() -> Iterator[None]:
    """For a while Triton's own pass, in a process with Tidegate installed."""
    with _modes.during(_OFF):
        yield


@contextmanager
def between(rewrite: Callable[[str], str | None], key: str) -> Iterator[None]:
    """For a while `rewrite` in the place of the barrier pass: from the text of a module to its new one.

    None leaves the module to Triton. `key` tells in Triton's cache what comes of it.
    """
    check_version()
    with _modes.during(_Mode(f"tidegate-between-{key}", lambda: _Rewriting(rewrite))):
        yield


def _mode_of(options: Options) -> _Mode:
    check_version()
    options.check()
    return _Mode(f"tidegate-{own_version()}-{fingerprint()}-{options}", lambda: _Placing(options))


def check_version() -> None:
    """Raises `UnsupportedTriton` if this Triton is not known."""
    tested = " or ".join(libtriton.TESTED)
    if not libtriton.is_installed():
        raise UnsupportedTriton(f"Tidegate needs Triton {tested}, which is not installed: {libtriton.INSTALL}")
    if libtriton.version() not in libtriton.TESTED:
        found = libtriton.version()
        raise UnsupportedTriton(f"Tidegate knows the barrier pass of Triton {tested}; Triton {found} is installed")


# --- Triton's hook ------------------------------------------------------------------------------------------------


def _set_hook() -> None:
    from triton import knobs

    if knobs.runtime.add_stages_inspection_hook is not _hook:
        _previous[:] = [knobs.runtime.add_stages_inspection_hook]
        knobs.runtime.add_stages_inspection_hook = _hook


def _take_hook() -> None:
    from triton import knobs

    if _modes.is_empty and knobs.runtime.add_stages_inspection_hook is _hook:
        knobs.runtime.add_stages_inspection_hook = _previous.pop()


_modes = Modes(_OFF, _set_hook, _take_hook)


def _hook(*args: Any) -> tuple[str, str] | None:
    """What Triton calls: without arguments for its key, else with the stages of one compilation."""
    previous = _previous[0] if _previous else None
    found = previous(*args) if previous is not None else ("", "")
    mode = _modes.current
    if not args:
        key, short = found
        return f"{key}{mode.key}", f"{short}{mode.key}"
    if mode.placer is not None:
        _replace(mode.placer, *args)
    return None


def _replace(placer: Callable[[], Placer], backend: Any, stages: dict[str, Any], options: Any, *rest: Any) -> None:
    _, capability = rest
    if getattr(stages[LLIR], "__module__", "") != type(backend).__module__:
        say_fallback("", "", "the stage that makes LLVM IR has been replaced by another tool")
        return
    made = placer()
    try:
        stages[LLIR] = split_stage(backend, options, capability, made)
    except Unsplittable as error:
        say_fallback("", "", str(error))
        return
    last = FINAL.get(str(made.options.verify)) if isinstance(made, _Placing) else None
    if isinstance(made, _Placing) and last is not None and last in stages:
        stages[last] = _checked(stages[last], made)


def _checked(stage: Stage, placer: _Placing) -> Stage:
    """Triton's stage that makes PTX or assembly; what it gives is checked and handed on as it is."""

    def run(source: Any, metadata: dict[str, Any]) -> Any:
        text = stage(source, metadata)
        placer.compiled(str(text), metadata)
        return text

    return run


# --- placers ------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Rewriting:
    rewrite: Callable[[str], str | None]

    def place(self, given: Given) -> str | None:
        return self.rewrite(given.text)

    def placed(self, given: Given, text: Callable[[], str]) -> None:
        pass


@dataclass(slots=True)
class _Placing:
    """Tidegate, for one compilation."""

    options: Options
    entry: Entry | None = None

    def place(self, given: Given) -> str | None:
        start = time.perf_counter()
        try:
            found = place_barriers(given.text, given.kernel, self.options.merge_waits)
        except Exception as error:  # a mistake of ours must not end somebody else's compilation
            found = Placement(why_not=f"Tidegate fails: {type(error).__name__}: {error}")
        self.entry = record(given, found, time.perf_counter() - start)
        given.metadata["tidegate"] = self.entry.as_metadata()
        return found.text

    def placed(self, given: Given, text: Callable[[], str]) -> None:
        if self.options.verify and self.entry is not None:
            record_proof(self.entry, find_doubt(text(), given.kernel))
            given.metadata["tidegate"] = self.entry.as_metadata()

    def compiled(self, text: str, metadata: dict[str, Any]) -> None:
        """Told when Triton has made the PTX or the assembly."""
        if self.entry is None:
            return
        of_ptx = self.options.verify == PTX
        try:
            if of_ptx:
                doubt = find_final_doubt(text, self.entry.kernel)
            else:
                threads = metadata["num_warps"] * metadata["warp_size"]
                doubt = find_assembly_doubt(text, self.entry.kernel, threads)
        except Exception as error:  # as in `place`
            doubt = Doubt(f"Tidegate fails: {type(error).__name__}: {error}")
        record_final_proof(self.entry, doubt, of_ptx=of_ptx)
        metadata["tidegate"] = self.entry.as_metadata()
