"""What `sync` says about a program, as lines and as JSON."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from tidegate.cli.grouping import MOST_FINDINGS, Grouped, count_all, group

if TYPE_CHECKING:
    from tidegate.graph.barriers import Tally
    from tidegate.graph.flow import Flow
    from tidegate.graph.model import SyncGraph
    from tidegate.graph.plan import Edit
    from tidegate.hazards.model import Hazard
    from tidegate.hosts.isa.edits import TextEdit
    from tidegate.synchronize import Synchronized

MOST_LINES = 5


def report(result: Synchronized, most: int = MOST_FINDINGS, *, printed: str | None = None) -> list[str]:
    """What was done, why nothing was, and what the judge covered. `most`: findings that are shown."""
    unit = result.unit
    who = f"@{unit.name} on {unit.target.name or 'no target'}"
    if result.placed is None and not result.plan.edits and result.why_not:
        return [f"{who}: not synchronized: {result.why_not}"]
    planned = ", planned" if result.made is None else ""
    lines = [f"{who}, {_how(result)}{planned}: {_counts(result)}"]
    lines += [f"  {line}" for line in (*_weight(result), *_unplaced(result))]
    lines += [f"  note: {note}" for note in result.notes]
    lines += [f"  {line}" for line in _judged(result, most, printed)]
    return lines


def _strategy(result: Synchronized) -> str:
    from tidegate.synchronize.instructions import final_of

    if final_of(result.unit) is not None:
        return "in place"
    return result.placed.strategy if result.placed is not None else "forced"


def _how(result: Synchronized) -> str:
    """The strategy, and how the plan differs from what that alone gives."""
    from tidegate.graph.plan import Insert
    from tidegate.language.ops import Signal
    from tidegate.synchronize.pricing import WORDS

    placed = result.placed
    if placed is None:
        return _strategy(result)
    inserted = [each.op for each in result.plan.edits if isinstance(each, Insert)]
    whole = placed.weight and not any(isinstance(op, Signal) for op in inserted)
    said = (
        placed.strategy,
        "whole barriers" if placed.strategy == "intersecting" and whole else "",
        WORDS[placed.waits] if placed.waits != "merged" else "",
        "waits unchanged" if placed.keeps_waits else "",
        "redundant edits dropped" if result.refined else "",
    )
    return ", ".join(filter(None, said))


def _counts(result: Synchronized) -> str:
    from tidegate.synchronize.said import count_edits

    parts = [f"{what} {_listed(found)}" for what, found in count_edits(result).items() if found]
    return "; ".join(parts) or "nothing changed"


def _listed(found: Counter[str]) -> str:
    return ", ".join(f"{count} `{word}`" for word, count in found.items())


def _weight(result: Synchronized) -> list[str]:
    """The barriers of the program as it is now, what the new ones of them weigh, and whether less would do."""
    from tidegate.graph.barriers import tally, tally_inserted

    graph, after = result.graph, after_plan(result)
    if graph is None or after is None:
        return []
    new, now = tally_inserted(result.plan, graph), tally(after)
    best = result.placed.optimum if result.placed is not None and not result.left_out else None
    is_mixed = new.weight != now.weight and (new.barriers or best is not None)  # a bound is one of what is inserted
    weight = f"{now}, {new.weight:g} of it inserted" if is_mixed else str(now)
    if best is None:
        return [weight] if now.barriers else []
    if best.proven and new.weight <= best.bound:
        less = "no lighter plan can be proved" if best.judged else "no lighter plan serves these hazards"
        return [f"{weight}, bound {best.bound:g}: {less}"]
    gap = f"{(new.weight - best.bound) / new.weight:.0%}" if new.weight else "0%"
    end = "the search reached its limit" if best.judged else "the search ran out of time"
    why = "waits need extra barriers" if best.proven else end
    return [f"{weight}, bound {best.bound:g}: a plan up to {gap} lighter may exist; {why}"]


def after_plan(result: Synchronized) -> SyncGraph | None:
    """The program with the plan carried out, also where it was only planned."""
    from tidegate.graph.apply import apply_to_graph

    if result.after is not None or result.graph is None:
        return result.after
    return apply_to_graph(result.plan, result.graph)


def tally_to_json(found: Tally) -> dict[str, object]:
    """Barriers as `docs/json.md` describes them."""
    return {"barriers": found.barriers, "in_loops": found.in_loops, "weight": found.weight}


def _unplaced(result: Synchronized) -> list[str]:
    from tidegate.synchronize.said import describe_unplaced

    found = describe_unplaced(result)
    judged = "; the judge finds no race there" if result.checked is not None else ""
    lines = [f"not ordered: {each}{judged}" for each in found[:MOST_LINES]]
    return [*lines, *([f"and {len(found) - MOST_LINES} more"] if len(found) > MOST_LINES else [])]


def _judged(result: Synchronized, most: int, printed: str | None) -> list[str]:
    from tidegate.decided import show_decided
    from tidegate.synchronize.model import AS_WRITTEN

    if result.doubt:
        return [f"{AS_WRITTEN}: {result.doubt}"]
    if result.checked is None:
        return [f"not judged: {result.why_not or '`--no-judge`'}"]
    if not (result.checked.is_decided or result.unit.graph.maps):
        return [f"not judged: {result.checked.why_not}"]
    errors = [each for each in result.checked.findings if each.severity == "error"]
    return [
        f"{group(errors, most).said} afterwards",
        *(show_decided(result.checked).splitlines() if printed not in ("judge", "verify") else []),
    ]


# --- JSON ---------------------------------------------------------------------------------------------------------


def to_json(
    file: str, output: Path | None, text: str | None, results: list[Synchronized], groups: list[Grouped]
) -> dict[str, object]:
    """A versioned document; `docs/json.md` describes its fields."""
    from tidegate.diag import findings_to_json

    facts: dict[str, object] = {
        "file": file,
        "output": str(output) if output is not None and text is not None else None,
        "text": text,
        "programs": [_program(each) for each in results],
    }
    return findings_to_json([finding for each in groups for finding in each.shown], **facts, **count_all(groups))


def _program(result: Synchronized) -> dict[str, object]:
    from tidegate.graph.barriers import tally
    from tidegate.synchronize.said import unplaced_of

    placed, found = result.placed, result.hazards
    hazards = placed.hazards if placed is not None else found.hazards if found is not None else ()
    optimum = placed.optimum if placed is not None else None
    flow = found.flow if found is not None else None
    return {
        "program": f"@{result.unit.name} on {result.unit.target.name or 'no target'}",
        "strategy": _strategy(result) if result.plan.edits or result.edits or placed is not None else None,
        "plan": [*_plan(result, hazards), *map(_text_edit, result.edits)],
        "left_out": result.left_out,
        "hazards": [hazard_to_json(each, flow) for each in hazards if flow is not None],
        "unplaced": [{**hazard_to_json(each.hazard, flow), "why": each.why} for each in unplaced_of(result) if flow],
        "weight": _inserted(result),
        "tally": tally_to_json(tally(after)) if (after := after_plan(result)) is not None else None,
        "bound": optimum.bound if optimum is not None else None,
        "proven": optimum.proven if optimum is not None else None,
        "notes": list(result.notes),
        "why_not": result.why_not or None,
        "verified": _verification(result),
        "judged": _judgement(result),
    }


def _inserted(result: Synchronized) -> float | None:
    """The weight of the barriers that were inserted; None where none were placed."""
    from tidegate.graph.barriers import tally_inserted

    if result.placed is None or result.graph is None:
        return None
    return tally_inserted(result.plan, result.graph).weight


def _verification(result: Synchronized) -> dict[str, object] | None:
    from tidegate.cli.say import verification_to_json

    known = result.checked is not None and result.checked.verification is not None
    return verification_to_json(result.checked) if known and result.checked is not None else None


def _judgement(result: Synchronized) -> dict[str, object] | None:
    ran = result.checked.judgement if result.checked is not None else None
    if ran is None:
        return None
    return {
        "configurations": ran.configurations,
        "runs": ran.runs,
        "steps": ran.steps,
        "orders": ran.orders,
        "covered": ran.covered,
        "bounded": ran.bounded,
    }


def _plan(result: Synchronized, hazards: tuple[Hazard, ...]) -> list[dict[str, object]]:
    from tidegate.synchronize.written import hazards_served

    numbers = {id(each): number for number, each in enumerate(hazards)}
    served = hazards_served(result)
    return [
        {**_edit(edit, result), "serves": [numbers[id(each)] for each in why], "why": list(edit.serves)}
        for edit, why in zip(result.plan.edits, served, strict=True)
    ]


def _text_edit(edit: TextEdit) -> dict[str, object]:
    """Of final instructions: by its line, since an instruction stands at several points."""
    return {
        "edit": edit.what,
        "op": edit.text,
        "point": None,
        "line": edit.at.line,
        "serves": [],
        "why": [edit.why],
    }


def _edit(edit: Edit, result: Synchronized) -> dict[str, object]:
    from tidegate.graph.model import Sync
    from tidegate.graph.plan import Change, Delete, Insert
    from tidegate.language.show import show_op

    assert result.graph is not None
    assert isinstance(edit, Insert | Change | Delete)
    point = edit.before if isinstance(edit, Insert) else edit.point
    old = result.graph.points[point].action
    op = old.op if isinstance(edit, Delete) and isinstance(old, Sync) else getattr(edit, "op", None)
    return {
        "edit": type(edit).__name__.lower(),
        "op": next(show_op(op)) if op is not None else "",
        "point": point,
        "line": result.graph.points[point].at.line or None,
    }


def hazard_to_json(hazard: Hazard, flow: Flow) -> dict[str, object]:
    """A hazard as `docs/json.md` describes it."""
    from tidegate.hazards.show import loop_name

    witness = hazard.witness
    return {
        "kind": hazard.kind.name,
        "producer": end_to_json(flow, hazard.producer, witness.x_wave, witness.x_iterations),
        "consumer": end_to_json(flow, hazard.consumer, witness.y_wave, witness.y_iterations),
        "loop": loop_name(flow, hazard.loop) if hazard.loop >= 0 else None,
        "distance": hazard.distance,
        "demand": hazard.demand,
        "buffer": witness.buffer,
        "bytes": [witness.first, witness.last],
        "sizes": dict(witness.sizes),
        "exact": hazard.exact,
    }


def end_to_json(flow: Flow, node: int, wave: int, iterations: tuple[tuple[int, int], ...]) -> dict[str, object]:
    from tidegate.hazards.show import loop_name

    point = flow.point(node)
    return {
        "point": flow.origin[node],
        "line": point.at.line or None,
        "statement": point.label,
        "wave": wave,
        "iterations": {loop_name(flow, loop): number for loop, number in iterations},
    }
