"""The recipes for CI: the workflow and the hook are read as YAML, and the commands that they name are run.

`docs/ci.md` shows both files as they are.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conftest import ROOT

WORKFLOW = ROOT / "examples/ci/tidegate.yml"
HOOKS = ROOT / ".pre-commit-hooks.yaml"
GOOD = ROOT / "examples/broken/fixed/missing_barrier.tide"
BAD = ROOT / "examples/broken/missing_barrier.tide"


def read(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def steps() -> list[dict[str, Any]]:
    (job,) = read(WORKFLOW)["jobs"].values()
    return list(job["steps"])


def as_module(command: str) -> str:
    """The command with the Tidegate of these tests."""
    assert command.startswith("tidegate ")
    return f"{shlex.quote(sys.executable)} -m {command}"


def test_the_workflow_installs_checks_and_uploads() -> None:
    workflow = read(WORKFLOW)
    assert set(workflow[True]) == {"push", "pull_request"}  # YAML reads `on` as a truth value
    assert workflow["permissions"] == {"contents": "read", "security-events": "write"}
    ran = [each.get("run") or each["uses"] for each in steps()]
    assert [each.partition("@")[0] for each in ran] == [
        "actions/checkout",
        "actions/setup-python",
        "pip install tidegate",
        "tidegate check --sarif kernels/*.tide > tidegate.sarif",
        "github/codeql-action/upload-sarif",
    ]
    upload = steps()[-1]
    assert upload["with"]["sarif_file"] in ran[3]
    assert upload["if"].startswith("always()")


def test_the_workflow_asks_for_a_python_that_will_do() -> None:
    wanted = next(each["with"]["python-version"] for each in steps() if "python-version" in each.get("with", {}))
    needed = re.search(r'requires-python = ">=3\.(\d+)"', (ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert needed is not None
    assert int(wanted.split(".")[1]) >= int(needed[1])


@pytest.mark.parametrize(("kernels", "status", "codes"), [([GOOD], 0, []), ([GOOD, BAD], 1, ["TG101"])])
def test_the_workflows_command_writes_a_log(tmp_path: Path, kernels: list[Path], status: int, codes: list[str]) -> None:
    (tmp_path / "kernels").mkdir()
    for number, each in enumerate(kernels):
        shutil.copy(each, tmp_path / "kernels" / f"{number}.tide")
    (command,) = (each["run"] for each in steps() if "tidegate check" in each.get("run", ""))
    done = subprocess.run(
        ["bash", "-ec", as_module(command)], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (status, "")
    (run,) = json.loads((tmp_path / "tidegate.sarif").read_text(encoding="utf-8"))["runs"]
    assert [each["ruleId"] for each in run["results"]] == codes
    places = [each["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for each in run["results"]]
    assert places == ["kernels/1.tide"][: len(codes)]


def test_the_hook_is_one_that_pre_commit_knows() -> None:
    (hook,) = read(HOOKS)
    assert set(hook) == {"id", "name", "description", "entry", "language", "files", "types"}
    assert hook["language"] == "python"  # pre-commit installs the repository into an environment of its own
    assert [bool(re.search(hook["files"], name)) for name in ("a/gemm.tide", "b.sync", "gemm.py", "a.tide.txt")] == [
        True,
        True,
        False,
        False,
    ]


@pytest.mark.parametrize(("files", "status"), [([GOOD], 0), ([BAD], 1), ([GOOD, BAD], 1)])
def test_the_hook_passes_good_kernels_and_stops_bad_ones(files: list[Path], status: int) -> None:
    """Files follow the entry, as pre-commit calls it."""
    (hook,) = read(HOOKS)
    command = " ".join([as_module(hook["entry"]), *map(shlex.quote, map(str, files))])
    done = subprocess.run(["bash", "-c", command], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == status
    assert ("error[TG101]" in done.stdout) is (status == 1)


def test_the_hook_stops_what_cannot_be_read(tmp_path: Path) -> None:
    (hook,) = read(HOOKS)
    (tmp_path / "wrong.tide").write_text("kernel\n")
    command = f"{as_module(hook['entry'])} wrong.tide"
    done = subprocess.run(["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2


def test_the_page_shows_both_files_as_they_are() -> None:
    page = (ROOT / "docs/ci.md").read_text(encoding="utf-8")
    shown = dict(re.findall(r'(?ms)^```yaml title="([^"]+)"\n(.*?)^```$', page))
    assert shown["tidegate.yml"] == WORKFLOW.read_text(encoding="utf-8")
    assert shown["pre-commit-hooks.yaml"] == HOOKS.read_text(encoding="utf-8")
    (repository,) = yaml.safe_load(shown["pre-commit-config.yaml"])["repos"]
    assert [each["id"] for each in repository["hooks"]] == [each["id"] for each in read(HOOKS)]
    assert repository["rev"] == f"v{_version()}"


def _version() -> str:
    from tidegate import __version__

    return __version__
