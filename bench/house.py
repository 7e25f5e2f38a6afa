"""`python -m bench.house`: how large each stage is, which packages import each other, and what nobody names.

Needs   the source text alone: nothing is imported or run
Gives   lines of code (no blank lines, comments or docstrings), files and the largest file of each stage; pairs of
        packages that import each other, by when they do; names of `src` that stand nowhere else
Keeps   its order: the same tree gives the same text
Cost    one walk over the syntax tree of every Python file

A scan of names does not see whose they are: two methods of one name hide each other. So what it lists is unused for
certain, and more may be.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "tidegate"
PLACES = ("src", "tests", "oracles", "bench", "docs", "examples")
When = Literal["at import", "in a function", "for types"]
WHENS: tuple[When, ...] = ("at import", "in a function", "for types")
# Decorators that hand a function to nobody else.
PLAIN = {"property", "staticmethod", "classmethod", "cache", "lru_cache", "cached_property", "overload", "override"}
PLAIN |= {"contextmanager", "dataclass", "final", "wraps"}
# Bases from elsewhere that call none of the methods of their classes.
OPEN_BASES = {
    "ABC",
    "Enum",
    "Exception",
    "Generic",
    "IntEnum",
    "NamedTuple",
    "Protocol",
    "StrEnum",
    "TypedDict",
    "ValueError",
}
NAMES = re.compile(r"[\w.:\[\] |]+")
CODE_IN_PROSE = re.compile(r"^```.*?^```|`[^`\n]+`", re.MULTILINE | re.DOTALL)
NOT_CODE = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}


# --- sizes --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Stage:
    """A folder or a file directly under the package, with its lines of code and its largest file."""

    name: str
    code: int
    files: int
    largest: str
    lines: int


def files_of(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*.py") if "__pycache__" not in path.parts)


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def count_lines(path: Path) -> int:
    """All lines of a file, as an editor counts them."""
    return len(path.read_text(encoding="utf-8").splitlines())


def count_code(path: Path) -> int:
    """Lines on which something stands that is neither comment nor docstring."""
    text, found = path.read_text(encoding="utf-8"), set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in NOT_CODE:
            found |= set(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
            found -= set(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    return len(found)


def stage_of(path: Path, source: Path = SOURCE) -> str:
    """`graph` for `graph/build.py`, `diag` for `diag.py`."""
    return path.relative_to(source).parts[0].removesuffix(".py")


def stages(source: Path = SOURCE) -> list[Stage]:
    """Every stage, the largest first."""
    by_name: dict[str, list[Path]] = defaultdict(list)
    for path in files_of(source):
        by_name[stage_of(path, source)].append(path)
    found = []
    for name, paths in by_name.items():
        largest = max(paths, key=lambda each: (count_lines(each), str(each)))
        code = sum(map(count_code, paths))
        found.append(Stage(name, code, len(paths), largest.relative_to(source).as_posix(), count_lines(largest)))
    return sorted(found, key=lambda each: (-each.code, each.name))


# --- imports ------------------------------------------------------------------------------------------------------


def imports_of(tree: ast.Module) -> Iterator[tuple[str, When]]:
    """Dotted name of each import and when it happens; a name imported from a module may be a module itself."""
    todo: list[tuple[ast.AST, When]] = [(tree, "at import")]
    while todo:
        node, when = todo.pop()
        if isinstance(node, ast.Import):
            yield from ((each.name, when) for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ((f"{node.module}.{each.name}", when) for each in node.names)
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
            yield from ((str(each.value), when) for each in node.args if isinstance(each, ast.Constant))
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            todo += [(each, "for types") for each in node.body] + [(each, when) for each in node.orelse]
            continue
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) and when == "at import":
            when = "in a function"
        todo += [(each, when) for each in ast.iter_child_nodes(node)]


def package_of(path: Path, source: Path = SOURCE) -> str:
    """`tidegate.hosts.wave` for a file in that folder; a file directly under the package stands for itself."""
    inside = path.relative_to(source)
    if len(inside.parts) == 1:
        return f"tidegate.{inside.stem}" if inside.stem != "__init__" else "tidegate"
    return ".".join(("tidegate", *inside.parts[:-1]))


def imported_packages(source: Path = SOURCE) -> dict[tuple[str, str], set[When]]:
    """Which package imports which other one, and when.

    `import tidegate` reaches every name it offers only when that is used, so the package itself is left out.
    """
    packages = {package_of(path, source) for path in files_of(source)}
    found: dict[tuple[str, str], set[When]] = defaultdict(set)
    for path in files_of(source):
        here = package_of(path, source)
        for name, when in imports_of(tree_of(path)):
            parts = name.split(".")
            known = (".".join(parts[:end]) for end in range(len(parts), 1, -1))
            there = next((each for each in known if each in packages), here)
            if "tidegate" not in (here, there) and there != here:
                found[here, there].add(when)
    return found


def mutual_imports(whens: tuple[When, ...], source: Path = SOURCE) -> list[str]:
    """Pairs of packages where each imports the other at one of these times."""
    found = {pair for pair, when in imported_packages(source).items() if when & set(whens)}
    return sorted(f"{one} and {two}" for one, two in found if one < two and (two, one) in found)


# --- names that nobody uses ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Definition:
    """A name that `src` gives to a function, a method, a class or a value of a module."""

    name: str
    path: Path
    first: int
    last: int

    def __str__(self) -> str:
        return f"{'/'.join(self.path.parts[-2:])}:{self.first}: {self.name}"


def definitions(source: Path = SOURCE) -> Iterator[Definition]:
    """What can be named from elsewhere. What others call is left out: what Python and notebooks look for, what a
    decorator hands over, and methods of classes whose base is not ours, such as visitors of syntax trees."""
    paths = files_of(source)
    nodes = [(path, node) for path in paths for node in ast.walk(tree_of(path))]
    ours = {node.name for _, node in nodes if isinstance(node, ast.ClassDef)} | OPEN_BASES
    foreign = {
        id(inner)
        for _, node in nodes
        if isinstance(node, ast.ClassDef) and any(_last_name(each) not in ours for each in node.bases)
        for inner in node.body
    }
    for path, node in nodes:
        if not isinstance(node, ast.FunctionDef | ast.ClassDef) or id(node) in foreign:
            continue
        is_plain = all(_last_name(each) in PLAIN for each in node.decorator_list)
        if is_plain and not re.fullmatch(r"__\w+__|_repr_\w+_", node.name):
            yield Definition(node.name, path, node.lineno, node.end_lineno or 0)
    for path in paths:
        for statement in tree_of(path).body:
            for name in _assigned(statement):
                yield Definition(name, path, statement.lineno, statement.end_lineno or 0)


def _last_name(node: ast.expr) -> str:
    """`dataclass` for `@dataclasses.dataclass(frozen=True)`, `Generic` for `Generic[T]`."""
    while isinstance(node, ast.Call | ast.Subscript):
        node = node.func if isinstance(node, ast.Call) else node.value
    return ast.unparse(node).split(".")[-1]


def _assigned(statement: ast.stmt) -> Iterator[str]:
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    if isinstance(statement, ast.AnnAssign):
        targets = [statement.target]
    yield from (each.id for each in targets if isinstance(each, ast.Name) and not each.id.startswith("__"))


def names_in(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Every name that a file uses, with its line: also in strings that are nothing but names."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            yield node.id, node.lineno
        elif isinstance(node, ast.Attribute):
            yield node.attr, node.lineno
        elif isinstance(node, ast.ImportFrom):
            yield from ((each.name, node.lineno) for each in node.names)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and NAMES.fullmatch(node.value):
            yield from ((each, node.lineno) for each in re.findall(r"\w+", node.value))


def uses(root: Path = ROOT) -> dict[str, set[tuple[Path, int]]]:
    """Where each name stands in the places that are searched; in prose, only what is marked as code counts."""
    found: dict[str, set[tuple[Path, int]]] = defaultdict(set)
    for place in PLACES:
        for path in files_of(root / place):
            for name, line in names_in(tree_of(path)):
                found[name].add((path, line))
        for path in sorted((root / place).rglob("*.md")):
            for code in CODE_IN_PROSE.findall(path.read_text(encoding="utf-8")):
                for name in re.findall(r"\w+", code):
                    found[name].add((path, 0))
    return found


def unused(root: Path = ROOT) -> tuple[list[Definition], list[Definition]]:
    """Definitions that nothing names outside themselves; and those that only tests and benchmarks name."""
    named, nowhere, only_tests = uses(root), [], []
    tests = (root / "tests", root / "bench")
    for each in definitions(root / "src" / "tidegate"):
        others = [path for path, line in named[each.name] if path != each.path or not each.first <= line <= each.last]
        if not others:
            nowhere.append(each)
        elif all(any(path.is_relative_to(folder) for folder in tests) for path in others):
            only_tests.append(each)
    return nowhere, only_tests


# --- the page -----------------------------------------------------------------------------------------------------


def run() -> tuple[str, bool]:
    """The tables as Markdown, and whether no packages import each other at run time and every name is used."""
    found = stages()
    lines = ["| stage | lines of code | files | largest file | its lines |", "|---|---:|---:|---|---:|"]
    lines += [f"| {each.name} | {each.code:,} | {each.files} | `{each.largest}` | {each.lines} |" for each in found]
    lines += [f"| all | {sum(each.code for each in found):,} | {sum(each.files for each in found)} | | |", ""]
    lines += ["| packages that import each other | pairs |", "|---|---:|"]
    lines += [f"| {when} | {len(mutual_imports((when,)))} |" for when in WHENS]
    pairs, of_types = mutual_imports(WHENS[:2]), mutual_imports(WHENS)
    lines += [f"| at run time, either way | {len(pairs)} |", f"| with those for types | {len(of_types)} |", ""]
    lines += [f"* {each}" for each in of_types]
    nowhere, only_tests = unused()
    lines += ["", f"Named nowhere else: {len(nowhere)}.", *(f"* `{each}`" for each in nowhere)]
    lines += ["", f"Named by tests and benchmarks alone: {len(only_tests)}.", *(f"* `{each}`" for each in only_tests)]
    return "\n".join(lines), not pairs and not nowhere


if __name__ == "__main__":
    text, good = run()
    print(text)
    sys.exit(not good)
