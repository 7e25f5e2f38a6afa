"""CUDA source to PTX, by NVRTC or nvcc.

Needs   the text of a file, how it is to be compiled, the kernel that is asked for
Gives   `Compiled`: the PTX, the mangled name of the kernel, and which compiler made it
Keeps   what does not compile is a finding with the compiler's own words; a compiler that crashes or never ends is one
        too. Files without host code go to NVRTC, others to nvcc; if NVRTC refuses a text, nvcc is asked before the
        verdict, because headers may hold host code, and the words of NVRTC count
Cost    a process for each compiler that is asked: 0.15 s for NVRTC, 0.7 s for nvcc, and the time of the text
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tidegate.diag import BadInput, Finding, Label, Span
from tidegate.hosts.cuda.headers import STANDARD
from tidegate.hosts.cuda.installed import Nvrtc, find_nvcc, find_nvrtc, folders_of_toolkit, missing
from tidegate.hosts.cuda.messages import findings_of
from tidegate.hosts.cuda.options import CudaOptions

_INSTANCES = "__nv_name_map"  # where NVRTC says that instances stand
# Kernels that launch kernels: they need another mode, which costs the others nothing but inlining between files.
_LAUNCHES = "requires separate compilation mode"
_ASKED_FILE = "tidegate-asked.cu"
_ASKED = "tidegate_asked"  # a variable that holds the kernel that is asked for
SECONDS = 600  # templates can keep a compiler busy for as long as they like
# Launches, `main` and the runtime's functions stand in host code alone; so do streams of the standard library.
_HOST = re.compile(
    r"<<<|\bint\s+main\s*\(|\bcuda(?:Malloc|Free|Memcpy|Memset|DeviceSynchronize|GetLastError|Event|Stream|Launch)\w*\s*\("
    r"|^\s*#\s*include\s*<(?:iostream|vector|string|chrono|random|memory|algorithm|thread|fstream|iomanip)>",
    re.MULTILINE,
)
_COMMENT = re.compile(r'//[^\n]*|/\*.*?\*/|("(?:\\.|[^"\\\n])*")', re.DOTALL)


@dataclass(frozen=True, slots=True)
class Compiled:
    """`kernel`: the mangled name of the instance that was asked for. `toolkit`: folders that are not the user's."""

    ptx: str
    by: str
    kernel: str = ""
    toolkit: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Task:
    file: str
    text: str
    options: CudaOptions
    kernel: str

    @property
    def path(self) -> str:
        return os.path.abspath(self.file)

    def named(self, said: str) -> str:
        """What the user calls a file that a compiler names."""
        return self.file if os.path.realpath(said) == os.path.realpath(self.path) else said

    def arguments(self, *folders: str) -> list[str]:
        return list(self.options.arguments(os.path.dirname(self.path), *folders))


def compile_cuda(text: str, file: str, options: CudaOptions, kernel: str = "") -> Compiled:
    """`kernel`: an instance as C++ writes it, `scale<float, 4>`, which the text itself need not ask for."""
    task = _Task(file, text, options, kernel)
    task.arguments()  # options that mean nothing are told before any compiler is missed
    nvrtc, nvcc, has_host = find_nvrtc(), find_nvcc(), has_host_code(text)
    if (nvrtc is None or has_host) and nvcc is not None:
        return _by_nvcc(task, nvcc)
    if nvrtc is None:
        raise BadInput(missing(file, has_host))
    try:
        return _by_nvrtc(task, nvrtc)
    except BadInput as refused:
        if nvcc is not None:
            try:
                return _by_nvcc(task, nvcc)
            except BadInput:
                raise refused from None
        if has_host:
            lacking = missing(file, has_host)
            raise BadInput(*refused.findings, lacking) from None
        raise


def has_host_code(text: str) -> bool:
    """Whether a text looks as if it also had a part for the CPU."""
    return _HOST.search(_COMMENT.sub(lambda found: found[1] or " ", text)) is not None


# --- NVRTC --------------------------------------------------------------------------------------------------------


def _by_nvrtc(task: _Task, nvrtc: Nvrtc) -> Compiled:
    # What has no annotation is taken for device code: helpers and `constexpr` functions that nvcc would take.
    options = [*task.arguments(*map(str, nvrtc.includes)), "-default-device"]
    request = {
        "library": str(nvrtc.library),
        "builtins": str(nvrtc.builtins),
        "name": task.path,
        "text": task.text,
        "options": options,
        "kernels": [task.kernel] if task.kernel else [],
        "headers": STANDARD,
    }
    found = _ask(task, request)
    if "broken" in found:
        raise BadInput(Finding("TG019", f"NVRTC cannot be used: {found['broken']}", (Label(Span(task.file, 0, 0, 0)),)))
    if "refused" in found:
        raise BadInput(*_refused(task, found["refused"]))
    name = found["names"].get(task.kernel, "")
    return Compiled(found["ptx"], f"NVRTC {found['version']}", name, folders_of_toolkit(None))


