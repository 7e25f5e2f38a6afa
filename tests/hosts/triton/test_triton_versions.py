"""Other versions of Triton, and broken ones: commands say so, and programs with `TIDEGATE_TRITON=1` go on without us.

Before, `check` ended as a mistake of Tidegate's own, and the variable ended the program at `import triton`. The other
Tritons are packages in a folder that comes first on the path: what they meet is the code that real ones meet.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tidegate.hosts.triton import libtriton

needs_triton = pytest.mark.skipif(not libtriton.is_installed(), reason="NOT TESTED: Triton is not installed")

OLD = "__version__ = '3.2.0'\n"
WITHOUT_VERSION = "import os\n"
WITHOUT_COMPILER = "__version__ = '3.9.0'\n"
RAISING = "__version__ = '3.9.0'\nraise RuntimeError('no driver')\n"
CRASHING = "__version__ = '3.9.0'\nimport os, signal\nos.kill(os.getpid(), signal.SIGSEGV)\n"
TTGIR = ROOT / "tests" / "ttgir" / "spread.sm_80.ttgir"
GENERIC = (
    '"builtin.module"() ({\n"tt.func"() <{sym_name = "k", function_type = () -> ()}> ({\n"tt.return"() : () -> ()\n'
    '}) : () -> ()\n}) {"ttg.num-warps" = 4 : i32, ttg.target = "cuda:80", ttg.shared = 0 : i32} : () -> ()\n'
)


def run(args: list[str], triton: str | None, tmp_path: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Python with a package `triton` of these lines, or with the real one."""
    folders = [str(ROOT / "src")]
    if triton is not None:
        (tmp_path / "triton").mkdir()
        (tmp_path / "triton" / "__init__.py").write_text(triton, encoding="utf-8")
        folders.insert(0, str(tmp_path))
    clean = {name: value for name, value in os.environ.items() if not name.startswith("TIDEGATE_TRITON")}
    env = {**clean, "PYTHONPATH": os.pathsep.join(folders), **variables}
    return subprocess.run([sys.executable, *args], env=env, capture_output=True, text=True)


# --- commands -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", ["check", "sync", "show", "explain"])
@pytest.mark.parametrize(
    ("triton", "words"),
    [
        (OLD, "needs Triton, version 3.9.0; Triton 3.2.0 is installed"),
        (WITHOUT_VERSION, "needs Triton, version 3.9.0; Triton "),
        (WITHOUT_COMPILER, "Triton 3.9.0 is installed and cannot be imported: ModuleNotFoundError"),
        (RAISING, "Triton 3.9.0 is installed and cannot be imported: RuntimeError: no driver"),
        (CRASHING, "Triton 3.9.0 crashes on the file (SIGSEGV)"),
    ],
    ids=["old", "without a version", "without its compiler", "raising", "crashing"],
)
def test_a_file_that_needs_another_triton_is_bad_input(verb: str, triton: str, words: str, tmp_path: Path) -> None:
    if triton == WITHOUT_VERSION and libtriton.is_installed():
        words = ""  # what `pip` has recorded is the version then, and the import fails
    done = run(["-m", "tidegate", verb, str(TTGIR)], triton, tmp_path)
    assert done.returncode == 2, done.stderr
    assert words in done.stderr
    assert "mistake of Tidegate" not in done.stderr


@pytest.mark.parametrize("triton", [OLD, RAISING, CRASHING], ids=["old", "raising", "crashing"])
def test_generic_form_is_read_with_any_triton(triton: str, tmp_path: Path) -> None:
    file = tmp_path / "k.mlir"
    file.write_text(GENERIC)
    done = run(["-m", "tidegate", "check", str(file)], triton, tmp_path)
    assert done.returncode == 0, done.stderr


@needs_triton
def test_the_version_is_that_of_the_package_in_memory(tmp_path: Path) -> None:
    code = (
        "import triton; triton.__version__ = '3.10.1'\n"
        f"import sys; sys.argv = ['tidegate', 'check', {str(TTGIR)!r}]\n"
        "from tidegate.cli import main; main()"
    )
    done = run(["-c", code], None, tmp_path)
    assert done.returncode == 2
    assert "needs Triton, version 3.9.0; Triton 3.10.1 is installed" in done.stderr


# --- TIDEGATE_TRITON=1 ----------------------------------------------------------------------------------------------

# The installed package brings a `.pth` file that imports the first line; here it is there without one.
START = "import tidegate.triton_start\n"
ALIVE = START + "import triton\nprint('alive', triton.__loader__.__class__.__module__)\n"


