"""A case in one call: the function, the types of what is passed, the constants, the options.

Needs   a `triton.jit` or Gluon function, for each parameter that is no constexpr its type as Triton writes it
Gives   a `Case`
Keeps   every parameter has a type or a constant, in the order of the function

    case("softmax", softmax, {"x": "*fp32:16", "cols": "i32:16"}, {"BLOCK": 1024}, num_warps=4)

`:16` after a type is what Triton finds out at a launch: the pointer or number is a multiple of 16.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from triton.compiler import ASTSource
from triton.experimental.gluon._runtime import GluonASTSource, GluonJITFunction
from triton.runtime.jit import JITFunction

from oracles.triton_kernels import EVERYWHERE, TARGETS, Case, Launch

PTX_VERSION = 86  # Without it Triton asks an assembler, which is not always there.


def case(
    name: str,
    function: JITFunction,
    types: Mapping[str, str] | Callable[[str], Mapping[str, str]],
    constants: Mapping[str, object] | Callable[[str], Mapping[str, object]],
    *,
    kernel: str = "",
    targets: tuple[str, ...] = EVERYWHERE,
    launch: Callable[[np.random.Generator, int], Launch] | None = None,
    **options: object,
) -> Case:
    """The case of one kernel; types and constants may depend on the target."""

    def source(target: str) -> tuple[object, dict[str, object]]:
        chosen = constants(target) if callable(constants) else constants
        passed = types(target) if callable(types) else types
        extra = {"ptx_version": PTX_VERSION} if TARGETS[target].backend == "cuda" else {}
        extra["enable_fp_fusion"] = True  # what 3.9 does without being told, with a warning
        near = TARGETS[target].backend == "hip"
        return build_source(function, passed, chosen, near), {**options, **extra}

    return Case(name, kernel or name, targets, source, launch)


def build_source(
    function: JITFunction, types: Mapping[str, str], constants: Mapping[str, object], near: bool
) -> ASTSource:
    """What `triton.compile` takes; `near` says of each pointer what AMD's launcher says of tensors below 2 GiB."""
    names = list(function.arg_names)
    if unknown := sorted((types.keys() | constants.keys()) ^ set(names)):
        raise ValueError(f"{function.__name__}: these are no parameters, or have no type: {', '.join(unknown)}")
    signature = {name: types[name].removesuffix(":16") if name in types else "constexpr" for name in names}
    facts: dict[tuple[int], list[list[object]]] = {}
    for name, type_ in types.items():
        known: list[list[object]] = [["tt.divisibility", 16]] if type_.endswith(":16") else []
        if near and type_.startswith("*"):
            known.append(["tt.pointer_range", 32])
        if known:
            facts[(names.index(name),)] = known
    build = GluonASTSource if isinstance(function, GluonJITFunction) else ASTSource
    return build(function, signature, constexprs=dict(constants), attrs=facts)


def pointers(element: str, *names: str) -> dict[str, str]:
    """The types of pointers to one kind of element, all aligned."""
    return dict.fromkeys(names, f"*{element}:16")
