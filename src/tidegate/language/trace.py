"""`@tidegate.kernel`: a Python function traced into a kernel.

Needs   a function whose arguments are annotated, as in `A: Global[M, K, f16]`
Gives   a `KernelFunction`; its `trace()` gives a `CapturedTrace`, which holds an immutable `Kernel`
Keeps   the function runs once; what it records has the function's lines as spans
Cost    linear in what the function does
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, overload

from tidegate.collecting import no_collecting
from tidegate.diag import BadInput, Finding, Label, Span, closest
from tidegate.language import types
from tidegate.language.arguments import check_whole, traceable, whole, word
from tidegate.language.builder import Builder, reject, span_of_line
from tidegate.language.index_handles import CondHandle, IndexHandle, SizeHandle, as_number, to_cond, to_index
from tidegate.language.ops import Block, Kernel, Op, Size, Value, blocks_of, map_blocks
from tidegate.language.rewrite import rewrite
from tidegate.language.show import show
from tidegate.language.syntax import form_of
from tidegate.language.tile_handles import wrap
from tidegate.language.uses import names_in_block

if TYPE_CHECKING:
    # To a type checker an argument is what the function is called with. `Global[M, 64, f16]` holds values, which no
    # type may hold, except in brackets behind a name that is `Any` (test_public: the documented style passes mypy).
    Global: Any
    Flag = CondHandle
    Scalar = IndexHandle
else:

    class Global:
        """The annotation of an argument in global memory: `Global[M, K, f16]`."""

        def __class_getitem__(cls, items: Any) -> GlobalAnnotation:
            *dims, dtype = items if isinstance(items, tuple) else (items,)
            if not isinstance(dtype, types.DType):
                reject(
                    "TG005",
                    f"`{dtype!r}` is not an element type",
                    "write `Global[M, K, f16]`: sizes, then the element type",
                )
            return GlobalAnnotation(tuple(map(_dimension, dims)), dtype)

    class Flag:
        """The annotation of an argument that is a boolean, the same for all waves."""

    class Scalar:
        """The annotation of an argument that is an integer, the same for all waves."""


@dataclass(frozen=True, slots=True)
class GlobalAnnotation:
    dims: tuple[SizeHandle | int, ...]
    dtype: types.DType


def _dimension(dim: Any) -> SizeHandle | int:
    if isinstance(dim, SizeHandle):
        return dim
    number = as_number(dim)
    if number is None or not 1 <= number <= types.MAX_SIZE:
        help = "use a positive number, or make sizes with `M, K = tidegate.sizes(M=128, K=64)`"
        reject("TG005", f"`{dim!r}` is not a size", help)
    return number


@dataclass(slots=True)
class CapturedTrace:
    """A mutable holder of an immutable kernel, so that transforms can work in place."""

    kernel: Kernel

    @property
    def target(self) -> str:
        return self.kernel.target

    def __str__(self) -> str:
        return show(self.kernel)

    def _repr_html_(self) -> str:
        return self.kernel._repr_html_()


class KernelFunction:
    """A traced function. Arguments without an annotation for the device are constants with defaults."""

    def __init__(
        self,
        function: Callable[..., Any],
        annotations: dict[str, Any],
        *,
        waves: int,
        target: str,
        grid: tuple[Any, ...],
        where: tuple[Any, ...],
        sizes: tuple[SizeHandle, ...],
    ) -> None:
        self.function, self.annotations, self.waves, self.target = function, annotations, waves, target
        self.grid, self.where, self.sizes = grid, where, sizes
        self.name = self.__name__ = function.__name__
        self.__doc__ = function.__doc__
        self._traced: dict[Hashable, Kernel] = {}
        self._rewritten: Callable[..., Any] | None = None

    def _repr_html_(self) -> str:
        """The text of the kernel that it records, for a notebook."""
        return self.trace()._repr_html_()

    @property
    def at(self) -> Span:
        """Where the function is defined."""
        return span_of_line(self.function.__code__.co_filename, self.function.__code__.co_firstlineno)

    def __repr__(self) -> str:
        return f"<tidegate kernel `{self.name}`>"

    def __call__(self, *_: Any, **__: Any) -> None:
        reject(
            "TG007",
            f"`{self.name}` is a kernel, not a function to call",
            f"use `{self.name}.trace()` for its program, or `tidegate run FILE` to run it",
        )

    def __str__(self) -> str:
        return show(self.trace().kernel)

    def trace(self, *, waves: int | None = None, target: str | None = None, **constants: Any) -> CapturedTrace:
        """The kernel as a program. Keyword arguments replace the defaults of the function's constants."""
        waves = self.waves if waves is None else _waves(waves)
        target = self.target if target is None else word(target, "the target")
        key = _key({**constants, "waves": waves, "target": target})
        if key is None:
            return CapturedTrace(self._trace(waves, target, constants))
        if key not in self._traced:
            self._traced[key] = self._trace(waves, target, constants)
        return CapturedTrace(self._traced[key])

    def _trace(self, waves: int, target: str, constants: dict[str, Any]) -> Kernel:
        builder = Builder()
        values, passed = self._arguments(builder, constants)
        if self._rewritten is None:
            self._rewritten = rewrite(self.function)
        with builder, no_collecting():
            returned = self._rewritten(**passed)
        if builder.stopped is None and len(builder.stack) > 1:
            raise BadInput(
                Finding(
                    "TG007",
                    f"`{self.name}` returns from inside a loop",
                    (Label(builder.opened[-1]),),
                    help="use `tidegate.exit_wave()` to end a wave, or let the loop end",
                )
            )
        check_whole(builder, self.name, returned, self.at)
        where, grid = tuple(map(to_cond, self.where)), tuple(map(to_index, self.grid))
        sizes = self._sizes(self.annotations.values())
        made = builder.kernel(
            self.name, tuple(values), waves, sizes=sizes, where=where, grid=grid, target=target, at=self.at
        )
        return replace(made, body=_drop_unused_deps(made.body, names_in_block(made.body)))

    def _arguments(self, builder: Builder, constants: dict[str, Any]) -> tuple[list[Value], dict[str, Any]]:
        """The kernel's arguments, and what the function is called with: handles for them, and its constants."""
        values: list[Value] = []
        passed: dict[str, Any] = {}
        known: list[str] = []
        for name, parameter in inspect.signature(self.function).parameters.items():
            type_ = _type_of(self.annotations.get(name))
            if type_ is None:
                known.append(name)
                passed[name] = _constant(self, parameter, constants)
                continue
            value = builder.fresh(name, type_)
            values.append(value)
            passed[name] = wrap(value)
        unknown = sorted(set(constants) - set(known))
        if unknown:
            help = f"its constants: {', '.join(known) or 'none'}"
            reject("TG003", f"`{self.name}` has no constant `{unknown[0]}`", help)
        return values, passed

    def _sizes(self, annotations: Iterable[Any]) -> tuple[Size, ...]:
        """Sizes in the order in which arguments name them, then those that only the decorator knows."""
        found: dict[str, Size] = {}
        for annotation in annotations:
            if isinstance(annotation, GlobalAnnotation):
                for dim in annotation.dims:
                    if isinstance(dim, SizeHandle):
                        found.setdefault(dim.name, Size(dim.name, dim.default))
        for size in self.sizes:
            found.setdefault(size.name, Size(size.name, size.default))
        return tuple(found.values())


