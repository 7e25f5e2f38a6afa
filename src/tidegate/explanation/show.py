"""What is said about a program, as text.

Needs   what was found out, and the source
Gives   the lines that matter, quoted once; a paragraph for each barrier; the other pairs, by their reasons
Keeps   the same text for the same program; lists are cut short and say so
Cost    linear in what is said
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tidegate.diag import NOWHERE, Finding, Sources, Span
from tidegate.explanation.changes import show_sync
from tidegate.explanation.model import Barrier, Explained, MoreSlots, Pair, Reason, Trial, Verdict
from tidegate.explanation.ways import other_ways
from tidegate.graph import model as g
from tidegate.hazards.model import Hazard
from tidegate.hazards.show import loop_name
from tidegate.hints import ptx_words
from tidegate.placement.groups import OBJECT, STAGGER, how_often

MOST = 6  # of one list
QUESTIONS = ("earlier", "later", "weaker", "outside")


def show_explained(result: Explained, sources: Sources) -> str:
    """Everything about one program."""
    if result.graph is None:
        return f"{_who(result)}: not explained: {result.why_not}\n"
    if result.listing:
        sources.texts[result.graph.points[0].at.file] = result.listing
    show = Sayings(result, result.graph)
    blocks = [show.head(), show.source(sources), *map(show.barrier, result.barriers), *show.pairs()]
    blocks.append([f"note: {each}" for each in result.notes])
    return "\n\n".join("\n".join(block) for block in blocks if block) + "\n"


def _who(result: Explained) -> str:
    return f"@{result.unit.name} on {result.unit.target.name or 'no target'}"


def count(number: int, word: str) -> str:
    return f"{number} {word}{'s' * (number != 1)}"


def cut(items: Sequence[str], most: int = MOST) -> list[str]:
    if len(items) <= most + 1:
        return list(items)
    return [*items[:most], f"and {len(items) - most} more"]


class Sayings:
    """What there is to say about one program, piece by piece."""

    def __init__(self, result: Explained, graph: g.SyncGraph) -> None:
        self.result, self.graph = result, graph
        assert result.hazards is not None
        self.flow = result.hazards.flow
        accesses = [(point.at, point.action) for point in graph.points if isinstance(point.action, g.Access)]
        self.buffers = {at: action.footprint.place.base for at, action in accesses}

    def head(self) -> list[str]:
        result = self.result
        found = result.tally
        needed = sum(each.tally.barriers for each in result.barriers if each.is_needed)
        parts = [f"{count(found.barriers, 'barrier')}, {needed} needed, weight {found.weight:g}", *self.beside()]
        lines = [f"{_who(result)}: {'; '.join(parts)}"]
        wrong = [each for each in result.findings if each.severity == "error"]
        lines += cut([f"  error: {self.short(each)}" for each in wrong])
        if not wrong and result.checked is not None and result.checked.is_decided:
            lines.append("  no errors")
        return lines

    def beside(self) -> Iterator[str]:
        """What is explained and is no barrier, by its kind."""
        others = [each for each in self.result.barriers if not each.tally.barriers]
        for kind in dict.fromkeys(each.kind for each in others):
            needed = [each.is_needed for each in others if each.kind == kind]
            yield f"{count(len(needed), kind)}, {sum(needed)} needed"

    # --- source ---

    def source(self, sources: Sources) -> list[str]:
        """The lines of accesses and barriers, once each."""
        spans: dict[tuple[str, int], Span] = {}
        inside = {number for each in self.result.barriers for number in each.points}
        for number, point in enumerate(self.graph.points):
            if isinstance(point.action, g.Access | g.Unknown) or number in inside:
                spans.setdefault((point.at.file, point.at.line), point.at)
        found = [(at, sources.line(at)) for _, at in sorted(spans.items())]
        texts = [(at, text.expandtabs(2)) for at, text in found if text is not None]
        if not texts:
            return []
        width = max(len(str(at.line)) for at, _ in texts)
        margin = min(len(text) - len(text.lstrip()) for _, text in texts)
        lines, last = [], NOWHERE
        for at, text in texts:
            if last.file and last.file != at.file:
                lines.append(f"{' ' * width} ::: {at.file}")
            lines.append(f"{at.line:>{width}} | {text[margin:].rstrip()}{self.beside_line(at)}")
            last = at
        return lines

    def beside_line(self, at: Span) -> str:
        origin = self.result.unit.origin
        said = origin.beside(at) if origin is not None else ""
        return f"  // {said}" if said else ""

    def line(self, point: int) -> str:
        return str(self.graph.points[point].at.line)

    def lines(self, points: Sequence[int]) -> str:
        found = list(dict.fromkeys(map(self.line, points)))
        return f"line{'s' * (len(found) > 1)} {', '.join(found)}"

    # --- barriers ---

    def barrier(self, barrier: Barrier) -> list[str]:
        where = f", in the loop over `{barrier.loop}`" if barrier.loop.startswith("%") else ""
        lines = [f"{self.title(barrier)}, {how_often(barrier.tally, barrier.weight)}{where}"]
        last = ""
        for word, text in self.rows(barrier):
            lines.append(f"  {word if word != last else '':<8} {text}")
            last = word
        return lines

    def rows(self, barrier: Barrier) -> list[tuple[str, str]]:
        """What it serves, and what became of each change: a word and a sentence."""
        rows = [("serves", each) for each in self.hazards(barrier.serves) or self.pairs_without(barrier)]
        rows += [("too weak", each) for each in self.hazards(barrier.too_weak)]
        rows += [
            ("by path", f"{each} in line {self.line(other)}, on the other path: later copies differ in number")
            for point in barrier.points
            for other, each in other_ways(self.graph, point)
        ]
        rows += [("without", each) for each in self.without(barrier)]
        for question in QUESTIONS:
            trials = [each for each in barrier.trials if each.question == question]
            rows += [(question, each) for each in both_ways(list(self.tried(trials)))]
        rows += [("slots", each) for each in self.more_slots(barrier)]
        return rows

    def title(self, barrier: Barrier) -> str:
        if len(barrier.points) == 1:
            return f"{self.lines(barrier.points)}: {self.op(barrier.points[0])}"
        if self.graph.maps:  # one instruction, at a point for each state of the program
            return f"{self.lines(barrier.points)}: {' or '.join(dict.fromkeys(map(self.op, barrier.points)))}"
        parts = ", ".join(f"{show_sync(self.graph, each)} ({self.line(each)})" for each in barrier.points)
        return f"{self.lines(barrier.points)}: {barrier.kind}: {parts}"

    def op(self, point: int) -> str:
        return self.words(show_sync(self.graph, point))

    def words(self, text: str) -> str:
        return ptx_words(text) if self.graph.maps else text

    def pairs_without(self, barrier: Barrier) -> list[str]:
        """The pairs of accesses that race without it, of a program whose threads are known one by one."""
        if not self.graph.maps:
            return []
        rows: dict[tuple[str, ...], tuple[str, ...]] = {}
        for each in barrier.without.findings:
            lines = " → ".join(str(label.at.line) for label in reversed(each.labels))
            buffer = self.buffers.get(each.at, "")
            threads = [str(dict(fact)["thread"]) for fact in dict(each.witness).get("threads", ())]  # type: ignore[attr-defined]
            who = f"threads {' and '.join(threads)}" if threads else ""
            rows.setdefault((each.code, buffer, lines), (each.code, buffer, lines, who))
        return cut(table(list(rows.values())))

    def hazards(self, hazards: Sequence[Hazard]) -> list[str]:
        rows = [
            (each.kind.name, each.witness.buffer, self.ends(each), f"{self.waves(each)}, {self.example(each)}")
            for each in hazards
        ]
        return cut(list(dict.fromkeys(table(rows))))

    def ends(self, hazard: Hazard) -> str:
        return self.between(hazard.producer, hazard.consumer, hazard.loop, hazard.distance, hazard.distance)

    def between(self, first: int, second: int, loop: int, low: int, high: int | None) -> str:
        text = f"{self.line(self.flow.origin[first])} → {self.line(self.flow.origin[second])}"
        if loop < 0 or (low == high == 0):
            return text
        name = loop_name(self.flow, loop)
        if high is None:
            return f"{text} at {name} + {low}, ..."
        return f"{text} at {name} + {low}" + (f" .. {high}" if high != low else "")

    def waves(self, hazard: Hazard) -> str:
        found = hazard.witness
        if found.x_wave == found.y_wave:
            return f"wave {found.x_wave}"
        more = f", {hazard.demand} arrivals" if hazard.demand > 1 else ""
        return f"waves {found.x_wave} and {found.y_wave}{more}"

    def example(self, hazard: Hazard) -> str:
        return f"bytes {hazard.witness.first}..{hazard.witness.last}{'' if hazard.exact else ', widened'}"

    def without(self, barrier: Barrier) -> list[str]:
        first, *others = [each for each in barrier.trials if each.question == "without"]
        lines = [self.missing(barrier, first)]
        if first.verdict is Verdict.BREAKS:
            lines += self.witness(first.findings[0])
        for each in others:
            alone = f"only {each.tried} removed: "
            lines.append(alone + (self.short(each.findings[0]) if each.findings else "no error"))
        return lines

    def missing(self, barrier: Barrier, trial: Trial) -> str:
        match trial.verdict:
            case Verdict.BREAKS:
                more = f", and {len(trial.findings) - 1} more" if len(trial.findings) > 1 else ""
                return f"{trial.findings[0].code}: {trial.findings[0].message}{more}"
            case Verdict.OVERLOOKED:
                return f"{self.lost(trial)} is not ordered; the judge finds no error in its runs"
            case Verdict.UNORDERED:
                return f"{self.lost(trial) if trial.hazards else self.pair(trial)} is not ordered; not run"
            case Verdict.WINDOWS:
                return f"{self.lost(trial)} is not ordered; not judged"
        if trial.verdict is Verdict.UNJUDGED and self.graph.maps:
            return "not decided"
        if trial.gone:
            codes = ", ".join(dict.fromkeys(each.code for each in trial.gone))
            return f"no new errors, and {codes} disappears"
        if barrier.too_weak:
            return "no new errors: the accesses it is too weak for race anyway"
        if trial.verdict is Verdict.HOLDS and any(each.code.startswith("TG2") for each in self.result.findings):
            return "no new errors: the waves do not meet anyway"
        if any(each.severity == "error" for each in self.result.findings):
            return "no new errors"  # what is redundant can be said only of a program that is right
        text = "redundant for memory"
        if barrier.pinned:
            text += ", pinned for scheduling"
        if barrier.held:
            text += ", but it may order accesses to global memory"
        if barrier.kind == STAGGER:
            text += ": it delays one half of the waves"
        if barrier.kind == OBJECT and not barrier.serves:
            text += ", as far as the judge can see"
        if barrier.instead:
            text += f": {self.lines(barrier.instead)} orders the same accesses"
        return text + (" (by windows; not judged)" if trial.verdict is Verdict.UNJUDGED else "")

    def lost(self, trial: Trial) -> str:
        hazard = trial.hazards[0]
        return f"{hazard.kind.name} {hazard.witness.buffer} {self.ends(hazard)}"

    def pair(self, trial: Trial) -> str:
        """Two accesses that the verifier finds no order for, and that no window is about."""
        lines = sorted({each.at.line for each in trial.findings[0].labels})
        return f"{self.buffers.get(trial.findings[0].at, '')} {' → '.join(map(str, lines))}".strip()

    def witness(self, finding: Finding) -> list[str]:
        """In program order, with the sizes that showed it."""
        labels = [each for each in reversed(finding.labels) if each.text]
        found = [f"line {each.at.line}: {each.text}" for each in labels[:2]]
        sizes = [each for each in finding.notes if each.startswith("found with ")]
        return [*found[:-1], "; ".join((*found[-1:], *sizes))] if found else sizes

    def tried(self, trials: Sequence[Trial]) -> Iterator[str]:
        for place, trial in enumerate(trials):
            part = f"line {self.line(trial.part)} " if trial.part >= 0 else ""
            following = trials[place + 1] if place + 1 < len(trials) else None
            loosened = "(" in trial.tried and following is not None and following.verdict is Verdict.HOLDS
            match trial.verdict:
                case Verdict.UNJUDGED if self.graph.maps:
                    yield f"{part}{self.words(trial.tried)}: not decided"
                case Verdict.HOLDS | Verdict.UNJUDGED:
                    if not loosened:
                        said = "" if trial.verdict is Verdict.HOLDS else " (by windows; not judged)"
                        yield f"{part}could be {self.words(trial.tried)}{said}"
                case Verdict.BREAKS:
                    yield f"{part}not {self.words(trial.tried)}: {self.short(trial.findings[0])}"
                case Verdict.UNORDERED:
                    lost = self.lost(trial) if trial.hazards else self.pair(trial)
                    yield f"{part}not {trial.tried}: {lost} (not run)"
                case Verdict.OVERLOOKED | Verdict.WINDOWS:
                    yield f"{part}not {trial.tried}: {self.lost(trial)} (by windows)"
                case Verdict.CANNOT:
                    yield part + (f"{trial.tried}: {trial.why}" if trial.tried else trial.why)

    def short(self, finding: Finding) -> str:
        """A finding in one line."""
        facts = dict(finding.witness)
        if "hazard" not in facts:
            at = f", line {finding.at.line}" if finding.at.line else ""
            return f"{finding.code} {finding.message}{at}"
        first, second = dict(facts["first"]), dict(facts["second"])  # type: ignore[call-overload]
        buffer = self.buffers.get(finding.at, "")
        one, other = first["wave"], second["wave"]
        waves = f"wave {one}" if one == other else f"waves {one} and {other}"
        when = _iterations(first["iterations"], second["iterations"])
        return f"{finding.code} {facts['hazard']} {buffer} {first['line']} → {second['line']}, {waves}{when}"

    def more_slots(self, barrier: Barrier) -> Iterator[str]:
        found = barrier.more_slots
        if found is None:
            return
        of = " and ".join(found.buffers)
        if found.more is not None:
            extra = found.more * found.bytes
            anew = ", after `sync`" if found.anew else ""
            slots = _slots(found, found.more)
            yield f"{slots} of {of}: one barrier fewer per iteration{anew}, for {extra:,} more bytes"
        elif not found.tried:
            yield f"no room for another slot of {of}: {found.bytes:,} bytes"
        else:
            most = max(have + found.tried for have in found.have)
            yield f"up to {most} slots of {of} do not save it" + ("" if found.fits else "; more do not fit")

    # --- pairs ---

    def pairs(self) -> Iterator[list[str]]:
        together: dict[tuple[Reason, tuple[int, ...], str], list[Pair]] = {}
        for pair in self.result.pairs:
            together.setdefault((pair.reason, pair.by, pair.why), []).append(pair)
        order = list(Reason)
        for loose in (True, False):
            lines = []
            for (reason, by, why), pairs in sorted(
                together.items(), key=lambda each: (order.index(each[0][0]), each[0])
            ):
                if loose == (reason is Reason.UNORDERED):
                    lines.append(f"  {self.reason(reason, by, why)}")
                    lines += [f"    {each}" for each in cut(table(list(dict.fromkeys(map(self.row, pairs)))))]
            if lines:
                yield ["not ordered" if loose else "no barrier of their own", *lines]

    def reason(self, reason: Reason, by: tuple[int, ...], why: str) -> str:
        extra = f": {why}" if why else ""
        if reason is Reason.ORDERED:
            return f"ordered by {self.lines(by)}, which serves another pair"
        if reason is Reason.DISTANCE:
            return f"iterations apart, with {self.lines(by)} in between"
        return f"{reason.value}{extra}"

    def row(self, pair: Pair) -> tuple[str, ...]:
        low, high = pair.distances or (0, 0)
        kind = pair.kind.name if pair.kind is not None else "any"
        return kind, pair.buffer, self.between(pair.producer, pair.consumer, pair.loop, low, high)


def _slots(found: MoreSlots, more: int) -> str:
    """`3 slots instead of 2`."""
    if len(set(found.have)) > 1:
        return f"{count(more, 'slot')} more"
    return f"{found.have[0] + more} slots instead of {found.have[0]}"


def both_ways(lines: list[str]) -> list[str]:
    """What breaks alike before and after a loop is said once."""
    if len(lines) == 2 and lines[0].replace("not before the", "not after the", 1) == lines[1]:
        return [lines[0].replace("not before the", "neither before nor after the", 1)]
    return lines


def table(rows: Sequence[tuple[str, ...]]) -> list[str]:
    if not rows:
        return []
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return ["  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def _iterations(first: object, second: object) -> str:
    """`, %k = 0 → 1`."""
    one, other = dict(first), dict(second)  # type: ignore[call-overload]
    said = []
    for name in dict.fromkeys((*one, *other)):
        found = [str(each[name]) for each in (one, other) if name in each]
        said.append(f", {name} = {' → '.join(dict.fromkeys(found))}")
    return "".join(said)
