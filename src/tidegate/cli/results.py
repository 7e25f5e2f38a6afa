"""What a run gave, as text and files: tables of counters and phases, arrays beside the reference."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidegate.cli.say import say, say_table, stop, write

if TYPE_CHECKING:
    from tidegate.simulate.hostile import HostileRun


def say_counters(ran: HostileRun) -> None:
    waves = ran.statistics.waves
    names = list(dict.fromkeys(name for wave in waves for name in wave.in_flight))
    rows = [[str(wave.in_flight.get(name, 0)) for name in names] for wave in waves]
    _say_table(ran, "most in flight", names, rows)


def say_phases(ran: HostileRun) -> None:
    waves = ran.statistics.waves
    barriers = list(dict.fromkeys(each for wave in waves for each in wave.departures))
    names = [str(each).replace("`", "").removeprefix("the ") for each in barriers]
    rows = [[str(wave.departures.get(each, 0)) for each in barriers] for wave in waves]
    _say_table(ran, "departures", names, rows)


def _say_table(ran: HostileRun, what: str, names: list[str], rows: list[list[str]]) -> None:
    """One row for each wave, indented below the kernel's own line."""
    if not names:
        say(f"  {what}: none")
        return
    title = f"{what} in any workgroup" if ran.statistics.workgroups > 1 else what
    say_table([[title, *names], *([f"wave {wave}", *row] for wave, row in enumerate(rows))], indent=2)


def compare(name: str, result: Any, expected: Any, tolerance: tuple[float, float]) -> int:
    import numpy as np

    try:
        got, want = np.asarray(result, np.float64), np.asarray(expected, np.float64)
    except (TypeError, ValueError):
        stop(f"`reference` returns no array of numbers for `{name}`", "return an array of its shape")
    within = f"tolerance {tolerance[0]:g} relative, {tolerance[1]:g} absolute"
    good = got.shape == want.shape and bool(np.allclose(got, want, *tolerance, equal_nan=True))
    if got.shape != want.shape:
        say(f"  {name}: DIFFERS FROM the reference, other shape")
    elif good:
        largest = np.max(np.abs(got - want), initial=0)
        say(f"  {name}: equals the reference, largest difference {largest:.3g}, {within}")
    else:
        wrong = np.argwhere(~np.isclose(got, want, *tolerance, equal_nan=True))
        first = tuple(int(each) for each in wrong[0])
        where = f"first at [{', '.join(map(str, first))}]: {got[first]:.4g}, not {want[first]:.4g}"
        say(f"  {name}: DIFFERS FROM the reference in {len(wrong)} of {got.size} elements, {where}, {within}")
    return 0 if good else 1


def describe(array: Any) -> str:
    """Shape, element type and range of an array that was written."""
    import numpy as np

    numbers = np.asarray(array, np.float64)
    shape = "x".join(map(str, array.shape)) or "one"
    if not numbers.size:
        return f"{shape} {array.dtype}, written"
    with np.errstate(all="ignore"):
        found = (numbers.min(), numbers.mean(), numbers.max())
    low, mean, high = (f"{number:.4g}" for number in found)
    return f"{shape} {array.dtype}, written: min {low}, mean {mean}, max {high}"


def has_new_nan(result: Any, before: Any) -> bool:
    """Whether a run has put something into an array that is no number."""
    import numpy as np

    after, given = (np.isnan(np.asarray(each, np.float64)).any() for each in (result, before))
    return bool(after and not given)


def save(path: Path, arrays: dict[str, Any]) -> None:
    """NumPy's files know no bf16 and no 8-bit floats (kind `V`): these are saved as f32, which holds them exactly."""
    import numpy as np

    known = {name: each.astype(np.float32) if each.dtype.kind == "V" else each for name, each in arrays.items()}
    made = BytesIO()
    np.savez(made, **known)
    write(path, made.getvalue())
