"""What the verifier found about threads, in words.

Needs   a suspect, and a graph whose accesses have maps of threads
Gives   a finding with both places, the two threads, and the byte
Keeps   a pair that was found exactly has the code of its hazard; one that was widened is TG106
Cost    a question to isl for the witness
"""

from __future__ import annotations

from tidegate.diag import Facts, Finding, Label
from tidegate.graph import model as g
from tidegate.targets import load_target
from tidegate.verify.model import Suspect, Verification
from tidegate.verify.say import VERBS, WHY, WITHIN_A_WAVE
from tidegate.verify.threads import S, T

WARP = 32
FIX = {
    True: "insert a warp-level barrier between them (`__syncwarp()`, `bar.warp.sync`), or a barrier of the block",
    False: "insert a barrier of the block between them (`__syncthreads()`, `bar.sync 0`)",
}
BARRIER = "insert a barrier between them, behind a wait for what it is to order (`s_waitcnt`, `s_barrier`)"
WAIT = "wait for it first, before the barrier if other waves are concerned (`s_waitcnt`, `s_wait_dscnt`)"


def thread_findings(found: Verification, graph: g.SyncGraph) -> list[Finding]:
    """One for each suspect."""
    return [_finding(each, graph) for each in found.suspects]


def _finding(suspect: Suspect, graph: g.SyncGraph) -> Finding:
    x, y = graph.points[suspect.x], graph.points[suspect.y]
    first, second = suspect.point.value(S), suspect.point.value(T)
    own = first is not None and first == second
    why = (WITHIN_A_WAVE if suspect.within_a_wave else WHY)[suspect.why]
    memory = suspect.point.buffer.removeprefix("%")
    byte = f" byte {suspect.point.byte} of `{memory}`" if suspect.point.value("byte'") is not None else f" `{memory}`"
    labels = (
        Label(y.at, f"{_who(second, graph)} {_verb(y.action)}{byte}"),
        Label(x.at, f"{_who(first, graph)} {_verb(x.action)} it, unordered with that"),
    )
    names = [(name, value) for name, value in suspect.point.values if not name.endswith("'")]
    numbers = ", ".join(f"{name.lstrip('%')} = {value}" for name, value in names if name.startswith("%"))
    notes = (
        f"hazard: {f'in one {_wave(graph)}, ' if suspect.within_a_wave and not own else ''}{why}",
        f"possible with {numbers}" if numbers else "",
        "" if suspect.exact else "an address or a condition was widened: this may be no race",
    )
    help_ = "wait for the copy first (`cp.async.wait_group`)" if own else FIX[suspect.within_a_wave]
    if _counts(graph):
        help_ = WAIT if own or suspect.within_a_wave or suspect.why == "undrained" else BARRIER
    if suspect.x == suspect.y and suspect.why == "parallel":
        help_ = "let one thread write it, or make sure that all write the same value"
    code, message = _kind(suspect, graph, memory, own)
    point = tuple((name.rstrip("'"), value) for name, value in suspect.point.values)
    threads = tuple(_facts(each, graph) for each in (first, second) if each is not None)
    cause = f"{code} {suspect.point.buffer} {suspect.why} {suspect.within_a_wave}"
    return Finding(
        code, message, labels, tuple(filter(None, notes)), help_, (("threads", threads), ("point", point)), cause
    )


def _kind(suspect: Suspect, graph: g.SyncGraph, memory: str, own: bool) -> tuple[str, str]:
    x, y = (graph.points[each].action for each in (suspect.x, suspect.y))
    reads, written = (isinstance(each, g.Access) and each.effect == "read" for each in (y, x))
    if not suspect.exact:
        return "TG106", f"two accesses to `{memory}` that may be unordered"
    if own:
        return "TG105", f"`{memory}` is touched while a copy of the same thread may be in flight"
    if suspect.within_a_wave:
        return "TG108", f"lanes of one {_wave(graph)} touch the same bytes of `{memory}` without order"
    if reads:
        return "TG101", f"`{memory}` is read while another {_wave(graph)} may still be writing it"
    if written:
        return "TG102", f"`{memory}` is written while another {_wave(graph)} may still be reading it"
    return "TG103", f"`{memory}` is written while another {_wave(graph)} may still be writing it"


def _who(thread: int | None, graph: g.SyncGraph) -> str:
    if thread is None:
        return "a thread"
    return f"thread {thread} ({_wave(graph)} {thread // graph.lanes}, lane {thread % graph.lanes})"


def _wave(graph: g.SyncGraph) -> str:
    """Where tiles of a warp synchronize by themselves, the graph has these for waves."""
    if _counts(graph):
        return "wave"
    return "warp" if graph.lanes >= WARP else "group"


def _counts(graph: g.SyncGraph) -> bool:
    """Whether waits are for counts of single instructions, as AMD's are, and its users call waves by that name."""
    return bool(graph.target) and load_target(graph.target).vendor == "AMD"


def _facts(thread: int, graph: g.SyncGraph) -> Facts:
    wave = "wave" if _counts(graph) else "warp"
    return (("thread", thread), (wave, thread // graph.lanes), ("lane", thread % graph.lanes))


def _verb(action: g.Action) -> str:
    return VERBS[action.effect] if isinstance(action, g.Access) else "may touch"