def _ask(task: _Task, request: dict[str, Any]) -> dict[str, Any]:
    """The answer of a child, which may die."""
    child = Path(__file__).with_name("child.py")
    with tempfile.TemporaryDirectory(prefix="tidegate-") as folder:
        question, reply = Path(folder) / "question", Path(folder) / "reply"
        question.write_text(json.dumps(request), encoding="utf-8")
        done = _run(task, "NVRTC", [sys.executable, "-I", "-S", str(child), str(question), str(reply)])
        if not reply.is_file():
            raise BadInput(_ended(task, "NVRTC", done))
        found: dict[str, Any] = json.loads(reply.read_text(encoding="utf-8"))
        return found


def _run(task: _Task, name: str, command: Sequence[str]) -> subprocess.CompletedProcess[bytes]:
    try:
        return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        said = f"{name} did not end within {SECONDS} seconds"
        raise BadInput(Finding("TG024", said, (Label(Span(task.file, 0, 0, 0)),))) from None
    except OSError as error:
        said = f"{name} cannot be started: {error.strerror or error}"
        raise BadInput(Finding("TG019", said, (Label(Span(task.file, 0, 0, 0)),))) from None


def _ended(task: _Task, name: str, done: subprocess.CompletedProcess[bytes]) -> Finding:
    words = done.stderr.decode("utf-8", "replace").strip().splitlines()[-1:]
    how = f"status {done.returncode}"
    if done.returncode < 0:
        how = signal.strsignal(-done.returncode) or f"signal {-done.returncode}"
    said = f"{name} crashed on this file: {'; '.join([how, *words])}"
    return Finding("TG024", said, (Label(Span(task.file, 0, 0, 0)),), help="report it to NVIDIA; `nvcc -ptx` may do")


def _refused(task: _Task, log: str) -> list[Finding]:
    return [
        _of_instance(task, each) if each.at.file == _INSTANCES else each
        for each in findings_of(log, task.file, task.named)
        if not each.message.startswith("Error in parsing name expression")  # says nothing that the others do not
    ]


def _of_instance(task: _Task, finding: Finding) -> Finding:
    """What a compiler says of the instance that is asked for stands in no line of the file."""
    at = Label(Span(task.file, 0, 0, 0))
    return Finding(finding.code, f"`{task.kernel}`: {finding.message}", (at,), finding.notes)


# --- nvcc ---------------------------------------------------------------------------------------------------------


def _by_nvcc(task: _Task, nvcc: Path) -> Compiled:
    with tempfile.TemporaryDirectory(prefix="tidegate-") as folder:
        made, source = Path(folder) / "made.ptx", task.path
        if task.kernel:  # its address asks for the instance
            source = str(Path(folder) / _ASKED_FILE)
            asked = f'#include "{task.path}"\nextern "C" __device__ auto *{_ASKED} = &{task.kernel};\n'
            Path(source).write_text(asked, encoding="utf-8", errors="surrogateescape")
        command = [str(nvcc), "-ptx", "--expt-relaxed-constexpr", *task.arguments(), "-o", str(made), source]
        done = _run(task, "nvcc", command)
        log = (done.stdout + done.stderr).decode("utf-8", "replace")
        if done.returncode and _LAUNCHES in log:
            done = _run(task, "nvcc", [*command, "-rdc=true"])
            log = (done.stdout + done.stderr).decode("utf-8", "replace")
        if done.returncode or not made.is_file():
            raise BadInput(*_said_by_nvcc(task, log, source))
        text = made.read_text(encoding="utf-8", errors="replace")
    version = re.search(r"Cuda compilation tools, release (\d+\.\d+)", text)
    kernel = re.search(rf"\b{_ASKED} = ([\w$]+);", text)
    by = f"nvcc {version[1]}" if version else "nvcc"
    return Compiled(text, by, kernel[1] if kernel and task.kernel else "", folders_of_toolkit(nvcc))


def _said_by_nvcc(task: _Task, log: str, source: str) -> list[Finding]:
    found = findings_of(log, task.file, task.named)
    if source == task.path:
        return found
    return [_of_instance(task, each) if each.at.file.endswith(_ASKED_FILE) else each for each in found]
