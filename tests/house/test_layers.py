"""The order of stages, as a test: a module imports only names to its left, and only the command line prints.

The order is that of the design's layout. `language` stands where the design says `kernel`, and `explanation` is what
`explain` is made of: `tidegate.kernel` is the decorator, `tidegate.explain` a function. Imports are read from the
text, those inside functions included.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tidegate.codes import CODES

SOURCE = ROOT / "src" / "tidegate"
ORDER = (
    "collecting edition disk notebook diag codes targets allowing cost index compiled language graph footprint hazards "
    "placement waits scheduling verify assumptions simulate hints hosts guest limits files session replays passes "
    "decided results comparison lowering synchronize pingpong explanation advice report hosts.dropin "
    "hosts.triton.dropin hosts.wave.dropin triton triton_start wave programs library building seeds demo cli __main__"
).split()
PACKAGE = "tidegate"
WHOLE = {"cli"}  # layers that may use names of the package itself
JUDGED = {"hazards", "placement", "waits", "scheduling"}
# Two judges that are to agree do not ask each other; what `verify` imports would come along, too.
FORBIDDEN = {"verify": JUDGED, "simulate": JUDGED | {"footprint", "verify"}}
# Libraries that take long to import: nobody pays for them who only writes or reads kernels.
HEAVY = ("numpy", "ml_dtypes", "islpy", "highspy", "rich", "typer")


# --- what imports what --------------------------------------------------------------------------------------------


def files_of(source: Path) -> list[Path]:
    return sorted(path for path in source.rglob("*.py"))


def layer_of(path: Path, source: Path) -> str:
    """`graph` for `graph/build.py`, `cli` for `cli.py`; the package's own `__init__` is its last layer."""
    name = ".".join(path.relative_to(source).with_suffix("").parts)
    return "" if name == "__init__" else layer_named(name)


def layer_named(name: str) -> str:
    """The longest name in the order that holds the module: readers of a host come early, its drop-in comes late."""
    fitting = [each for each in ORDER if name == each or name.startswith(f"{each}.")]
    return max(fitting, key=len, default=name.split(".")[0])


