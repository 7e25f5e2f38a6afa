"""A trace of Wave, synchronized where it is: a trace cannot be copied.

Needs   a trace with its graph, and the options of `sync`
Gives   `Synchronized`: what was inserted, and what `check` says of the trace as it then stands
Keeps   the trace is as it was where the barriers cannot be placed, or are not proved
Cost    that of placing barriers, and of a check
"""

from __future__ import annotations

from dataclasses import replace

from tidegate.diag import BadInput, Finding
from tidegate.hosts.wave.build import build
from tidegate.hosts.wave.dropin.checking import WaveProgram, check_program, session_of
from tidegate.hosts.wave.dropin.passing import Options, place_barriers
from tidegate.synchronize import Synchronized, SyncOptions


def synchronize_in_place(program: WaveProgram, options: SyncOptions) -> Synchronized:
    """Of the options a trace has `strategy`, `remove_redundant` and `judge`; others raise `BadInput`."""
    known = SyncOptions(strategy=options.strategy, remove_redundant=options.remove_redundant, judge=options.judge)
    if options != known:
        help = "`strategy`, `remove_redundant` and `judge` are"
        raise BadInput(Finding("TG022", "this option of `sync` is not there for traces of Wave", (), help=help))
    result = Synchronized(session_of(program), options, [], graph=program.built.graph)
    wanted = Options(verify=options.judge, strategy=options.strategy, remove_redundant=options.remove_redundant)
    found = place_barriers(program.trace, program.context, program.target, wanted, program.name)
    result.why_not = found.why_not
    if found.why_not:
        return result
    after = replace(program, built=build(program.trace, program.context, program.target, name=program.name))
    result.made, result.listing = session_of(after), "\n".join(found.reasons) or "nothing had to be inserted"
    if options.judge:
        result.checked = check_program(after)
    return result
