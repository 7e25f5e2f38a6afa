"""Every barrier, wait and signal of every good kernel, taken away one at a time: what `tidegate check --explore` says.

Needs   the examples in their small form, and the right forms of the broken kernels
Gives   for each change the codes that are found, or that it is harmless: nothing is found and all orders are covered
Keeps   whatever is harmless stands in `REASONS` with a reason that somebody has thought through
Cost    a judgement each, some 400 of them

The right forms of the broken kernels are small as they are, and hold what no example has: named barriers and tokens.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from oracles.programs.small_examples import EXAMPLES, NAMES, load_small
from oracles.rules.mutants import Mutant, mutants_of
from tidegate.language.ops import Kernel
from tidegate.language.parse import parse
from tidegate.passes import run_stages
from tidegate.session import Session
from tidegate.simulate.judge import EXPLORE
from tidegate.targets import load_target

FIXED = EXAMPLES / "broken" / "fixed"
# As `--explore`, but nobody asks here how many orders there are.
LIMITS = replace(EXPLORE, count=0)

BARE = "weakened to workgroup_barrier"
DRAINS_ITSELF = "on this target a barrier performs ordinary accesses; the copies are waited for before"
NOTHING_IN_FLIGHT = "nothing that matters is in flight here: what came before is drained already"
NO_LATER_ACCESS = "nobody writes to these bytes afterwards, and the stagger still closes"
NO_ACCESS_IN_LOOP = "pinned for a schedule: the loop touches no shared memory"
ENDS = "nobody touches these bytes afterwards; the end of the wave performs the store"
NAMED_ONLY = "beside a count it is only said what the count is for"
TWICE = "two barriers one after the other, with no access between: either is enough"

# What may be changed without harm, and why: kernel, line, change.
REASONS: dict[tuple[str, int, str], str] = {
    ("copies_in_one_group", 13, BARE): DRAINS_ITSELF,
    ("copies_in_one_group", 16, BARE): DRAINS_ITSELF,
    ("count_on_one_path", 18, "removed"): "the barrier in line 14 waits for both copies: this one repeats it",
    ("count_on_one_path", 18, "vmcnt(0) raised to vmcnt(1)"): "line 14 has waited for both copies",
    ("count_on_one_path", 18, BARE): "line 14 has waited for both copies",
    ("divergent_barrier", 10, "removed"): "pinned, right after a barrier that drains: " + TWICE,
    ("epilogue_last_slot", 20, BARE): "line 19 waits for the copies, and the reads in flight meet no later write",
    ("inversion", 12, "removed"): NO_LATER_ACCESS,
    ("inversion", 12, BARE): NO_LATER_ACCESS,
    ("lost_signal", 18, "removed"): "the pair of the last iteration orders its writes before these reads",
    ("lost_signal", 18, BARE): "the pair of the last iteration orders its writes before these reads",
    ("mbarrier_parity", 16, "removed"): "waits for the phase that line 14 has waited for",
    ("missing_proxy_fence", 10, BARE): "the fence before it performs the write, and so does a barrier on this target",
    ("missing_proxy_fence", 12, "removed"): ENDS,
    ("missing_proxy_fence", 13, "removed"): ENDS,
    ("missing_proxy_fence", 13, "bulk_group(0) raised to bulk_group(1)"): ENDS,
    ("named_cycle", 15, "removed"): TWICE,
    ("named_cycle", 17, "removed"): TWICE,
    ("named_cycle", 21, "removed"): TWICE,
    ("named_cycle", 23, "removed"): TWICE,
    ("odd_halves", 12, "removed"): "pinned for a schedule: " + NO_LATER_ACCESS,
    ("pingpong_bare_after_reads", 16, BARE): NOTHING_IN_FLIGHT,
    ("pingpong_bare_after_reads", 20, BARE): NOTHING_IN_FLIGHT,
    ("pingpong_bare_after_writes", 16, BARE): NOTHING_IN_FLIGHT,
    ("pingpong_bare_after_writes", 20, BARE): NOTHING_IN_FLIGHT,
    ("producer_consumer", 13, BARE): NOTHING_IN_FLIGHT,
    ("producer_consumer", 18, BARE): NOTHING_IN_FLIGHT,
    ("stagger_closed_on_one_path", 13, "removed"): NO_ACCESS_IN_LOOP,
    ("stagger_closed_on_one_path", 15, "removed"): NO_ACCESS_IN_LOOP,
    ("stale_dep", 10, "deps dropped"): NAMED_ONLY,
    ("stale_dep", 12, "deps dropped"): NAMED_ONLY,
    ("stale_dep", 12, "removed"): "the barrier in line 10 waits for both copies: this one repeats it",
    ("stale_dep", 12, "vmcnt(0) raised to vmcnt(1)"): "line 10 has waited for both copies",
    ("stale_dep", 12, BARE): "line 10 has waited for both copies",
    ("store_before_write_lands", 12, "removed"): ENDS,
    ("store_before_write_lands", 12, "asynccnt(0) raised to asynccnt(1)"): ENDS,
    ("two_arms", 13, BARE): "in this arm nothing has been issued yet",
    ("uncommitted_copy", 10, BARE): DRAINS_ITSELF,
    ("unmatched_stagger", 11, "removed"): NO_ACCESS_IN_LOOP,
    ("unmatched_stagger", 13, "removed"): NO_ACCESS_IN_LOOP,
    ("zero_trip_epilogue", 19, "vmcnt(0) raised to vmcnt(1)"): "line 17 has waited for the copies",
}


@dataclass(frozen=True, slots=True)
class Tried:
    """A change and what was found; `bounded` is what the judge did not go through."""

    mutant: Mutant
    codes: tuple[str, ...]
    bounded: tuple[str, ...]

    @property
    def key(self) -> tuple[str, int, str]:
        return self.mutant.kernel.name, self.mutant.line, self.mutant.change

    @property
    def verdict(self) -> str:
        if self.codes:
            return " ".join(self.codes)
        return "undecided" if any("orders" in each for each in self.bounded) else "harmless"


def examples() -> Iterator[Kernel]:
    return (load_small(name).kernel for name in NAMES)


def twins() -> Iterator[Kernel]:
    """The right forms of the broken kernels."""
    return (kernel for path in sorted(FIXED.glob("*.tide")) for kernel in parse(path.read_text("utf-8")).kernels)


def judge_kernel(kernel: Kernel) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The codes that are found, and what was bounded."""
    unit = Session(kernel.name, load_target(kernel.target), kernel, None)
    checked = run_stages(unit, print_after=None, stop_after=None, show=lambda *_: None, limits=LIMITS, prove=False)
    bounded = ("orders: not judged",) if checked.judgement is None else tuple(checked.judgement.bounded)
    return tuple(sorted({finding.code for finding in checked.findings})), bounded


