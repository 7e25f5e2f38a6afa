"""How large programs may be for the commands to end in seconds; larger ones are refused with a sentence.

Needs   kernels or a graph, as read
Gives   `BadInput` for what is too large, else nothing
Keeps   what fits is not changed; the library has no such limits, only the command line asks here
Cost    linear in the program
"""

from __future__ import annotations

from collections.abc import Sequence

from tidegate.diag import BadInput, Finding, Label, Span
from tidegate.graph.model import SyncGraph
from tidegate.language.ops import Kernel, walk_ops

# Operations of all programs that a command takes from a file. Kernels have tens to hundreds, unrolled ones perhaps a
# thousand; with so many, and a race between any two, `sync` takes about 15 seconds.
MOST_OPERATIONS = 3_000
# Where each barrier is tried away, earlier and later: the time grows with the square of them.
MOST_EXPLAINED = 1_000
# Waves of a workgroup: no GPU has more than 64.
MOST_WAVES = 256
# Of the kernels of a PTX file that a command takes: most instructions are arithmetic.
MOST_INSTRUCTIONS = 30_000
MOST_KERNELS = 1_000


def check_size(kernels: Sequence[Kernel], graph: SyncGraph | None, file: str) -> None:
    """Whether all commands can take these programs."""
    for kernel in kernels:
        check_waves(kernel.waves, kernel.name, kernel.at)
    if graph is not None:
        check_waves(graph.waves, graph.name, Span(file, 0, 0, 0))
    count = count_operations(kernels, graph)
    if count > MOST_OPERATIONS:
        help = "pick one kernel with `FILE::name`, or roll loops up" if len(kernels) > 1 else "roll loops up"
        said = f"the file has {count:,} operations, and commands take at most {MOST_OPERATIONS:,}"
        raise BadInput(Finding("TG023", said, (Label(Span(file, 0, 0, 0)),), help=help))


def check_explained(kernel: Kernel | None, graph: SyncGraph | None, name: str, what: str) -> None:
    """Whether a command that tries each barrier away can take this program."""
    count = count_operations([kernel] if kernel is not None else [], graph)
    if count > MOST_EXPLAINED:
        said = f"`@{name}` has {count:,} operations, and {what} takes at most {MOST_EXPLAINED:,}"
        help = "roll loops up; `check` and `sync` take more"
        raise BadInput(Finding("TG023", said, (Label(kernel.at),) if kernel is not None else (), help=help))


def check_compiled(count: int, file: str) -> None:
    """Whether all commands can take a module with so many operations on shared memory."""
    if count > MOST_OPERATIONS:
        said = f"the file has {count:,} operations on shared memory, and commands take at most {MOST_OPERATIONS:,}"
        raise BadInput(Finding("TG023", said, (Label(Span(file, 0, 0, 0)),), help="roll loops up"))


def check_instructions(counts: Sequence[int], file: str) -> None:
    """Whether `check` can take kernels of so many instructions each."""
    help = "pick one kernel with `FILE::name`" if len(counts) > 1 else "roll loops up"
    said = ""
    if len(counts) > MOST_KERNELS:
        said = f"the file has {len(counts):,} kernels, and commands take at most {MOST_KERNELS:,}"
    elif sum(counts) > MOST_INSTRUCTIONS:
        said = f"the file has {sum(counts):,} instructions, and commands take at most {MOST_INSTRUCTIONS:,}"
    if said:
        raise BadInput(Finding("TG023", said, (Label(Span(file, 0, 0, 0)),), help=help))


def count_operations(kernels: Sequence[Kernel], graph: SyncGraph | None) -> int:
    points = len(graph.points) if graph is not None else 0
    return points + sum(1 for kernel in kernels for _ in walk_ops(kernel.body))


def check_waves(waves: object, name: str, at: Span) -> None:
    if isinstance(waves, int) and waves > MOST_WAVES:
        program = f"`@{name}`" if name else "the module"
        said = f"{program} has {waves:,} waves, and commands take at most {MOST_WAVES}"
        raise BadInput(Finding("TG023", said, (Label(at),), help="no GPU has more than 64 in a workgroup"))
