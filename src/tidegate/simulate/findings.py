"""Races, inversions and hangs as findings: both places, a witness, and what would have ordered them.

Needs   what the machine found, and for each statement its place and its text
Gives   findings TG101 to TG105 and TG221
Keeps   one finding for each pair of statements; the text depends on the witness alone
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tidegate.diag import Finding, Label, Span
from tidegate.simulate.machine import Machine
from tidegate.simulate.program_order import compare
from tidegate.simulate.races import Clash, Party
from tidegate.simulate.steps import Await


@dataclass(frozen=True, slots=True)
class Statement:
    """Where a step comes from: its place, its text, and the memory that it touches."""

    at: Span
    text: str
    memory: str = ""


HAZARDS = {
    "TG101": "read after write",
    "TG102": "write after read",
    "TG103": "write after write",
}


def clash_finding(clash: Clash, statements: Sequence[Statement], notes: Sequence[str] = ()) -> Finding:
    """The later access first: that is where it shows."""
    code = code_of(clash)
    first, second = clash.first, clash.second
    memory = _memory(clash, statements)
    labels = [
        Label(statements[second.touch.where].at, _label(second, clash)),
        Label(statements[first.touch.where].at, _label(first, clash)),
    ]
    if code == "TG104":
        between = f"always in the wrong order: the second is over before wave {first.wave} comes to the first"
    else:
        between = _missing(clash)
    hazard = HAZARDS.get(_hazard(clash), "")
    texts = (
        f"first `{statements[first.touch.where].text}`, then `{statements[second.touch.where].text}`"
        if not statements[second.touch.where].at.line
        else ""
    )
    said = (f"hazard: {hazard}, {between}", texts, *notes)
    return Finding(code, _message(code, clash, memory), tuple(labels), tuple(filter(None, said)), _help(code, clash))


def code_of(clash: Clash) -> str:
    if clash.kind == "own":
        return "TG105"
    return "TG104" if clash.kind == "inversion" else _hazard(clash)


def _hazard(clash: Clash) -> str:
    if clash.first.touch.effect == "read":
        return "TG102"
    return "TG101" if clash.second.touch.effect == "read" else "TG103"


def _memory(clash: Clash, statements: Sequence[Statement]) -> str:
    names = [statements[party.touch.where].memory.removeprefix("%") for party in (clash.second, clash.first)]
    return next((f"`{name}`" for name in names if name), "shared memory")


def _message(code: str, clash: Clash, memory: str) -> str:
    match code:
        case "TG101":
            return f"{memory} is read while another wave may still be writing it"
        case "TG102":
            return f"{memory} is written while another wave may still be reading it"
        case "TG103":
            return f"{memory} is written while another wave may still be writing it"
        case "TG104":
            verb = {"read": "read", "write": "written", "atomic": "changed"}[clash.second.touch.effect]
            return f"{memory} is always {verb} too early: before another wave's access that comes first in the program"
    if clash.why == "unfenced":
        return f"{memory} is accessed through another proxy without a fence"
    verb = {"read": "read", "write": "written", "atomic": "changed"}[clash.second.touch.effect]
    still = "asynchronous access" if clash.first.touch.is_async else "access"
    return f"{memory} is {verb} while an {still} of the same wave may still be in flight"


def _label(party: Party, clash: Clash) -> str:
    touch = party.touch
    verb = {"read": "reads", "write": "writes", "atomic": "adds to"}[touch.effect]
    may = "may touch" if touch.may else verb
    copy = " asynchronously" if touch.is_async else ""
    low, high = clash.bytes
    loops = "".join(
        f", {name} = {value}" if name != "iteration" else f", iteration {value}" for name, value in touch.loops
    )
    return f"wave {party.wave} {may} bytes {low}..{high}{copy} in phase {party.phase}{loops}"


def _missing(clash: Clash) -> str:
    """What is not there, in words."""
    own = clash.kind == "own"
    match clash.why:
        case "unmet" if own:
            return "nothing between them waits for the first"
        case "unmet" if clash.first.phase or clash.second.phase:
            phases = f"the first is in phase {clash.first.phase} of its wave, the second in phase {clash.second.phase}"
            return f"no barrier that both waves meet at lies between them: {phases}"
        case "unmet":
            return "no barrier that both waves meet at stands between them"
        case "undrained":
            return (
                f"the waves meet between them, but wave {clash.first.wave} does not wait for the first access before it"
            )
        case "unfenced":
            return "performed for generic accesses, but no `fence proxy_async` stands between them"
        case "varies":
            return "which of them comes first depends on who arrives first"


def _help(code: str, clash: Clash) -> str:
    first, second = clash.first.touch, clash.second.touch
    if code == "TG104":
        return "a wave that arrives more often is behind: meet before that, or once more between for each such arrival"
    if clash.why == "unfenced":
        return "put `fence proxy_async` after the first access, before the barrier"
    if clash.why == "varies":
        return "let both waves meet between the two accesses"
    if clash.kind == "race" and first.where == second.where and first.key == second.key:
        return "give each wave bytes of its own, or let one wave alone do it"
    if first.reports is not None:
        return "let the arrival expect the bytes of the copy, and wait for that phase before the second access"
    if first.is_async and (code == "TG105" or clash.why == "undrained"):
        place = "before the second access" if code == "TG105" else "before the barrier that both meet at"
        if any(queue.least == 0 for queue in first.queues):
            return f"wait for the copy's group {place}; a copy is in a group only after `commit_group`"
        return f"put a `wait_count` for the copy {place}, with a count that does not leave it in flight"
    if code == "TG105":
        return "wait for the first access, or put `fence wave` between them"
    if clash.why == "undrained":
        return "use `shared_memory_barrier` there, or wait for the access before the barrier"
    if compare(first.key, second.key) == 0:
        return "let all waves meet between the two, in each arm or program, or keep the bytes apart"
    return f"put `shared_memory_barrier{' wait_async_ops' if first.is_async else ''}` between the two"


def hang_finding(machine: Machine, statements: Sequence[Statement], name: str, notes: Sequence[str] = ()) -> Finding:
    """No wave can go on: what each waits for."""
    here: dict[int, list[int]] = {}
    alike: dict[str, list[int]] = {}
    for wave, step in machine.blocked():
        here.setdefault(step.where, []).append(wave)
        parity = step.parity if isinstance(step, Await) else None
        what = machine.barriers.waits_for(wave, step.barrier, parity)
        alike.setdefault(f"in `{statements[step.where].text}` for {what}", []).append(wave)
    labels = [Label(statements[where].at, f"{_who(waves)} here") for where, waves in here.items()]
    said = [f"{_who(waves)} {what}" for what, waves in alike.items()]
    ended = [str(number) for number, wave in enumerate(machine.waves) if wave.ended]
    if ended:
        said.append(f"ended: wave {', '.join(ended)}")
    return Finding(
        "TG221",
        f"`@{name}` hangs: no wave can go on",
        tuple(labels),
        (*said, *notes),
        "every wave must arrive at a barrier as often as the others wait for it",
    )


def _who(waves: Sequence[int]) -> str:
    return f"wave {waves[0]} waits" if len(waves) == 1 else f"waves {', '.join(map(str, waves))} wait"
