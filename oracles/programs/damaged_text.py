"""Kernels and graphs as text, and damage to them: characters, tokens, numbers, names, lines and expressions.

Nothing here needs pytest: the hostile runs damage the same texts.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path

from oracles.programs.random_kernels import random_index, random_kernel
from tidegate.graph.build import build_graph
from tidegate.graph.show import show_graph
from tidegate.index import Name
from tidegate.index import show as show_index
from tidegate.language.check import check
from tidegate.language.parse import parse
from tidegate.language.show import show
from tidegate.targets import load_target

ROOT = Path(__file__).resolve().parents[2]


@cache
def corpus() -> tuple[str, ...]:
    """Texts to damage: kernels first, then as many graphs."""
    texts = [path.read_text(encoding="utf-8") for path in sorted((ROOT / "examples").rglob("*.tide"))]
    texts += [show(random_kernel(random.Random(seed), size=4 + seed % 16)) for seed in range(60)]
    graphs = [
        show_graph(build_graph(kernel, load_target("")).graph)
        for text in texts[::2]
        for kernel in parse(text).kernels
        if not any(each.is_bad_input for each in check(kernel, load_target("")))
    ]
    return (*texts, *graphs)


# --- damage -------------------------------------------------------------------------------------------------------

_TOKEN = re.compile(r"[%@]?[\w.]+|\s+|.", re.DOTALL)
WORDS = (
    *"kernel waves sizes where grid target iterate conditional specialize else yield in step expect carry".split(),
    *"alloc dealloc view select_view local_read local_write gather_to_lds to bounds mask reports fill nan inf".split(),
    *"wave lane wg0 mod xor min max select inexact true false not and or index flag dep none".split(),
    *"graph buffer loop point program function object free head parent trips any uses label role branch".split(),
    *"{ } ( ) [ ] , : = -> .. < > <= >= == != // + - * % @ # \" ' \\ | & ; $".split(),
    *"tile<4xf32> tile<0xf32> tile<f32> lds<4x4xf16, slots = 2> lds<4xf32, slots = 0> global<NxMxi8>".split(", "),
    *("mbarrier<4>", "named_barrier<0>", "tile<x>", "lds<>", "tile<4xf32", "%a", "%", "@", "-1", "0", "1"),
    *("99999999999999999999999", "4611686018427387904", "1e400", "-0.0", "1.5", "0x10", "007", "１２", "٣", "9" * 5000),
    *("é", "→", "\u202e", "\ufeff", "😀", "\x00", "\x0b", "\r", "\t", "\u2028", "ｗａｖｅ"),
)


def damage(rng: random.Random, text: str) -> str:
    for _ in range(rng.choice((1, 1, 1, 2, 3, 6))):
        text = rng.choice(_DAMAGES)(rng, text)
    return text


def _characters(rng: random.Random, text: str) -> str:
    at = rng.randrange(len(text) + 1)
    end = min(len(text), at + rng.choice((1, 1, 2, 10)))
    kind = rng.choice(("delete", "double", "swap", "replace"))
    if kind == "delete":
        return text[:at] + text[end:]
    if kind == "double":
        return text[:end] + text[at:end] + text[end:]
    if kind == "swap":
        return text[:at] + text[at:end][::-1] + text[end:]
    return text[:at] + rng.choice(rng.choice(WORDS)) + text[end:]


def _tokens(rng: random.Random, text: str) -> str:
    tokens = _TOKEN.findall(text)
    if not tokens:
        return text
    a, b = rng.randrange(len(tokens)), rng.randrange(len(tokens))
    kind = rng.choice(("delete", "double", "swap", "replace", "replace", "copy", "insert"))
    if kind == "delete":
        del tokens[a]
    elif kind == "double":
        tokens.insert(a, tokens[a])
    elif kind == "swap":
        tokens[a], tokens[b] = tokens[b], tokens[a]
    elif kind == "copy":
        tokens[a] = tokens[b]
    elif kind == "insert":
        tokens.insert(a, f" {rng.choice(WORDS)} ")
    else:
        tokens[a] = rng.choice(WORDS)
    return "".join(tokens)


def _numbers(rng: random.Random, text: str) -> str:
    """Another number, perhaps a huge one: these files are often read and then ask hard questions."""
    found = list(re.finditer(r"(?<![\w.])\d+", text))
    if not found:
        return text
    match = rng.choice(found)
    other = rng.choice(("0", "1", "2", "3", "7", "64", "65536", "1000000007", "999999999999999999", "-5"))
    return text[: match.start()] + other + text[match.end() :]


def _names(rng: random.Random, text: str) -> str:
    """A value in the place of another."""
    found = list(re.finditer(r"%[\w.]+|\bwave\b|\b[A-Z]\w*\b", text))
    if not found:
        return text
    match = rng.choice(found)
    return text[: match.start()] + rng.choice(found).group() + text[match.end() :]


def _expressions(rng: random.Random, text: str) -> str:
    """Another index, over names of the file: deep minima, huge numbers, many divisions. isl must not hang on it."""
    found = list(re.finditer(r"(?<=\[)[^\[\]]+(?=\])|(?<=\.\. )[^{]+?(?= \{)|(?<=let ).*", text))
    names = sorted({Name(name) for name in re.findall(r"%[a-z]\w*|\bwave\b|\b[A-Z]\b", text)}, key=show_index)
    if not found or not names:
        return text
    match = rng.choice(found)
    index = random_index(rng, names, rng.choice((1, 3, 6)), affine=True)
    return text[: match.start()] + show_index(index) + text[match.end() :]


def change_lines(rng: random.Random, text: str) -> str:
    lines = text.split("\n")
    a, b = rng.randrange(len(lines)), rng.randrange(len(lines))
    kind = rng.choice(("delete", "double", "swap", "move"))
    if kind == "delete":
        del lines[a]
    elif kind == "double":
        lines.insert(b, lines[a])
    elif kind == "swap":
        lines[a], lines[b] = lines[b], lines[a]
    else:
        lines.insert(b, lines.pop(a))
    return "\n".join(lines)


def _cut(rng: random.Random, text: str) -> str:
    return text[: rng.randrange(len(text) + 1)]


def _splice(rng: random.Random, text: str) -> str:
    other = rng.choice(corpus())
    return text[: rng.randrange(len(text) + 1)] + other[rng.randrange(len(other)) :]


def _nest(rng: random.Random, text: str) -> str:
    """Something many times over, in the middle."""
    at, many = rng.randrange(len(text) + 1), rng.choice((3, 45, 120, 2000))
    inside = rng.choice(
        ("(", "conditional true {", "not ", "- ", "1 + ", "select(true, ", "inexact(", "min(1, ", "[", "{")
    )
    return text[:at] + inside * many + text[at:]


_DAMAGES: tuple[Callable[[random.Random, str], str], ...] = (
    *(_characters, _tokens, _tokens, _tokens, _numbers, _numbers, _names, _names, _names, change_lines, change_lines),
    *(_expressions, _expressions, _cut, _splice, _nest),
)
