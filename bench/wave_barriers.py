"""Wave's own kernels: the barriers that Wave puts in, beside those of Tidegate.

`python -m bench.wave_barriers [--target T] [--only NAME,...] [-o OUT.json]` with a Python that has Wave: each kernel of
`oracles/wave_kernels` for each of its targets, on one trace. First Tidegate's barriers are put in, counted, proved and
taken back; then Wave's own pass runs, and the same verifier is asked about what it made. Where that is proved, each
barrier of Wave's is taken away by itself and the verifier asked again: one that it does without is redundant. Barriers
that stood in the trace before (written by hand, or by Wave's ping-pong) are in both, and counted in both.

A pair of signal and wait counts as one barrier. `write ONE.json ...` puts results together to the tables of
docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import re
import sys
import time
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from oracles.wave_kernels import TARGETS, Case, cases, first_error, trace_of
from tidegate.graph import model as g
from tidegate.graph.barriers import MEETING
from tidegate.hosts.wave.build import Built, build
from tidegate.hosts.wave.context import Context, context_of
from tidegate.hosts.wave.dropin.passing import Options, find_doubt, place_barriers
from tidegate.hosts.wave.nodes import SYNCHRONIZATION, op_of
from tidegate.hosts.wave.regions import reached_graphs
from tidegate.hosts.wave.write import take_back
from tidegate.language import ops
from tidegate.targets import Target, load_target
from tidegate.verify.model import Suspect
from tidegate.verify.say import VERBS, WHY
from tidegate.verify.verify import find_wrong, verify

MOST_SUSPECTS = 3  # of one kind that are written down


@dataclass(slots=True)
class Row:
    """What came of one kernel for one target: barriers in loops and outside, waits, and what was found."""

    name: str
    kernel: str
    target: str
    wave: list[int] = field(default_factory=list)  # barriers in loops, outside
    ours: list[int] = field(default_factory=list)
    least: list[int] = field(default_factory=list)  # ours, and what stood there before without what nothing needs
    kind: str = "monolithic"
    wave_waits: list[str] = field(default_factory=list)  # for copies, as Wave drains
    our_waits: list[str] = field(default_factory=list)  # with counts
    unproved: str = ""  # why nothing is said of ours
    needless: list[str] = field(default_factory=list)  # barriers of ours that the proof does without
    unclear: list[str] = field(default_factory=list)
    suspects: list[str] = field(default_factory=list)  # of Wave's, each with its witness
    count: int = 0
    undecided: str = ""  # why nothing is said of Wave's
    redundant: list[str] = field(default_factory=list)  # barriers of Wave's that the proof does without
    seconds: dict[str, float] = field(default_factory=dict)
    error: str = ""


def look_at(case: Case, target: str) -> Row:
    """One kernel for one target; what goes wrong is in the row."""
    os.environ["WAVE_CACHE_ON"] = "0"
    row = Row(case.name, case.kernel, target)
    facts = load_target(target)

    def before(trace: Any, constraints: Any, _: Any) -> None:
        context = context_of(constraints)
        row.seconds["points"] = len(build(trace, context, facts).graph.points)
        _place_ours(row, trace, context, facts)

    def after(trace: Any, constraints: Any, _: Any) -> None:
        _ask_about_wave(row, trace, context_of(constraints), facts)

    quiet = io.StringIO()  # Wave prints whole traces where a pass fails
    try:
        with redirect_stdout(quiet), redirect_stderr(quiet):
            row.seconds["wave"] = trace_of(case, target, before, after).seconds
    except Exception as error:  # whatever is raised is what the table says
        row.error = f"{type(error).__name__}: {first_error(str(error))}"
    return row


def _place_ours(row: Row, trace: Any, context: Context, target: Target) -> None:
    """Tidegate's barriers, with waits that drain and with counted ones; the trace is as before afterwards."""
    found = place_barriers(trace, context, target, Options(remove_redundant=True))
    if found.written is not None:
        row.least = _barriers(build(trace, context, target).graph)
        take_back(found.written)
    for counts in (True, False):
        found = place_barriers(trace, context, target, Options(counts=counts))
        if found.why_not or found.written is None:
            row.unproved = row.unproved or f"{'counts: ' * counts}{found.why_not}"
            continue
        built = build(trace, context, target)
        if counts:
            row.our_waits = _waits(built.graph)
        else:
            row.ours = _barriers(built.graph)
            row.unclear = list(found.unclear)
            row.seconds |= found.seconds
            wrong = find_wrong(built.graph, target)
            if wrong is not None:
                row.unproved = f"fine: {wrong}"
            row.needless = _find_redundant(trace, context, target, found.written.new)
        take_back(found.written)