def imports_of(path: Path) -> Iterator[tuple[int, str]]:
    """Line and dotted name of everything imported from the package, wherever the import stands."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            for each in node.names:
                yield node.lineno, each.name
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path.name}:{node.lineno}: relative imports hide the layer"
            for each in node.names:
                yield node.lineno, f"{node.module}.{each.name}"
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("import_module", "__import__")):
            for arg in node.args[:1]:
                # A name that is put together may be any: it counts as the package, which holds them all.
                yield node.lineno, str(arg.value) if isinstance(arg, ast.Constant) else "tidegate"


def layers_used(path: Path) -> Iterator[tuple[int, str]]:
    """What `tidegate` itself offers comes from anywhere: whoever imports it imports the whole package."""
    for line, name in imports_of(path):
        parts = name.split(".")
        if parts[0] == "tidegate":
            layer = layer_named(".".join(parts[1:]))
            yield line, layer if layer in ORDER else PACKAGE


def wrong_imports(source: Path) -> list[str]:
    found = []
    for path in files_of(source):
        layer = layer_of(path, source)
        if not layer:
            continue
        where = path.relative_to(source).as_posix()
        if layer not in ORDER:
            found.append(f"{where}: `{layer}` has no place in the order")
            continue
        for line, used in layers_used(path):
            if used == PACKAGE:
                if layer not in WHOLE:
                    found.append(f"{where}:{line}: `{layer}` imports the whole package")
            elif ORDER.index(used) > ORDER.index(layer):
                found.append(f"{where}:{line}: `{layer}` imports `{used}`, which comes after it")
            elif used in FORBIDDEN.get(layer, ()):
                found.append(f"{where}:{line}: `{layer}` imports `{used}`, which it judges")
    return found


def test_every_layer_of_the_order_is_there() -> None:
    assert set(ORDER) == {layer_of(path, SOURCE) for path in files_of(SOURCE)} - {""}


def test_imports_go_one_way() -> None:
    assert wrong_imports(SOURCE) == []


@pytest.mark.parametrize(
    ("path", "text", "wanted"),
    [
        ("graph/build.py", "from tidegate.verify import check\n", "graph/build.py:1: `graph` imports `verify`"),
        ("graph/build.py", "def f():\n    import tidegate.cli\n", "graph/build.py:2: `graph` imports `cli`"),
        ("diag.py", "from tidegate import index\n", "diag.py:1: `diag` imports `index`"),
        ("diag.py", "import_module('tidegate.cli')\n", "diag.py:1: `diag` imports `cli`"),
        ("verify/ask.py", "from tidegate.hazards import find\n", "verify/ask.py:1: `verify` imports `hazards`"),
        ("simulate/run.py", "from tidegate.footprint import f\n", "simulate/run.py:1: `simulate` imports `footprint`"),
        (
            "simulate/run.py",
            "if 1:\n    from tidegate.waits import f\n",
            "simulate/run.py:2: `simulate` imports `waits`",
        ),
        (
            "verify/ask.py",
            "def f():\n    from tidegate.placement.walks import Walks\n",
            "verify/ask.py:2: `verify` imports `placement`",
        ),
        ("verify/ask.py", "async def f():\n    import tidegate.waits\n", "verify/ask.py:2: `verify` imports `waits`"),
        (
            "verify/ask.py",
            "class C:\n    import tidegate.scheduling\n",
            "verify/ask.py:2: `verify` imports `scheduling`",
        ),
        (
            "verify/ask.py",
            "f = lambda: __import__('tidegate.hazards')\n",
            "verify/ask.py:1: `verify` imports `hazards`",
        ),
        ("verify/ask.py", "from tidegate import sync\n", "verify/ask.py:1: `verify` imports the whole package"),
        ("verify/ask.py", "import tidegate\n", "verify/ask.py:1: `verify` imports the whole package"),
        ("verify/ask.py", "import_module('tidegate.' + x)\n", "verify/ask.py:1: `verify` imports the whole package"),
        ("simulate/run.py", "from tidegate.verify import f\n", "simulate/run.py:1: `simulate` imports `verify`"),
        ("utils.py", "", "utils.py: `utils` has no place in the order"),
    ],
)
def test_a_forbidden_import_is_reported(tmp_path: Path, path: str, text: str, wanted: str) -> None:
    """The test is tested: a package with one such line does not pass."""
    file = tmp_path / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    (found,) = wrong_imports(tmp_path)
    assert found.startswith(wanted)


def test_an_allowed_import_is_not_reported(tmp_path: Path) -> None:
    (tmp_path / "verify").mkdir()
    (tmp_path / "verify" / "ask.py").write_text("from tidegate.graph.model import SyncGraph\nimport numpy\n")
    assert wrong_imports(tmp_path) == []


def test_judges_load_nothing_that_they_judge() -> None:
    """Not by an import that no text shows, either: a kernel is proved and run, and then the process is asked."""
    lines = [
        "import sys",
        "from pathlib import Path",
        "from tidegate.graph.build import build_graph",
        "from tidegate.language.parse import parse",
        "from tidegate.targets import load_target",
        f"kernel = parse(Path({str(ROOT / 'examples' / 'softmax.tide')!r}).read_text()).kernels[0]",
        "target = load_target('gfx942')",
        "graph = build_graph(kernel, target).graph",
        "from tidegate.simulate.judge import judge",
        "judgement = judge(graph, target)",
        f"run = [each for each in {sorted(FORBIDDEN['simulate'])!r} if f'tidegate.{{each}}' in sys.modules]",
        "from tidegate.verify.verify import verify",
        "proof = verify(graph, target)",
        f"proved = [each for each in {sorted(JUDGED)!r} if f'tidegate.{{each}}' in sys.modules]",
        "print(proof.is_proved, judgement.findings, run, proved)",
    ]
    done = subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "True [] [] []"


# --- who speaks ---------------------------------------------------------------------------------------------------


def speakers(source: Path) -> list[str]:
    """Calls that print or exit. The demo says what it shows through a function that it is given."""
    found = []
    for path in files_of(source):
        if layer_of(path, source) in ("cli", "__main__"):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call):
                called = ast.unparse(node.func)
                if called in ("print", "exit", "quit", "sys.exit", "os._exit", "sys.stdout.write", "sys.stderr.write"):
                    found.append(f"{path.relative_to(source).as_posix()}:{node.lineno}: {called}")
            elif isinstance(node, ast.Raise) and node.exc is not None and "SystemExit" in ast.unparse(node.exc):
                found.append(f"{path.relative_to(source).as_posix()}:{node.lineno}: SystemExit")
    return found


def test_only_the_command_line_prints_or_exits() -> None:
    assert speakers(SOURCE) == []


@pytest.mark.parametrize("text", ["print(1)", "def f():\n    sys.exit(1)", "raise SystemExit(2)", "exit()"])
def test_a_speaker_is_reported(tmp_path: Path, text: str) -> None:
    (tmp_path / "diag.py").write_text(text)
    assert len(speakers(tmp_path)) == 1
    (tmp_path / "diag.py").rename(tmp_path / "cli.py")
    assert speakers(tmp_path) == []


# --- what an import costs -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "statement",
    [
        "import tidegate",
        "import tidegate.language.parse",
        "import tidegate.language.check",
        "import tidegate.files",
        "import tidegate.targets",
        "import tidegate.passes",
        "import tidegate; tidegate.parse('kernel @k() waves 4 {}')",
        "from tidegate import kernel",
    ],
)
def test_no_heavy_library_is_imported(statement: str) -> None:
    code = f"import sys\n{statement}\nprint(*[each for each in {HEAVY!r} if each in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


# --- codes --------------------------------------------------------------------------------------------------------


def codes_used(source: Path) -> set[str]:
    """Codes that any module but their own list speaks of."""
    texts = (path.read_text(encoding="utf-8") for path in files_of(source) if path.name != "codes.py")
    return {code for text in texts for code in re.findall(r"\bTG\d{3}\b", text)}


def test_every_code_that_is_used_is_listed() -> None:
    assert codes_used(SOURCE) - set(CODES) == set()


def test_every_code_that_is_listed_is_used() -> None:
    assert set(CODES) - codes_used(SOURCE) == set()


def test_an_unknown_code_is_seen(tmp_path: Path) -> None:
    (tmp_path / "check.py").write_text('Finding("TG999", "nobody knows this code")\n')
    assert codes_used(tmp_path) - set(CODES) == {"TG999"}


def test_codes_are_grouped_as_their_list_says() -> None:
    from tidegate.diag import Finding

    for code in CODES:
        assert re.fullmatch(r"TG[0-6]\d\d", code)
        assert Finding(code, "").is_bad_input == (code[2] in "056")
        assert (Finding(code, "").severity == "warning") == (code[2] == "4")
