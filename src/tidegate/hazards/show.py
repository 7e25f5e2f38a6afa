"""Hazards as text.

Needs   what was found in a flow
Gives   one line for each hazard and for each conflict that no barrier can order
Keeps   in the order in which they were found
Cost    linear
"""

from __future__ import annotations

from tidegate.graph.flow import Flow
from tidegate.hazards.find import Hazards
from tidegate.hazards.model import Hazard


def name_hazard(hazard: Hazard, flow: Flow) -> str:
    """`RAW %a, 5 → 12`, with lines where points have them, and the loop that carries it."""
    text = f"{hazard.kind.name} {hazard.witness.buffer}, {place_of(flow, hazard.producer)} → "
    text += place_of(flow, hazard.consumer)
    if hazard.loop < 0 or not hazard.distance:
        return text
    return f"{text} at {loop_name(flow, hazard.loop)} + {hazard.distance}"


def place_of(flow: Flow, node: int) -> str:
    line = flow.point(node).at.line
    return f"line {line}" if line else str(flow.origin[node])


def loop_name(flow: Flow, loop: int) -> str:
    facts = flow.loops[loop].facts
    return facts.counter if facts and facts.counter else f"loop {loop}"


def describe(hazard: Hazard, flow: Flow) -> str:
    """A hazard with what it demands and a witness."""
    found = hazard.witness
    waves = f"wave {found.x_wave}" if found.x_wave == found.y_wave else f"waves {found.x_wave} and {found.y_wave}"
    needs = "a wait" if not hazard.demand else f"{hazard.demand} arrival{'s' * (hazard.demand != 1)}"
    exact = "" if hazard.exact else ", widened"
    return f"{name_hazard(hazard, flow)}: needs {needs}; {waves}, bytes {found.first}..{found.last}{exact}"


def show_hazards(found: Hazards) -> str:
    lines = [describe(each, found.flow) for each in found.hazards]
    lines += [f"{describe(each.hazard, found.flow)}: cannot be ordered: {each.why}" for each in found.unplaced]
    return "".join(f"{line}\n" for line in lines)