def try_all(kernels: Iterable[Kernel]) -> list[Tried]:
    """Every change of every kernel."""
    return [Tried(mutant, *judge_kernel(mutant.kernel)) for kernel in kernels for mutant in mutants_of(kernel)]


# --- tables -------------------------------------------------------------------------------------------------------


def run() -> tuple[str, bool]:
    """The tables as Markdown, and whether every change is found or harmless for a reason that is known."""
    good, right = try_all(examples()), try_all(twins())
    harmless = {tried.key for tried in (*good, *right) if not tried.codes}
    undecided = [tried for tried in (*good, *right) if tried.verdict == "undecided"]
    taken = [tried for tried in good if not tried.mutant.is_weaker]
    weaker = [tried for tried in good if tried.mutant.is_weaker]
    parts = [
        f"Examples, removed or raised by one: {_sum(taken)}.",
        _rows(taken),
        f"Examples, weakened: {_sum(weaker)}.",
        _rows(weaker),
        f"Right forms of the broken kernels, removed, raised or weakened: {_sum(right)}.",
        _by_kernel(right),
        "The harmless ones:",
        _reasons([tried for tried in (*good, *right) if not tried.codes]),
    ]
    return "\n\n".join(parts), harmless == set(REASONS) and not undecided


def _sum(tried: list[Tried]) -> str:
    harmless = sum(not each.codes for each in tried)
    return f"{len(tried)} changes, {len(tried) - harmless} found, {harmless} harmless"


def _rows(tried: list[Tried]) -> str:
    lines = ["| example | waves | line | operation | change | verdict |", "|---|---:|---:|---|---|---|"]
    for each in tried:
        mutant = each.mutant
        kernel = mutant.kernel
        verdict = f"found: {each.verdict}" if each.codes else each.verdict
        lines.append(
            f"| {kernel.name} | {kernel.waves} | {mutant.line} | `{mutant.text}` | {mutant.change} | {verdict} |"
        )
    return "\n".join(lines)


def _by_kernel(tried: list[Tried]) -> str:
    lines = ["| kernel | target | waves | changes | found | harmless | codes |", "|---|---|---:|---:|---:|---:|---|"]
    for name in dict.fromkeys(each.mutant.kernel.name for each in tried):
        of = [each for each in tried if each.mutant.kernel.name == name]
        kernel, found = of[0].mutant.kernel, [each for each in of if each.codes]
        codes = " ".join(sorted({code for each in found for code in each.codes}))
        lines.append(
            f"| {name} | {kernel.target} | {kernel.waves} | {len(of)} | {len(found)} | {len(of) - len(found)} "
            f"| {codes} |"
        )
    return "\n".join(lines)


def _reasons(tried: list[Tried]) -> str:
    lines = ["| kernel | line | operation | change | why it does no harm |", "|---|---:|---|---|---|"]
    for each in tried:
        mutant = each.mutant
        why = REASONS.get(each.key, "**nobody knows yet**")
        more = [what for what in each.bounded if "trips" not in what]
        bounded = f" ({'; '.join(more)})" if more else ""
        lines.append(f"| {mutant.kernel.name} | {mutant.line} | `{mutant.text}` | {mutant.change} | {why}{bounded} |")
    return "\n".join(lines)
