"""The wheel: built, installed into a fresh environment, and used from an empty folder.

Nothing is downloaded for the installation: what Tidegate depends on is that of the environment of these tests. To build
the wheel, pip fetches the build backend, unless it is installed here.
"""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
import sysconfig
import tomllib
import zipfile
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tidegate import __version__
from tidegate.targets import known_targets

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
KERNEL = (ROOT / "examples/broken/fixed/missing_barrier.tide").read_text(encoding="utf-8")


def test_one_version() -> None:
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert PROJECT["version"] == __version__
    assert re.findall(r"(?m)^## \[(\d+\.\d+\.\d+)\]", changes)[0] == __version__


def test_every_version_of_python_is_named() -> None:
    named = {each.rpartition(" ")[2] for each in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", each)}
    lowest = PROJECT["requires-python"].removeprefix(">=")
    assert lowest in named
    assert min(named, key=lambda each: int(each.partition(".")[2])) == lowest


def run(*args: object, **options: object) -> subprocess.CompletedProcess[str]:
    settings = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    return subprocess.run(
        [*map(str, args)],
        capture_output=True,
        text=True,
        check=False,
        env=settings,
        **options,  # type: ignore[call-overload]
    )


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    here = ["--no-build-isolation"] if importlib.util.find_spec("hatchling") else []
    built = run(sys.executable, "-m", "pip", "wheel", "--no-deps", "--quiet", *here, "-w", folder, ROOT)
    if built.returncode and "No matching distribution" in built.stderr:
        pytest.skip("NOT TESTED: the wheel, for hatchling is not installed and cannot be fetched")
    assert built.returncode == 0, built.stderr
    (found,) = folder.glob("*.whl")
    return found


@pytest.fixture(scope="session")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of commands of a fresh environment that sees the dependencies of this one, but not its Tidegate."""
    folder = tmp_path_factory.mktemp("fresh")
    made = run(sys.executable, "-m", "venv", folder / "env")
    assert made.returncode == 0, made.stderr
    commands = folder / "env" / "bin"
    done = run(commands / "python", "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", wheel)
    assert done.returncode == 0, done.stderr
    (packages,) = (folder / "env").glob("lib/python*/site-packages")
    dependencies = folder / "dependencies"
    dependencies.mkdir()
    for each in Path(sysconfig.get_path("purelib")).iterdir():
        if "tidegate" not in each.name and each.suffix != ".pth" and not (packages / each.name).exists():
            (dependencies / each.name).symlink_to(each)
    (packages / "dependencies.pth").write_text(f"{dependencies}\n")
    return commands


@pytest.mark.slow
def test_the_wheel_has_all_that_lies_beside_the_code(wheel: Path) -> None:
    assert wheel.name == f"tidegate-{__version__}-py3-none-any.whl"
    with zipfile.ZipFile(wheel) as found:
        names = set(found.namelist())
    tracked = run("git", "ls-files", "src/tidegate", cwd=ROOT).stdout.split()
    missing = {each.removeprefix("src/") for each in tracked if (ROOT / each).exists()} - names
    assert missing == set()
    for each in (
        "tidegate/py.typed",
        "tidegate_triton.pth",
        *(f"tidegate/targets/{name}.toml" for name in known_targets()),
    ):
        assert each in names
    page = {path.name for path in (ROOT / "src/tidegate/report/page").glob("*.*")}
    assert {f"tidegate/report/page/{name}" for name in page} <= names
    inside = [name for name in names if name.startswith("tidegate/")]
    assert not [name for name in inside if "__pycache__" in name or name.endswith(".pyc")]
    assert {name.partition("/")[0] for name in names} == {
        "tidegate",
        "tidegate_triton.pth",
        f"tidegate-{__version__}.dist-info",
    }


@pytest.mark.slow
def test_the_wheel_says_what_it_is(wheel: Path) -> None:
    info = f"tidegate-{__version__}.dist-info"
    with zipfile.ZipFile(wheel) as found:
        said = found.read(f"{info}/METADATA").decode()
        starts = found.read(f"{info}/entry_points.txt").decode()
        licence = found.read(f"{info}/licenses/LICENSE").decode()
    assert f"\nVersion: {__version__}\n" in said
    assert {"triton", "wave", "dev", "docs"} <= set(re.findall(r"(?m)^Provides-Extra: (\S+)$", said))
    assert set(PROJECT["classifiers"]) == set(re.findall(r"(?m)^Classifier: (.+)$", said))
    assert "tidegate = tidegate.__main__:start" in starts
    assert "MIT" in licence


@pytest.mark.slow
def test_the_installed_command_works_from_an_empty_folder(installed: Path, tmp_path: Path) -> None:
    tidegate = installed / "tidegate"
    version = run(tidegate, "--version", cwd=tmp_path)
    assert (version.returncode, version.stdout, version.stderr) == (0, f"tidegate {__version__}\n", "")
    targets = run(tidegate, "targets", cwd=tmp_path)
    assert targets.returncode == 0, targets.stderr
    assert [line.split()[0] for line in targets.stdout.splitlines()[1 : len(known_targets()) + 1]] == [*known_targets()]
    (tmp_path / "good.tide").write_text(KERNEL, encoding="utf-8")
    (tmp_path / "race.tide").write_text(KERNEL.replace("  shared_memory_barrier\n", ""), encoding="utf-8")
    good = run(tidegate, "check", "good.tide", cwd=tmp_path)
    assert (good.returncode, good.stderr) == (0, "")
    assert good.stdout.startswith("@missing_barrier on gfx942: no findings\n  proved:")
    race = run(tidegate, "check", "race.tide", cwd=tmp_path)
    assert race.returncode == 1
    assert race.stdout.startswith("error[TG101]")


@pytest.mark.slow
def test_the_installed_package_is_the_one_that_is_used(installed: Path, tmp_path: Path) -> None:
    code = "import tidegate, importlib.metadata as m; print(tidegate.__file__); print(m.version('tidegate'))"
    done = run(installed / "python", "-c", code, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    place, version = done.stdout.split()
    assert Path(place).is_relative_to(installed.parent)
    assert version == __version__