@pytest.mark.parametrize(
    ("triton", "words"),
    [
        (OLD, "Tidegate knows the barrier pass of Triton 3.9.0; Triton 3.2.0 is installed"),
        (WITHOUT_COMPILER, "knobs"),
    ],
    ids=["old", "without its parts"],
)
def test_a_program_goes_on_with_a_triton_that_is_not_known(triton: str, words: str, tmp_path: Path) -> None:
    done = run(["-c", ALIVE], triton, tmp_path, TIDEGATE_TRITON="1")
    assert (done.returncode, done.stdout.split()) == (0, ["alive", "_frozen_importlib_external"]), done.stderr
    assert done.stderr.count("RuntimeWarning: TIDEGATE_TRITON=1 is ignored, Triton is unchanged: ") == 1
    assert words in done.stderr


def test_a_triton_that_cannot_be_imported_fails_as_without_us(tmp_path: Path) -> None:
    code = START + "try:\n    import triton\nexcept RuntimeError as error:\n    print('caught', error)\n"
    done = run(["-c", code], RAISING, tmp_path, TIDEGATE_TRITON="1")
    assert (done.returncode, done.stdout, done.stderr) == (0, "caught no driver\n", "")


def test_a_program_without_triton_sees_the_usual_error(tmp_path: Path) -> None:
    """No package of that name: the finder finds nothing, as all others."""
    code = (
        START
        + "import sys\nsys.path[:] = []\ntry:\n    import triton\nexcept ModuleNotFoundError:\n    print('none')\n"
    )
    done = run(["-c", code], None, tmp_path, TIDEGATE_TRITON="1")
    assert (done.returncode, done.stdout, done.stderr) == (0, "none\n", "")


@needs_triton
def test_an_option_that_does_not_exist_ends_no_program(tmp_path: Path) -> None:
    done = run(["-c", ALIVE], None, tmp_path, TIDEGATE_TRITON="1", TIDEGATE_TRITON_MERGE_WAITS="sometimes")
    assert (done.returncode, done.stdout.split()[0]) == (0, "alive")
    assert done.stderr.count("is ignored") == 1
    assert "sometimes" in done.stderr


@needs_triton
def test_a_mistake_of_ours_at_the_start_ends_no_program(tmp_path: Path) -> None:
    """Here a module of ours that cannot be imported."""
    code = (
        START + "import sys\nsys.modules['tidegate.hosts.triton.dropin.switch'] = None\nimport triton\nprint('alive')\n"
    )
    done = run(["-c", code], None, tmp_path, TIDEGATE_TRITON="1")
    assert (done.returncode, done.stdout) == (0, "alive\n"), done.stderr
    assert done.stderr.count("is ignored") == 1


@needs_triton
def test_to_look_for_triton_does_not_switch_it_off(tmp_path: Path) -> None:
    """Programs ask whether Triton is there long before they import it; the finder was gone after the question."""
    code = START + (
        "import importlib.util, sys\n"
        "assert importlib.util.find_spec('triton') is not None\n"
        "import triton\n"
        "hook = triton.knobs.runtime.add_stages_inspection_hook\n"
        "print(hook.__module__, triton.__loader__ is triton.__spec__.loader)\n"
        "print([each for each in sys.meta_path if type(each).__module__.startswith('tidegate.triton')])\n"
    )
    done = run(["-c", code], None, tmp_path, TIDEGATE_TRITON="1")
    assert done.stdout == "tidegate.hosts.triton.dropin.switch True\n[]\n", done.stderr


# --- GPUs without a target file -------------------------------------------------------------------------------------

COMPILE = """
import warnings
import triton, triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
import tidegate.triton

@triton.jit
def total(x, y, B: tl.constexpr):
    places = tl.arange(0, B)
    values = tl.load(x + places)
    tl.store(y + places, values + tl.sum(values, 0))

triton.knobs.compilation.always_compile = True
warnings.simplefilter("ignore")
with tidegate.triton.enabled(verify=True):
    for target in (GPUTarget("cuda", 75, 32), GPUTarget("hip", "gfx908", 64), GPUTarget("cuda", 80, 32)):
        signature = {"x": "*fp32", "y": "*fp32", "B": "constexpr"}
        triton.compile(ASTSource(total, signature=signature, constexprs={(2,): 1024}), target=target)
print(tidegate.triton.report())
print([(each.before, each.after) for each in tidegate.triton.report()])
"""


@needs_triton
def test_the_report_has_kernels_for_gpus_without_a_target_file(tmp_path: Path) -> None:
    """Triton's barriers are counted by target: the count raised, and with it the whole report."""
    (tmp_path / "program.py").write_text(COMPILE)
    done = run([str(tmp_path / "program.py")], None, tmp_path, TRITON_CACHE_DIR=str(tmp_path / "cache"))
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    for gpu, target in (("cuda:75", "sm_75"), ("hip:gfx908", "gfx908")):
        why_not = f"since no target is named `{target}`"
        assert f"@total on {gpu}: Triton's own barriers, which were not counted, {why_not}" in lines
    assert any(line.startswith("@total on cuda:80: ") and "with Triton's own pass; proved" in line for line in lines)
    assert lines[-1].startswith("[(None, None), (None, None), (")
