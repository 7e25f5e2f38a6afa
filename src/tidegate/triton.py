"""Tidegate in the place of Triton's barrier pass.

    import tidegate.triton

    tidegate.triton.install()            # from now on, in this process
    with tidegate.triton.enabled():      # or for a while
        kernel[grid](...)
    print(tidegate.triton.report())      # what was changed, and why

Nothing of Triton is imported before one of these is called.
"""

from tidegate.hosts.dropin import Report
from tidegate.hosts.dropin.final import RaceWarning
from tidegate.hosts.triton.dropin.records import Entry, FallbackWarning, clear_report, report
from tidegate.hosts.triton.dropin.switch import Options, UnsupportedTriton, disabled, enabled, install, uninstall
from tidegate.hosts.triton.dropin.tuning import tunable, with_plans

__all__ = [
    "Entry",
    "FallbackWarning",
    "Options",
    "RaceWarning",
    "Report",
    "UnsupportedTriton",
    "clear_report",
    "disabled",
    "enabled",
    "install",
    "report",
    "tunable",
    "uninstall",
    "with_plans",
]