def _key(options: dict[str, Any]) -> Hashable | None:
    """What a trace depends on, if it can be remembered; `1`, `1.0` and `True` are equal and not the same."""
    key = tuple((name, repr(value), value) for name, value in sorted(options.items(), key=lambda each: each[0]))
    try:
        hash(key)
    except TypeError:
        return None  # a list, for one
    return key


def _type_of(annotation: Any) -> types.Type | None:
    if isinstance(annotation, GlobalAnnotation):
        dims = tuple(dim.name if isinstance(dim, SizeHandle) else dim for dim in annotation.dims)
        return types.Global(dims, annotation.dtype)
    return {Flag: types.FLAG, Scalar: types.INDEX}.get(annotation)


def _constant(kernel: KernelFunction, parameter: inspect.Parameter, constants: dict[str, Any]) -> Any:
    if parameter.name in constants:
        return constants[parameter.name]
    if parameter.default is not inspect.Parameter.empty:
        return parameter.default
    reject(
        "TG007",
        f"argument `{parameter.name}` of `{kernel.name}` has neither an annotation nor a default",
        "annotate it as in `A: tidegate.Global[M, K, tidegate.f16]`, or give a constant its default",
        at=kernel.at,
    )


def _drop_unused_deps(block: Block, used: set[str]) -> Block:
    """Copies whose completion nobody names lose the name of their result."""
    return replace(block, ops=tuple(_drop_in(op, used) for op in block.ops))


