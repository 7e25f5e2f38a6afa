"""One name for each value, and one label for each block that can be jumped to.

Needs   an operation as it was read
Gives   the same operation; a name that is used again in another region is changed there
Keeps   MLIR's rule: a name is known in its region and in all regions inside it, so that regions beside each other may
        use one name for two values. `%a#0` and `%a` mean the same result. What one region defines twice is refused
Cost    linear in the operations

    "scf.if"(%c) ({ %i = A }, { %i = B })        "scf.if"(%c) ({ %i = A }, { %i_1 = B })
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace

from tidegate.diag import BadInput, Finding, Label
from tidegate.hosts.mlir.model import Block, Operation, Region, walk


def with_unique_names(function: Operation) -> Operation:
    """An operation in which each value and each label is called differently."""
    values, labels = Counter(_values(function)), Counter(_labels(function))
    given = {each for op in walk(function) for each in op.operands}
    if max((*values.values(), *labels.values(), 1)) == 1 and given <= values.keys():
        return function
    return _Renaming({*values, *labels, *given}).operation(function, {})


def _values(op: Operation) -> Iterator[str]:
    for each in walk(op):
        yield from each.results
        for region in each.regions:
            yield from _defined_by_blocks(region)


def _defined_by_blocks(region: Region) -> Iterator[str]:
    return (name for block in region.blocks for name, _ in block.arguments)


def _labels(op: Operation) -> Iterator[str]:
    """Of regions in which something can be jumped to."""
    for each in walk(op):
        for region in each.regions:
            if len(region.blocks) > 1:
                yield from (block.label for block in region.blocks)


class _Renaming:
    def __init__(self, taken: set[str]) -> None:
        self.taken = taken  # names that the text uses, and those that were made up
        self.used: set[str] = set()  # names that some value has already

    def operation(self, op: Operation, scope: Mapping[str, str]) -> Operation:
        return replace(
            op,
            results=tuple(scope.get(each, each) for each in op.results),
            operands=tuple(_found(each, scope) for each in op.operands),
            successors=tuple(scope.get(each, each) for each in op.successors),
            regions=tuple(self.region(region, scope) for region in op.regions),
        )

    def region(self, region: Region, around: Mapping[str, str]) -> Region:
        scope = dict(around)
        own: set[str] = set()
        for op in (each for block in region.blocks for each in block.operations):
            self.define(op.results, own, scope, op)
        first = next((block.operations[0] for block in region.blocks if block.operations), None)
        self.define(_defined_by_blocks(region), own, scope, first)
        if len(region.blocks) > 1:
            self.define((block.label for block in region.blocks), own, scope, first)
        return Region(tuple(self.block(block, scope) for block in region.blocks))

    def block(self, block: Block, scope: Mapping[str, str]) -> Block:
        arguments = tuple((scope[name], type_) for name, type_ in block.arguments)
        inside = tuple(self.operation(each, scope) for each in block.operations)
        return Block(scope.get(block.label, block.label), arguments, inside)

    def define(
        self, names: Iterator[str] | tuple[str, ...], own: set[str], scope: dict[str, str], op: Operation | None
    ) -> None:
        for name in names:
            if name in own:
                at = (Label(op.at),) if op is not None else ()
                raise BadInput(Finding("TG001", f"`{name}` is defined twice in one region", at))
            own.add(name)
            scope[name] = self.fresh(name) if name in self.used else name
            self.used.add(scope[name])

    def fresh(self, name: str) -> str:
        """Another name; `%a#0` and `%a#1` stay results of one operation."""
        stem, mark, number = name.partition("#")
        count = 1
        while f"{stem}_{count}{mark}{number}" in self.taken:
            count += 1
        found = f"{stem}_{count}{mark}{number}"
        self.taken.add(found)
        return found


def _found(name: str, scope: Mapping[str, str]) -> str:
    """The value that a name means; what is defined nowhere keeps its name."""
    if name in scope:
        return scope[name]
    return scope.get(name.removesuffix("#0")) or scope.get(f"{name}#0") or name