def _ask_about_wave(row: Row, trace: Any, context: Context, target: Target) -> None:
    built = build(trace, context, target)
    row.wave, row.wave_waits = _barriers(built.graph), _waits(built.graph)
    if any(isinstance(each.action, g.Sync) and isinstance(each.action.op, ops.Signal) for each in built.graph.points):
        row.kind = "pairs"
    start = time.perf_counter()
    found = verify(built.graph, target, memory=False)
    row.seconds["verify"] = time.perf_counter() - start
    if found.undecided:
        row.undecided = "; ".join(found.undecided)
        return
    row.count = len(found.suspects)
    if found.suspects:
        row.suspects = _say(found.suspects, built)
        return
    row.redundant = _find_redundant(trace, context, target, None)


def _barriers(graph: g.SyncGraph) -> list[int]:
    """In loops, and outside."""
    meets = [each for each in graph.points if isinstance(each.action, g.Sync) and isinstance(each.action.op, MEETING)]
    return [sum(each.loop >= 0 for each in meets), sum(each.loop < 0 for each in meets)]


def _waits(graph: g.SyncGraph) -> list[str]:
    """Waits for copies: their counts, those in loops marked."""
    found = []
    queues = {each.issues[0].counter for each in graph.points if each.role == "copy" and each.issues}
    for point in graph.points:
        op = point.action.op if isinstance(point.action, g.Sync) else None
        if isinstance(op, ops.WaitCount | ops.SharedMemoryBarrier):
            found += [f"{'loop ' * (point.loop >= 0)}{name}({n})" for name, n in op.counts if name in queues]
    return found


def _say(suspects: Sequence[Suspect], built: Built) -> list[str]:
    """One line for each kind of suspect, the first few: both nodes, why, and a witness."""
    kinds: dict[tuple[str, str, str, str], list[Suspect]] = {}
    points = built.graph.points
    for each in suspects:
        x, y = points[each.x], points[each.y]
        kinds.setdefault((each.point.buffer, _effect(x), _effect(y), each.why), []).append(each)
    lines = []
    for (buffer, first, second, why), found in list(kinds.items())[:MOST_SUSPECTS]:
        one = found[0]
        values = ", ".join(f"{name} = {value}" for name, value in one.point.values if not name.startswith("?"))
        both = ((one.x, first), (one.y, second))
        nodes = " and ".join(f"`{built.nodes[each].name}` ({VERBS.get(what, what)})" for each, what in both)
        more = f" ({len(found)} pairs like it)" if len(found) > 1 else ""
        lines.append(f"{buffer}: {nodes}, {WHY[why]}; {values}, byte {one.point.byte}{more}")
    return lines


def _effect(point: g.Point) -> str:
    return point.action.effect if isinstance(point.action, g.Access) else "unknown"


def _find_redundant(trace: Any, context: Context, target: Target, among: Sequence[Any] | None) -> list[str]:
    """Barriers, or pairs, that can go one by one: what is left is proved."""
    found = []
    for nodes in _removable(trace):
        if among is not None and not all(node in among for node in nodes):
            continue
        names = " and ".join(node.name for node in nodes)
        kept = [_take_out(node) for node in nodes]
        try:
            if not find_doubt(build(trace, context, target), target):
                found.append(names)
        finally:
            for put_back in reversed(kept):
                put_back()
    return found


def _removable(trace: Any) -> list[list[Any]]:
    """Barriers as they stand; a signal goes with the next wait of its graph, or not at all."""
    found: list[list[Any]] = []
    for graph in reached_graphs(trace):
        signal = None
        for node in graph.nodes:
            op = op_of(node)
            if op == "shared_memory_barrier":
                found.append([node])
            elif op == "shared_memory_barrier_signal":
                signal = node
            elif op == "shared_memory_barrier_wait" and signal is not None:
                found.append([signal, node])
                signal = None
            elif op in ("iterate", "conditional") and signal is not None:
                signal = None  # its wait may stand elsewhere
    return found


def _take_out(node: Any) -> Any:
    """Hides a node from whoever reads the graph; gives what puts it back."""
    name = node.tkw_op_name
    assert name in SYNCHRONIZATION
    node.tkw_op_name = "register"

    def put_back() -> None:
        node.tkw_op_name = name

    return put_back


# --- tables -------------------------------------------------------------------------------------------------------


