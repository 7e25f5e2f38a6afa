"""What the verifier found, in words.

Needs   a verification, or counts that are stale, and the graph they are about
Gives   lines for people; a finding for a suspect that nobody could show, and for each stale count
Keeps   the text depends on the verification alone
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from tidegate.allowing import fence_help
from tidegate.codes import PROXY_READ
from tidegate.diag import Finding, Label
from tidegate.graph import model as g
from tidegate.graph.show import show_action
from tidegate.verify.model import Suspect, Verification
from tidegate.verify.stale import Stale

WHY = {
    "unmet": "too few barriers between them",
    "undrained": "the waves meet between them, but the first may still be in flight when its wave arrives",
    "unfenced": "no proxy fence between them",
    "parallel": "their order is not determined",
}
WITHIN_A_WAVE = {
    "unmet": "nothing between them orders its lanes",
    "undrained": "nothing between them waits for the first",
    "unfenced": WHY["unfenced"],
    "parallel": "the order of its lanes is not determined",
}
MOST_NOTES = 20
VERBS = {"read": "reads", "write": "writes", "atomic": "changes"}


def show_verification(found: Verification, graph: g.SyncGraph) -> str:
    """What is proved, or why nothing is."""
    if found.undecided:
        return f"not proved: {'; '.join(found.undecided)}"
    if found.suspects:
        count = len(found.suspects)
        return f"not proved: {count} unordered pair{'s' * (count != 1)} of accesses{cut_short(found)}"
    if found.outside:
        return f"not proved: {'; '.join(found.outside)}"
    return f"proved: {what_is_proved(found, graph)}"


def cut_short(found: Verification) -> str:
    return f" ({found.cut_short}: there may be more)" if found.cut_short else ""


def what_is_proved(found: Verification, graph: g.SyncGraph) -> str:
    sizes = "for all sizes and trip counts" if graph.sizes else "for all trip counts" if graph.loops else ""
    along = "along all paths of its irreducible loops" if found.by_path else ""
    waves = f"{graph.waves} wave{'s' * (graph.waves != 1)} in any order"
    return ", ".join(filter(None, ("no race, inversion or hang", sizes, waves, along)))


def all_possible(
    suspects: Sequence[Suspect], graph: g.SyncGraph, why_not: Callable[[Suspect], str], most: int
) -> list[Finding]:
    """A finding for each suspect; of many with one cause the first `most` stand for all, since each takes a witness."""
    alike: dict[str, list[Suspect]] = {}
    for each in suspects:
        alike.setdefault(cause_of(each), []).append(each)
    found: list[Finding] = []
    for group in alike.values():
        written = [possible(each, graph, why_not(each)) for each in (group[:most] if most else group)]
        found += [replace(written[0], count=1 + len(group) - len(written)), *written[1:]]
    return found


def possible(suspect: Suspect, graph: g.SyncGraph, why_not: str) -> Finding:
    """A suspect that the simulator does not show."""
    x, y = graph.points[suspect.x], graph.points[suspect.y]
    wave = ("in one wave",) if suspect.within_a_wave else ()
    why = (WITHIN_A_WAVE if suspect.within_a_wave else WHY)[suspect.why]
    sizes = [f"{each.name} = {value}" for each in graph.sizes if (value := suspect.point.value(each.name)) is not None]
    witness = tuple((name.rstrip("'"), value) for name, value in suspect.point.values if name[:2] not in ("x'", "y'"))
    labels = (
        Label(y.at, f"{_who(suspect.point.waves[0 if suspect.within_a_wave else 1])} {_what(y.action)}"),
        Label(x.at, f"{_who(suspect.point.waves[0])} {_what(x.action)}"),
    )
    notes = (
        f"hazard: {', '.join((*wave, why))}",
        "" if y.at.line else f"first `{_text(graph, suspect.x)}`, then `{_text(graph, suspect.y)}`",
        f"possible with {', '.join(sizes)}" if sizes else "",
        f"not reproduced in simulation: {why_not}" if why_not else "",
    )
    memory = suspect.point.buffer.removeprefix("%")
    code, cause = code_of(suspect, graph), cause_of(suspect)
    message, help_ = f"two accesses to `{memory}` that may be unordered", ""
    if code == PROXY_READ:
        message = f"`{memory}` is written through the async proxy behind generic reads, without a fence"
        help_ = fence_help(_name("read", x), _name("write", y), apart=not suspect.within_a_wave)
    return Finding(code, message, labels, tuple(filter(None, notes)), help_, (("point", witness),), cause)


def accepted(suspects: Sequence[Suspect], graph: g.SyncGraph) -> list[Finding]:
    """Notes on pairs that the user allows; the first stands for those beyond the most that are written."""
    found = []
    for each in suspects[:MOST_NOTES]:
        one = possible(each, graph, "")
        notes = (*one.notes, f"`{one.code}` is allowed: the proof assumes that it is harmless")
        found.append(replace(one, notes=notes, help="", allowed=True))
    return [replace(found[0], count=1 + len(suspects) - len(found)), *found[1:]] if found else []


def code_of(suspect: Suspect, graph: g.SyncGraph) -> str:
    action = graph.points[suspect.x].action
    reads = isinstance(action, g.Access) and action.effect == "read"
    return PROXY_READ if suspect.why == "unfenced" and reads else "TG106"


def cause_of(suspect: Suspect) -> str:
    """The same for pairs on one buffer that one barrier may order."""
    return f"TG106 {suspect.point.buffer} {suspect.why} {suspect.within_a_wave}"


def _name(what: str, point: g.Point) -> str:
    return f"the {what} in line {point.at.line}" if point.at.line else f"the {what}"


# --- stale counts -------------------------------------------------------------------------------------------------

COUNT_AGAIN = "recompute the counts: `tidegate sync --tighten-waits`"


def stale_findings(found: Iterable[Stale], graph: g.SyncGraph) -> list[Finding]:
    """One for each name at each wait: what it does not wait for, and the largest count that would do for all of it."""
    together: dict[tuple[int, str, str], list[Stale]] = {}
    for each in found:
        together.setdefault((each.wait, each.name, each.counter), []).append(each)
    return [_stale_finding(each, graph) for each in together.values()]


def _stale_finding(found: list[Stale], graph: g.SyncGraph) -> Finding:
    one = found[0]
    wait, copies = graph.points[one.wait], [graph.points[each.copy] for each in found]
    loose = [each for each in found if each.safe is None]
    safe = None if loose else min(each.safe for each in found if each.safe is not None)
    here = f"`{one.counter}({one.count})`" if one.count is not None else "nothing"
    if safe is None:
        message = f"no count waits for `{one.name}` here: the copy is not in a group yet"
    elif one.count is None:
        message = f"nothing here waits for `{one.name}`: no count of `{one.counter}`"
    else:
        message = f"{here} does not wait for `{one.name}`: {_at_most(safe)}"
    labels = [Label(wait.at, f"{here} may leave it in flight" if one.count is not None else "named here")]
    labels += [Label(each.at, f"`{one.name}` names this") for each in copies]
    notes = []
    if safe is not None and one.count is None:
        notes.append(f"`{one.counter}`: {_at_most(safe)}")
    if not wait.at.line:
        texts = ", ".join(f"`{_text(graph, each.copy)}`" for each in found)
        notes.append(f"`{_text(graph, one.wait)}` names {texts}")
    help_ = (
        COUNT_AGAIN
        if safe is not None
        else "insert `commit_group` between the copy and the wait, and recompute the count"
    )
    witness = (("name", one.name), ("counter", one.counter), ("count", one.count), ("safe", safe))
    return Finding("TG107", message, tuple(labels), tuple(notes), help_, witness)


def _at_most(safe: int) -> str:
    return f"at most {safe} is safe" if safe else "only 0 is safe"


def _who(wave: int | None) -> str:
    return f"wave {wave}" if wave is not None else "a wave"


def _what(action: g.Action) -> str:
    return VERBS[action.effect] if isinstance(action, g.Access) else "may touch"


def _text(graph: g.SyncGraph, number: int) -> str:
    point = graph.points[number]
    return f"{number}: {point.label or show_action(point.action)}"
