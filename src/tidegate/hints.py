"""Ways out in the words of the program: an operation that a finding proposes exists where its reader would put it.

Needs   a finding about a graph that was made of another compiler's IR
Gives   the finding with that IR's operations in its help
Keeps   everything else; a word without a counterpart stays
Cost    linear in the help

    put `shared_memory_barrier` between the two   becomes   put `ttg.barrier local` between the two
"""

from __future__ import annotations

import re
from dataclasses import replace

from tidegate.diag import Finding

# Of TTGIR. It has no fence for the lanes of one warp, and waits for copies apart from barriers.
TTGIR = {
    "shared_memory_barrier wait_async_ops": "ttg.async_wait` and `ttg.barrier local",
    "shared_memory_barrier": "ttg.barrier local",
    "wait_count": "ttg.async_wait",
    "commit_group": "ttg.async_commit_group",
    "fence proxy_async": "ttng.fence_async_shared",
    "fence wave": "ttg.barrier local",
    "expect": "ttng.barrier_expect",
}
# Of PTX, whose words stand in sentences, too.
PTX = (
    (re.compile(r"\bwait_count group\((\d+)\)"), r"cp.async.wait_group \1"),
    (re.compile(r"\bgroup\((\d+)\)"), r"wait_group \1"),
    (re.compile(r"\bworkgroup_barrier\b"), "bar.sync 0"),
    (re.compile(r"\bfence wave\b"), "bar.warp.sync"),
)
QUOTED = re.compile("`([^`]+)`")


def in_ttgir(finding: Finding) -> Finding:
    """The finding with a help that names operations of TTGIR."""
    help = QUOTED.sub(lambda found: f"`{TTGIR.get(found[1], found[1])}`", finding.help)
    return finding if help == finding.help else replace(finding, help=help)


def ptx_words(text: str) -> str:
    """A text with instructions of PTX in place of operations."""
    for word, instead in PTX:
        text = word.sub(instead, text)
    return text


def in_ptx(finding: Finding) -> Finding:
    """A finding whose sentences name instructions of PTX."""
    labels = tuple(replace(each, text=ptx_words(each.text)) for each in finding.labels)
    notes = tuple(map(ptx_words, finding.notes))
    return replace(finding, labels=labels, notes=notes, help=ptx_words(finding.help))
