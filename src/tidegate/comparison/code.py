"""AMD's assembly as Triton and IREE print it: blocks, and what is still in flight at each barrier and each wait.

Needs   the text, for gfx9 or gfx12: what Triton's stage `amdgcn` makes, or IREE leaves as `.rocmasm`
Gives   `read_assembly`: functions as blocks with their branches; `follow`: for each barrier the accesses to shared
        memory (LDS) of the same wave that may be in flight there, and for each wait for marked copies what it misses
Keeps   all paths are followed; a queue is done in the order of its issue, so a wait for `n` covers what has `n` behind
        it, and where paths differ the fewest behind it count; what a counter cannot say is taken as in flight
Cost    a fixed point over the blocks, a hundredth of a second for most kernels

    ds_read_b64 v[2:3], v1            in flight: ds_read_b64
    s_waitcnt lgkmcnt(0)              nothing
    s_barrier                         drained
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

LABEL = re.compile(r"^(?:; )?(\.LBB\w+|%bb\.\d+|[A-Za-z_]\w*):")
INSTRUCTION = re.compile(r"^\t(?:; )?((?<=; )(?:wait_)?asyncmark|(?<!; )[a-z]\w*)\b[ \t]*([^;]*)")
FUNCTION_ENDS = re.compile(r"^\.Lfunc_end\d+:")
BRANCHES = ("s_branch", "s_cbranch")
LEAVES = ("s_endpgm", "s_setpc_b64", "s_branch")
JUMPS = (*BRANCHES, *LEAVES)
CALLS = ("s_swappc_b64", "s_call_b64")
MARK, WAIT_FOR_MARKS = "asyncmark", "wait_asyncmark"
BARRIER, SIGNAL, MEET = "s_barrier", "s_barrier_signal", "s_barrier_wait"
WORKGROUP = "-1"  # of the barriers that are signalled, the one at which all waves of a workgroup meet

# Queues that are done in order, with the counters that say how much of them is not.
LDS, VECTOR, ASYNC, TENSOR = "ds", "vm", "async", "tensor"
COUNTERS = {"lgkmcnt": LDS, "vmcnt": VECTOR}
WAITS: dict[str, tuple[str, ...]] = {
    "s_wait_dscnt": (LDS,),
    "s_wait_loadcnt_dscnt": (LDS,),
    "s_wait_storecnt_dscnt": (LDS,),
    "s_wait_asynccnt": (ASYNC,),
    "s_wait_tensorcnt": (TENSOR,),
    "s_wait_idle": (LDS, ASYNC, TENSOR),
}
OTHERS = (*WAITS, "s_waitcnt", MARK, WAIT_FOR_MARKS, *CALLS)
LOW_BITS = 0x3F  # of a wait for two counters, those for LDS
NO_ACCESS = re.compile(r"ds_(bpermute|permute|swizzle|nop)")  # counted, though they touch no memory
NOT_COUNTED = re.compile(r"(buffer|global)_(inv|wb|prefetch)")
MOST_BEHIND, MOST_MARKS = 64, 16  # farther back is not told apart


@dataclass(frozen=True, slots=True)
class CodeLine:
    name: str
    operands: str
    line: int


@dataclass(slots=True)
class CodeBlock:
    """Instructions up to the next label or jump, and the blocks that may follow."""

    code: list[CodeLine] = field(default_factory=list)
    after: list[int] = field(default_factory=list)


@dataclass(slots=True)
class Followed:
    """What was found on all paths of a function, by lines of the text."""

    barriers: dict[int, tuple[int, ...]] = field(default_factory=dict)  # with the accesses in flight at each
    missed: dict[int, tuple[int, ...]] = field(default_factory=dict)  # waits for marks, with copies that they miss
    between: set[int] = field(default_factory=set)  # accesses between a signal and its wait
    calls: int = 0  # what is called is not followed


# --- reading ------------------------------------------------------------------------------------------------------


def read_assembly(text: str) -> list[list[CodeBlock]]:
    """Each function as its blocks in their order; the first is its entry."""
    functions: list[list[CodeBlock]] = []
    labels: list[dict[str, int]] = []
    is_inside = False
    for number, line in enumerate(text.split("\n"), 1):
        if FUNCTION_ENDS.match(line):
            is_inside = False
        elif label := LABEL.match(line):
            if not is_inside:
                functions.append([])
                labels.append({})
                is_inside = True
            labels[-1][label[1]] = len(functions[-1])
            functions[-1].append(CodeBlock())
        elif is_inside and (found := INSTRUCTION.match(line)):
            functions[-1][-1].code.append(CodeLine(found[1], found[2].strip(), number))
            if found[1].startswith(JUMPS):  # a label need not stand behind it
                functions[-1].append(CodeBlock())
    for blocks, places in zip(functions, labels, strict=True):
        _link(blocks, places)
    return functions


def _link(blocks: list[CodeBlock], places: dict[str, int]) -> None:
    """Blocks that follow each other."""
    for number, block in enumerate(blocks):
        names = [each.name for each in block.code]
        block.after = [places[each.operands] for each in block.code if each.name.startswith(BRANCHES)]
        if not any(name in LEAVES for name in names) and number + 1 < len(blocks):
            block.after.append(number + 1)


def barriers_in(text: str) -> int:
    """In all functions; a signal stands for itself and its wait."""
    code = (each for blocks in read_assembly(text) for block in blocks for each in block.code)
    return sum(_is_barrier(each) for each in code)


def _is_barrier(one: CodeLine) -> bool:
    """Where a wave says that it is there, to all of its workgroup or to a part of it."""
    return one.name == BARRIER or one.name.startswith(SIGNAL)


# --- what is in flight --------------------------------------------------------------------------------------------

# An access by its queue, its line and the marks since: the fewest instructions of its queue behind it, on any path.
State = dict[tuple[str, int, int], int]
OPEN_SIGNAL = ("signal", 0, 0)  # whose wait is still to come


def follow(blocks: list[CodeBlock]) -> Followed:
    """Walks all paths until nothing new is found, then looks once at each block."""
    events = [[each for each in block.code if _matters(each)] for block in blocks]
    before: list[State | None] = [{}] + [None] * (len(blocks) - 1)
    todo = [0]
    while todo:
        number = todo.pop()
        state = dict(before[number] or {})
        for each in events[number]:
            state = _step(state, each)
        todo += [each for each in blocks[number].after if _join(before, each, state)]
    found = Followed()
    for known, code in zip(before, events, strict=True):
        if known is not None:
            _look(dict(known), code, found)
    return found


def _matters(one: CodeLine) -> bool:
    return bool(queue_of(one)) or one.name in OTHERS or one.name.startswith(BARRIER)


def queue_of(one: CodeLine) -> str:
    """The queue of a memory instruction; none for others."""
    name = one.name
    if name.startswith("ds_"):
        return LDS
    if "_async_to_lds" in name or "_async_from_lds" in name:
        return ASYNC
    if name.startswith("tensor_"):
        return TENSOR
    is_vector = name.startswith(("buffer_", "global_", "scratch_", "flat_"))
    return VECTOR if is_vector and not NOT_COUNTED.match(name) else ""


def touches_lds(one: CodeLine) -> bool:
    queue = queue_of(one)
    if queue == VECTOR:
        return "_lds_" in one.name or " lds" in one.operands
    return bool(queue) and not NO_ACCESS.match(one.name)


def _step(state: State, one: CodeLine) -> State:
    """What is in flight behind an instruction."""
    queue = queue_of(one)
    if queue:
        state = {key: min(behind + (key[0] == queue), MOST_BEHIND) for key, behind in state.items()}
        if touches_lds(one):
            state[queue, one.line, 0] = 0
    elif one.name == MARK:
        state = _marked(state)
    elif one.name.startswith(SIGNAL) and one.operands == WORKGROUP:
        state[OPEN_SIGNAL] = 0
    elif one.name == MEET and one.operands == WORKGROUP:
        state.pop(OPEN_SIGNAL, None)
    for waited, count in waits_of(one):
        state = {key: behind for key, behind in state.items() if key[0] != waited or behind < count}
    return state


def _marked(state: State) -> State:
    """With one mark more behind all copies."""
    found: State = {}
    for (queue, line, marks), behind in state.items():
        key = (queue, line, min(marks + (queue == VECTOR), MOST_MARKS))
        found[key] = min(behind, found.get(key, MOST_BEHIND))
    return found


def waits_of(one: CodeLine) -> Iterator[tuple[str, int]]:
    """Queues that an instruction waits for, and how much may stay in flight."""
    if one.name == "s_waitcnt":
        for counter, count in re.findall(r"(\w+)\((\d+)\)", one.operands):
            if counter in COUNTERS:
                yield COUNTERS[counter], int(count)
    for queue in WAITS.get(one.name, ()):
        count = int(one.operands or "0", 0)
        yield queue, count & LOW_BITS if one.name.endswith("cnt_dscnt") else count


def _join(before: list[State | None], target: int, state: State) -> bool:
    """Adds what is in flight at the end of one block to what may be at the start of another; whether that is new."""
    known = before[target]
    if known is None:
        before[target] = dict(state)
        return True
    new = {key: behind for key, behind in state.items() if behind < known.get(key, MOST_BEHIND + 1)}
    known.update(new)
    return bool(new)


def _look(state: State, code: list[CodeLine], found: Followed) -> None:
    """What is wrong in one block."""
    asked: list[CodeLine] = []  # waits for marks; what carries them out stands behind them
    for one in code:
        if one.name != WAIT_FOR_MARKS and not any(True for _ in waits_of(one)):
            _ask(state, asked, found)
            asked = []
        if one.name == WAIT_FOR_MARKS:
            asked.append(one)
        elif _is_barrier(one):
            known = found.barriers.get(one.line, ())  # of another copy of this block
            found.barriers[one.line] = tuple(sorted({*known, *(line for kind, line, _ in state if kind == LDS)}))
        elif OPEN_SIGNAL in state and touches_lds(one):
            found.between.add(one.line)
        found.calls += one.name in CALLS
        state = _step(state, one)
    _ask(state, asked, found)


def _ask(state: State, asked: list[CodeLine], found: Followed) -> None:
    for one in asked:
        left = int(one.operands.strip("()"))
        lines = {line for kind, line, marks in state if kind == VECTOR and marks > left}
        if lines:
            found.missed[one.line] = tuple(sorted(lines))
