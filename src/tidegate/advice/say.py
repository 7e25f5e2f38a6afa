"""Advice as findings.

Needs   one piece of advice, and the graph it is about
Gives   a finding: where, what could be less, who says so, and what to write
Keeps   the text depends on the advice alone
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegate.advice.model import Less
from tidegate.diag import Finding, Label
from tidegate.explanation.changes import show_sync
from tidegate.graph import model as g
from tidegate.language.show import show_op
from tidegate.placement.groups import OBJECT, STAGGER, how_often
from tidegate.placement.pieces import Piece

if TYPE_CHECKING:
    from tidegate.synchronize.counts import Looser

PROVED, SHOWN = "proved {}: {}", "no error in simulation {}: {}"


def say_less(less: Less, graph: g.SyncGraph) -> Finding:
    piece = less.piece
    message, text, help = _words(less)
    labels = [Label(graph.points[point].at, "and here") for point in piece.points]
    labels[0] = Label(labels[0].at, text)
    notes = (
        "" if labels[0].at.line else f"point {piece.points[0]}: `{show_sync(graph, piece.points[0])}`",
        (PROVED if less.proof.by == "verifier" else SHOWN).format(_how(less, graph), less.proof.text),
        f"`{less.more}` is too loose" if less.more else "",
        *(f"{_where(other, graph)} could be removed instead, but not both" for other in less.or_else),
    )
    return Finding(
        less.code,
        message,
        _once(labels),
        tuple(filter(None, notes)),
        help,
        (
            ("points", piece.points),
            ("weight", piece.weight),
            ("instead", next(show_op(less.op)) if less.op is not None else None),
            ("by", less.proof.by),
            ("or_else", tuple(point for each in less.or_else for point in each.points)),
            ("along", tuple(point for each in less.along for point in each.points)),
        ),
    )


def say_looser(looser: Looser) -> Finding:
    """A wait of assembly: what of it is enough for registers, global memory and shared memory."""
    from tidegate.hosts.amdgcn.needs import GONE

    enough = [
        f"`{name}({most})` is enough instead of `{name}({old})`" for name, old, most in looser.parts if most < GONE
    ]
    none = [f"`{name}({old})` is not needed" for name, old, most in looser.parts if most >= GONE]
    notes = ["no register, no access to global memory and no proof about shared memory needs more"]
    notes += [f"one more would be too many: {each}" for each in dict.fromkeys(looser.next_)]
    witness = (
        ("instead", looser.text or None),
        (
            "counts",
            tuple((name, (("is", old), ("enough", most if most < GONE else None))) for name, old, most in looser.parts),
        ),
    )
    if not looser.text:
        return Finding("TG406", "this wait is redundant", (Label(looser.at),), tuple(notes[:1]), "remove it", witness)
    label = Label(looser.at, "; ".join((*enough, *none)))
    help_ = f"write `{looser.text}`"
    return Finding("TG405", "this wait waits for more than needed", (label,), tuple(notes), help_, witness)


def _once(labels: list[Label]) -> tuple[Label, ...]:
    """One for each place; what has none, once."""
    return tuple({label.at: label for label in reversed(labels)}.values())[::-1]


def _words(less: Less) -> tuple[str, str, str]:
    """The message, what is said of the place, and the way out."""
    kind = less.piece.kind
    name = f"this {kind}"
    weight = how_often(less.piece.tally, less.piece.weight)
    instead = f"write `{next(show_op(less.op))}`" if less.op is not None else ""
    match less.code:
        case "TG402":
            name = "this stagger" if kind == STAGGER else f"this pinned {kind}"
            if less.along:
                but = "the stagger" if any(each.kind == STAGGER for each in less.along) else "others like it"
                return f"apart from {but}, no access needs {name}", weight, ""
            return f"no access needs {name}: it only orders the schedule", weight, ""
        case "TG404":
            return f"{name} does more than needed", less.what, instead
        case "TG405":
            return f"{name} waits for more than needed", less.what, instead
    ways = "remove all of it" if len(less.piece.points) > 1 or kind == OBJECT else "remove it"
    return f"{name} is redundant", weight, ways


def _how(less: Less, graph: g.SyncGraph) -> str:
    if less.op is not None:
        return f"with `{next(show_op(less.op))}`"
    along = ", ".join(_where(each, graph) for each in less.along)
    return f"without it and without {along}" if along else "without it"


def _where(piece: Piece, graph: g.SyncGraph) -> str:
    lines = sorted({graph.points[point].at.line for point in piece.points})
    word, numbers = ("line", lines) if all(lines) else ("point", list(piece.points))
    if len(numbers) == 1:
        return f"the {piece.kind} in {word} {numbers[0]}"
    return f"the {piece.kind} in {word}s {', '.join(map(str, numbers[:-1]))} and {numbers[-1]}"
