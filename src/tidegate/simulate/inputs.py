"""What a run takes: arrays, indices and flags that fit a kernel.

Needs   a kernel, values for some of its sizes, perhaps some of its arguments
Gives   arguments that fit, random where nobody gave them; a finding (TG022) where something does not fit
Keeps   what is given is copied, never changed; the same seed gives the same arrays
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from tidegate.index import Cond, holds, names, show
from tidegate.language.ops import Kernel, Value
from tidegate.language.types import FLAG, INDEX, DType, Global, i1
from tidegate.simulate.faults import unfit
from tidegate.simulate.memory import lds_bytes, lds_layout
from tidegate.simulate.tiles import Array, Shape, convert, np_dtype
from tidegate.simulate.values import Env, GlobalArray

Sizes = Mapping[str, int]

# Far beyond every GPU; it keeps a wrong `alloc at` from filling the memory of this computer.
MOST_LDS = 2**28
# Waves of a workgroup, elements of all arrays together, and workgroups: a run that asks for more does not end today.
MOST_WAVES = 1024
MOST_ELEMENTS = 2**26
MOST_GROUPS = 2**20


def make_inputs(
    kernel: Kernel, sizes: Sizes | None = None, seed: int = 0, given: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Arguments for a kernel: normal floats, small integers, index 0 and flag false, except for what is given."""
    values, made = fill_sizes(kernel, sizes), dict(given or {})
    if not isinstance(seed, int | np.integer) or seed < 0:
        raise unfit(f"`{seed!r}` is not a seed", "a seed is a whole number from 0 on")
    rng = np.random.default_rng(seed)
    count = sum(prod(_shape(arg.type, values)) for arg in kernel.args if isinstance(arg.type, Global))
    if count > MOST_ELEMENTS:
        raise unfit(
            f"the arrays of `@{kernel.name}` would have {count:,} elements, and a run makes at most {MOST_ELEMENTS:,}",
            "give smaller sizes",
        )
    for arg in kernel.args:
        name = arg.name.removeprefix("%")
        if name in made:
            continue
        match arg.type:
            case Global(dtype=dtype):
                shape = _shape(arg.type, values)
                if prod(shape) > MOST_ELEMENTS:
                    raise unfit(f"`{name}` would have more than {MOST_ELEMENTS:,} elements", "give smaller sizes")
                made[name] = _random(rng, shape, dtype)
            case t if t == INDEX:
                made[name] = 0
            case t if t == FLAG:
                made[name] = False
    return made


def _random(rng: np.random.Generator, shape: Shape, dtype: DType) -> Array:
    if dtype.is_float:
        return convert(rng.standard_normal(shape), dtype)
    if dtype == i1:
        return rng.integers(0, 2, shape).astype(bool)
    return rng.integers(-4, 5, shape).astype(np_dtype(dtype))


def fill_sizes(kernel: Kernel, sizes: Sizes | None) -> dict[str, int]:
    """Every size of the kernel: its default, unless given."""
    values = {size.name: size.default for size in kernel.sizes}
    for name, value in (sizes or {}).items():
        if name not in values:
            known = ", ".join(f"`{each}`" for each in values) or "none"
            raise unfit(f"`{name}` is not a size of `@{kernel.name}`", f"its sizes: {known}")
        if value < 0:
            raise unfit(f"`{name}` is {value}; a size cannot be negative")
        values[name] = int(value)
    return values


def check_machine(kernel: Kernel, waves: int, lanes: int) -> None:
    """Whether there is a machine that can run so many waves with that much shared memory."""
    if waves < 1 or lanes < 1:
        raise unfit(f"{waves} waves of {lanes} lanes cannot run")
    if waves > MOST_WAVES:
        raise unfit(f"{waves:,} waves cannot run: a run has at most {MOST_WAVES:,}", "no GPU has more than 64")
    if lds_bytes(kernel) > MOST_LDS or any(offset < 0 for offset in lds_layout(kernel).values()):
        raise unfit(f"shared memory of `@{kernel.name}` does not lie in 0..{MOST_LDS}", "check `alloc at`")


def bind_arguments(kernel: Kernel, inputs: Mapping[str, Any], sizes: Sizes) -> tuple[Env, dict[str, Array]]:
    """What the arguments' names stand for, and copies of the arrays that a run may change."""
    env: Env = {}
    arrays: dict[str, Array] = {}
    known = {arg.name.removeprefix("%"): arg for arg in kernel.args}
    for name in inputs:
        if name not in known:
            raise unfit(f"`%{name}` is not an argument of `@{kernel.name}`")
    for name, arg in known.items():
        match arg.type:
            case Global() as type_:
                arrays[name] = _array(arg, type_, _given(kernel, inputs, name), sizes)
                env[arg.name] = GlobalArray(name, arrays[name].shape, type_.dtype)
            case t if t in (INDEX, FLAG):
                env[arg.name] = _integer(arg, _given(kernel, inputs, name))
            case _:
                raise unfit(f"`{arg.name}` has type `{arg.type}`, which no argument can have")
    numbers = {name: each for name, each in env.items() if isinstance(each, int)}
    check_assumptions(kernel.name, kernel.where, {**sizes, **numbers})
    return env, arrays


def check_assumptions(name: str, where: Sequence[Cond], known: Mapping[str, int]) -> None:
    """Whether what a program assumes holds for these numbers."""
    for cond in where:
        used = list(dict.fromkeys(names(cond)))
        if all(each in known for each in used) and not holds(cond, known):
            values = ", ".join(f"{each} = {known[each]}" for each in used)
            raise unfit(f"`@{name}` assumes `{show(cond)}`, which does not hold with {values}")


def _integer(arg: Value, given: Any) -> int:
    if not isinstance(given, int | np.integer | np.bool_):
        raise unfit(f"`{arg.name}` is {given!r} where `{arg.type}` needs a number")
    return int(given)


def _given(kernel: Kernel, inputs: Mapping[str, Any], name: str) -> Any:
    if name not in inputs:
        raise unfit(f"`%{name}` of `@{kernel.name}` is missing", "`make_inputs` makes every argument")
    return inputs[name]


def _array(arg: Value, type_: Global, given: Any, sizes: Sizes) -> Array:
    array, wanted = np.asarray(given), np_dtype(type_.dtype)
    shape = _shape(type_, sizes)
    if array.dtype != wanted:
        raise unfit(f"`{arg.name}` holds {array.dtype} where `{type_}` needs {wanted}")
    if array.shape != shape:
        raise unfit(f"`{arg.name}` has shape {array.shape} where `{type_}` needs {shape}")
    return np.array(array, order="C", copy=True)


def _shape(type_: Global, sizes: Sizes) -> Shape:
    for size in type_.shape:
        if isinstance(size, str) and size not in sizes:
            raise unfit(f"`{type_}` names `{size}`, which is not a size of the kernel")
    return tuple(sizes[size] if isinstance(size, str) else size for size in type_.shape)
