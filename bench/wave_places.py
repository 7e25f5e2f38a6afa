"""Tidegate's barriers in the place of Wave's, for benches that hand in a pass.

python -m bench.wave_run --place bench.wave_places:tidegate
python -m bench.wave_run --place bench.wave_places:tidegate_counts
"""

from __future__ import annotations

from typing import Any

from tidegate.hosts.wave.context import context_of
from tidegate.hosts.wave.dropin.passing import Options, place_barriers
from tidegate.targets import load_target


def tidegate(trace: Any, constraints: Any, options: Any) -> None:
    """Waits that drain."""
    _place(trace, constraints, options, Options())


def tidegate_counts(trace: Any, constraints: Any, options: Any) -> None:
    """Waits with counts."""
    _place(trace, constraints, options, Options(counts=True))


def _place(trace: Any, constraints: Any, options: Any, chosen: Options) -> None:
    found = place_barriers(trace, context_of(constraints), load_target(options.target), chosen)
    if found.why_not:
        raise RuntimeError(found.why_not)
