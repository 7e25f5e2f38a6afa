"""One access in isl's notation.

Needs   a touch whose expressions are quasi-affine
Gives   `[K] -> { Access[wave, i0] -> bytes[b] : ... }`, where i0 is the iteration of the outermost loop around it
Keeps   the same bytes; what isl cannot express is the whole buffer
Cost    linear in the expressions
"""

from __future__ import annotations

from tidegate.footprint.model import Touch
from tidegate.index import TRUE, WAVE, Binary, Compare, Cond, Const, Index, Name, why_not_affine
from tidegate.language.points import IslText


def access_map(touch: Touch, counters: list[str], params: list[str]) -> str:
    """All places of an access, joined by `or`; buffers are told apart by the name of the range."""
    variables = {WAVE: "wave", **{name: f"i{place}" for place, name in enumerate(counters)}}
    variables |= {name: _plain(name) for name in params}
    steps = [f"e{place}" for place in range(len(touch.extents))]
    variables |= {name: name for name in (*steps, "b")}
    pieces = []
    for spot in touch.places:
        conds: list[Cond] = [fact for fact in (*touch.facts, spot.cond) if fact != TRUE and not why_not_affine(fact)]
        conds += [Compare(">=", Name(name), Const(0)) for name in counters]
        hidden: list[str] = []
        if spot.start is not None and not why_not_affine(spot.start):
            place: Index = spot.start
            for step, span in zip(steps, touch.extents, strict=True):
                conds += [Compare(">=", Name(step), Const(0)), Compare("<", Name(step), Const(span.count))]
                if span.limit is not None and not why_not_affine(span.limit):
                    conds.append(Compare("<", Name(step), span.limit))
                place = Binary("+", place, Binary("*", Name(step), Const(span.stride)))
            conds += [Compare(">=", Name("b"), place), Compare("<", Name("b"), Binary("+", place, Const(touch.width)))]
            hidden += steps
        text = IslText(variables)
        body = " and ".join(f"({text.cond(cond)})" for cond in conds) or "1 = 1"
        more = "".join(f" and ({each})" for each in text.defined)
        bound = [*hidden, *text.hidden]
        quantified = f"exists {', '.join(bound)} : " if bound else ""
        inside = ", ".join(("wave", *(variables[name] for name in counters)))
        pieces.append(f"Access[{inside}] -> {_plain(spot.buffer)}[b] : {quantified}{body}{more}")
    declared = ", ".join(variables[name] for name in params)
    return f"[{declared}] -> {{ {'; '.join(pieces)} }}"


def _plain(name: str) -> str:
    return "".join(letter if letter.isalnum() else "_" for letter in name)