def show(rows: Sequence[Row]) -> str:
    """The tables, as Markdown."""
    done = [row for row in rows if row.ours and row.wave and not row.error]
    clean = [row for row in done if not row.count and not row.undecided]
    fewer = [row for row in clean if sum(row.ours) < sum(row.wave) or row.ours[0] < row.wave[0]]
    more = [
        row for row in clean if row.ours[0] > row.wave[0] or (row.ours[0] == row.wave[0] and row.ours[1] > row.wave[1])
    ]
    lines = [
        f"{len(rows)} pairs of kernel and target; {len(done)} compared. Tidegate's barriers are proved in "
        f"{sum(not row.unproved for row in done)}. Wave's are proved in {len(clean)}, "
        f"{sum(bool(row.count) for row in done)} have a race, "
        f"{sum(bool(row.undecided) for row in done)} are not decided.",
        "",
        f"Where Wave's are proved: fewer barriers with Tidegate in {len(fewer)}, more in {len(more)}; in loops "
        f"{sum(row.ours[0] for row in clean)} for {sum(row.wave[0] for row in clean)}, outside "
        f"{sum(row.ours[1] for row in clean)} for {sum(row.wave[1] for row in clean)}. "
        f"{sum(len(row.redundant) for row in clean)} of Wave's can be taken away one by one, and "
        f"{sum(len(row.needless) for row in done)} of Tidegate's.",
        "",
        "| kernel | target | kind | Wave: loops + outside | Tidegate | Wave waits for copies | counted | Wave's own |",
        "|---|---|---|---:|---:|---|---|---|",
    ]
    for row in rows:
        if row.error:
            lines.append(f"| {row.name} | {row.target} | | | | | | {row.error} |")
            continue
        verdict = f"**{row.count} suspects**" if row.count else row.undecided or "proved"
        if row.redundant:
            verdict += f", {len(row.redundant)} redundant"
        ours = " + ".join(map(str, row.ours)) if row.ours else "–"
        ours += f", {' + '.join(map(str, row.least))} if others may go" if row.least not in ([], row.ours) else ""
        ours += f" ({row.unproved})" if row.unproved else ""
        waits, counted = ", ".join(row.wave_waits), ", ".join(row.our_waits)
        wave = " + ".join(map(str, row.wave))
        lines.append(f"| {row.name} | {row.target} | {row.kind} | {wave} | {ours} | {waits} | {counted} | {verdict} |")
    racy = [row for row in done if row.count]
    if racy:
        lines += ["", "Races in Wave's own placement, each kind once for each kernel:", ""]
        for name in dict.fromkeys(row.name for row in racy):
            own = [row for row in racy if row.name == name]
            lines.append(f"- **{name}** ({', '.join(row.target for row in own)}):")
            lines += [f"    - {_plain(each)}" for each in own[0].suspects]
    spare = [row for row in done if row.redundant]
    if spare:
        lines += ["", "Redundant barriers of Wave's, by the names of their nodes; each can go if the others stay:", ""]
        lines += [f"- {row.name}, {row.target}: {', '.join(f'`{each}`' for each in row.redundant)}" for row in spare]
    return "\n".join(lines) + "\n"


def _plain(text: str) -> str:
    """A witness in words: which waves, in which iteration."""
    text = re.sub(r"; (.*?)u' = (\d+), v' = (\d+).*?, byte (\d+)", r"; \1waves \2 and \3, byte \4", text)
    return re.sub(r"<?#(\d+)\S* = (\d+), ", lambda found: f"iteration {found[2]} of loop {found[1]}, ", text)


def main() -> None:
    if sys.argv[1:2] == ["write"]:
        rows = [Row(**each) for name in sys.argv[2:] for each in json.loads(Path(name).read_text(encoding="utf-8"))]
        order = {case.name: number for number, case in enumerate(cases())}
        print(show(sorted(rows, key=lambda row: (order[row.name], TARGETS.index(row.target)))))
        return
    parser = argparse.ArgumentParser(prog="python -m bench.wave_barriers")
    parser.add_argument("--target", default=",".join(TARGETS))
    parser.add_argument("--only", default="")
    parser.add_argument("-o", dest="out", type=Path)
    given = parser.parse_args()
    rows = []
    for case in cases():
        for target in given.target.split(","):
            if target in case.targets and (not given.only or case.name in given.only.split(",")):
                rows.append(look_at(case, target))
                print(rows[-1], file=sys.stderr, flush=True)
                if given.out:
                    given.out.write_text(json.dumps([asdict(row) for row in rows], indent=1), encoding="utf-8")
    print(show(rows))


if __name__ == "__main__":
    main()
