"""Compiles kernels of the corpus for their targets, and asks the final code what their graphs rely on.

Needs   the compilers (`oracles.compilers`)
Gives   `examine`: for each kernel and target whether Tidegate proves it, and what the final code breaks
Keeps   kernels of one target are compiled together; where that fails, each by itself, and its error is kept
Cost    about 0.2 s for a kernel and a target
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from oracles.amdgcn import read_amdgcn
from oracles.code import Code, NotUnderstood
from oracles.compilers import DoesNotCompile, to_amdgcn, to_sass
from oracles.corpus import Kernel, graph_of, llvm_text, ptx_text
from oracles.facts import Fact, facts_of
from oracles.order import Objection, absent, objections, placed, unplaced
from oracles.sass import read_sass
from tidegate.verify.verify import is_ordered


@dataclass(slots=True)
class Examined:
    kernel: Kernel
    target: str
    is_proved: bool
    facts: list[Fact]
    objections: list[Objection] = field(default_factory=list)
    absent: list[int] = field(default_factory=list)
    unplaced: list[str] = field(default_factory=list)
    error: str = ""
    code: Code | None = None

    @property
    def is_kept(self) -> bool:
        return not (self.objections or self.unplaced or self.error)


def examine(pairs: Sequence[tuple[Kernel, str]]) -> list[Examined]:
    found = [_asked(kernel, target) for kernel, target in pairs]
    _compile(found)
    for each in found:
        if each.code is not None:
            code = placed(each.code, each.facts)
            each.objections = objections(code, each.facts)
            each.absent, each.unplaced = absent(code, each.facts), unplaced(code)
    return found


def _asked(kernel: Kernel, target: str) -> Examined:
    graph, known = graph_of(kernel, target)
    sizes = {size.name: size.default for size in graph.sizes}
    return Examined(kernel, target, is_ordered(graph, known), facts_of(graph, known, sizes))


def _compile(found: list[Examined]) -> None:
    """Together, since compilers take long to start; each by itself where that fails."""
    for target in dict.fromkeys(each.target for each in found):
        same = [each for each in found if each.target == target]
        if not _compiled(same, target):
            for one in same:
                _compiled([one], target)


def _compiled(same: list[Examined], target: str) -> bool:
    """Whether all went through; their final code is read."""
    try:
        if target.startswith("sm_"):
            functions = read_sass(to_sass(ptx_text([each.kernel for each in same], target), target))
            codes = [functions[f"kernel_{number}"] for number in range(len(same))]
        else:
            made = to_amdgcn([(llvm_text(each.kernel, target), target) for each in same])
            codes = [read_amdgcn(text) for text in made]
    except (DoesNotCompile, NotUnderstood) as error:
        same[0].error = str(error)
        return False
    for each, code in zip(same, codes, strict=True):
        each.error, each.code = "", code
    return True
