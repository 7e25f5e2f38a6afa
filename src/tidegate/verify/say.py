"""What the verifier found, in words.

Needs   a verification, and the graph it is about
Gives   lines for people; a finding for a suspect that nobody could show
Keeps   the text depends on the verification alone
"""

from __future__ import annotations

from tidegate.diag import Finding, Label
from tidegate.graph import model as g
from tidegate.graph.show import show_action
from tidegate.verify.model import Suspect, Verification

WHY = {
    "unmet": "too few barriers lie between them",
    "undrained": "the waves meet between them, but the first may still be in flight when its wave arrives",
    "unfenced": "no fence between the two proxies lies between them",
    "parallel": "nothing says which of them comes first",
}
VERBS = {"read": "reads", "write": "writes", "atomic": "changes"}


def show_verification(found: Verification, graph: g.SyncGraph) -> str:
    """What is proved, or why nothing is."""
    if found.undecided:
        return f"not proved: {'; '.join(found.undecided)}"
    if found.suspects:
        count = len(found.suspects)
        return f"not proved: {count} pair{'s' * (count != 1)} of accesses that nothing orders"
    return f"proved: {what_is_proved(found, graph)}"


def what_is_proved(found: Verification, graph: g.SyncGraph) -> str:
    sizes = "for all sizes and trip counts" if graph.sizes else "for all trip counts" if graph.loops else ""
    along = "along all paths of its irreducible loops" if found.by_path else ""
    waves = f"{graph.waves} wave{'s' * (graph.waves != 1)} in any order"
    return ", ".join(filter(None, ("no race, inversion or hang", sizes, waves, along)))


def possible(suspect: Suspect, graph: g.SyncGraph, why_not: str) -> Finding:
    """A suspect that the simulator does not show."""
    x, y = graph.points[suspect.x], graph.points[suspect.y]
    wave = ("in one wave",) if suspect.within_a_wave else ()
    why = "nothing between them waits for the first" if suspect.within_a_wave else WHY[suspect.why]
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
        f"not shown by the simulator: {why_not}",
    )
    memory = suspect.point.buffer.removeprefix("%")
    message = f"two accesses to `{memory}` that may not be in order"
    return Finding("TG106", message, labels, tuple(filter(None, notes)), witness=(("point", witness),))


def _who(wave: int | None) -> str:
    return f"wave {wave}" if wave is not None else "a wave"


def _what(action: g.Action) -> str:
    return VERBS[action.effect] if isinstance(action, g.Access) else "may touch"


def _text(graph: g.SyncGraph, number: int) -> str:
    point = graph.points[number]
    return f"{number}: {point.label or show_action(point.action)}"