def _drop_in(op: Op, used: set[str]) -> Op:
    if blocks_of(op):
        return map_blocks(op, lambda block, _: _drop_unused_deps(block, used))
    result: Value | None = getattr(op, "result", None)
    if result is None or result.type != types.DEP or result.name in used or form_of(type(op)).needs_result:
        return op
    return replace(op, result=None)  # type: ignore[arg-type]


OPTIONS = ("waves", "target", "grid", "where", "sizes")


@overload
def kernel(function: Callable[..., Any], /) -> KernelFunction: ...


@overload
def kernel(
    *,
    waves: int = 4,
    target: str = "",
    grid: Sequence[IndexHandle | int] | IndexHandle | int = (),
    where: Sequence[CondHandle] | CondHandle = (),
    sizes: Sequence[SizeHandle] = (),
) -> Callable[[Callable[..., Any]], KernelFunction]: ...


def kernel(function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Makes a kernel of a function: `@kernel(waves=4, target="gfx942", grid=(M // 64,), where=[M % 64 == 0])`."""
    if function is not None:
        traceable(function)
        return KernelFunction(function, _annotations(function), waves=4, target="", grid=(), where=(), sizes=())

    for name in options:
        if name not in OPTIONS:
            meant = closest(name, OPTIONS)
            help = f"did you mean `{meant}`?" if meant else f"its options: {', '.join(OPTIONS)}"
            reject("TG003", f"`kernel` has no option `{name}`", help)

    checked: dict[str, Any] = {
        "waves": _waves(options.get("waves", 4)),
        "target": word(options.get("target", ""), "the target"),
        "grid": _several(options.get("grid", ())),
        "where": _several(options.get("where", ())),
        "sizes": tuple(map(_size, _several(options.get("sizes", ())))),
    }

    def decorate(function: Callable[..., Any]) -> KernelFunction:
        return KernelFunction(traceable(function), _annotations(function), **checked)

    return decorate


def _waves(waves: Any) -> int:
    return whole(waves, "the number of waves", 1)


def _size(item: Any) -> SizeHandle:
    if not isinstance(item, SizeHandle):
        reject("TG012", f"`{item!r}` is not a size parameter", 'make one with `N = tidegate.size("N", 64)`')
    return item


def _annotations(function: Callable[..., Any]) -> dict[str, Any]:
    """What the annotations stand for; under `from __future__ import annotations` they are text until here."""
    around = sys._getframe(2).f_locals
    try:
        return inspect.get_annotations(function, eval_str=True, locals=dict(around))
    except NameError as error:
        reject("TG012", f"an annotation of `{function.__name__}` cannot be evaluated: {error}")


def _several(item: Any) -> tuple[Any, ...]:
    return tuple(item) if isinstance(item, Sequence) else (item,)


def function(body: Callable[..., Any], /) -> Callable[..., Any]:
    """A function that kernels call: its loops and conditionals are traced like theirs."""
    traceable(body)
    made: list[Callable[..., Any]] = []

    def call(*args: Any, **kwargs: Any) -> Any:
        if not made:
            made.append(rewrite(body))
        return made[0](*args, **kwargs)

    call.__name__, call.__doc__ = body.__name__, body.__doc__
    return call
