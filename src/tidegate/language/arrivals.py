"""How often a wave arrives at a barrier, as a sum of products.

Needs   factors as text: trip counts, conditions; counters in them are numbered from outside in, as in `#0`
Gives   arithmetic on `Arrivals`, and their text
Keeps   two equal sums are equal numbers; two different ones may be equal numbers all the same
"""

from __future__ import annotations

# Factors (trip counts, conditions) in order → how many arrivals.
Arrivals = dict[tuple[str, ...], int]
# How counters are shown, from outside in.
COUNTERS = "ijklmn"


def add_arrivals(total: Arrivals, more: Arrivals) -> None:
    for key, count in more.items():
        total[key] = total.get(key, 0) + count
        if not total[key]:
            del total[key]


def either(test: str, then: Arrivals, other: Arrivals) -> Arrivals:
    """other + [cond] · (then − other): all waves take the same arm."""
    total = dict(other)
    add_arrivals(total, {ordered((test, *key)): count for key, count in then.items()})
    add_arrivals(total, {ordered((test, *key)): -count for key, count in other.items()})
    return total


def ordered(factors: tuple[str, ...]) -> tuple[str, ...]:
    """Factors commute, unless one depends on the counter of another."""
    return factors if any("#" in each for each in factors) else tuple(sorted(factors))


def show_arrivals(found: Arrivals) -> str:
    if not found:
        return "no arrivals"
    parts = [" × ".join((str(count), *key)) for key, count in sorted(found.items())]
    text = " + ".join(parts)
    for depth in range(len(COUNTERS)):
        text = text.replace(f"#{depth}", COUNTERS[depth])
    return f"{text} arrival{'' if text == '1' else 's'}"
