"""Tidegate in the place of Wave's barrier pass and of its ping-pong pass; and a checker for Wave traces.

    import tidegate.wave

    tidegate.wave.install()                       # from now on, in this process
    with tidegate.wave.enabled(counts=True):      # or for a while
        wave_compile(options, kernel)
    print(tidegate.wave.report())                 # what was put in, and why

    with tidegate.wave.traces() as found:         # whoever places barriers
        wave_compile(options, kernel)
    tidegate.wave.check(found.found[0].trace)     # are they enough?

Nothing of Wave is imported before one of these is called.
"""

from tidegate.hosts.dropin import Report
from tidegate.hosts.dropin.final import RaceWarning
from tidegate.hosts.wave.dropin.checking import check
from tidegate.hosts.wave.dropin.passing import Options
from tidegate.hosts.wave.dropin.records import Entry, FallbackWarning, clear_report, report
from tidegate.hosts.wave.dropin.switch import (
    NotPlaced,
    Traced,
    Traces,
    UnsupportedWave,
    disabled,
    enabled,
    install,
    traces,
    uninstall,
)

__all__ = [
    "Entry",
    "FallbackWarning",
    "NotPlaced",
    "Options",
    "RaceWarning",
    "Report",
    "Traced",
    "Traces",
    "UnsupportedWave",
    "check",
    "clear_report",
    "disabled",
    "enabled",
    "install",
    "report",
    "traces",
    "uninstall",
]
