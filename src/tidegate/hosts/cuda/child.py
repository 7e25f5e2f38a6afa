"""NVRTC in a process of its own: a program that the compiler crashes on ends this process and no other.

Needs   a request as JSON in the file that the first argument names: where NVRTC lies, the text, options, the kernels
Gives   an answer as JSON in the file that the second argument names: the PTX, or what NVRTC says of the text
Keeps   nothing of Tidegate is imported; the folder of the caller stays the folder of includes
Cost    that of loading NVRTC (50 ms) and of compiling
"""

from __future__ import annotations

import ctypes
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

# Results of NVRTC (nvrtc.h). All but these are of a request that was put together wrongly.
FINE, WRONG_TEXT, WRONG_OPTION, WRONG_NAME = 0, 6, 5, 7


class Nvrtc:
    """The functions of one installation."""

    def __init__(self, library: str, builtins: str) -> None:
        # NVRTC looks for its builtins by a bare name, which is found only if they are loaded already.
        ctypes.CDLL(builtins, mode=ctypes.RTLD_GLOBAL)
        self.library = ctypes.CDLL(library)
        self.program = ctypes.c_void_p()

    def call(self, name: str, *given: Any) -> int:
        return int(getattr(self.library, f"nvrtc{name}")(*given))

    def create(self, request: dict[str, Any]) -> None:
        headers = request["headers"]
        texts = (ctypes.c_char_p * len(headers))(*(each.encode() for each in headers.values()))
        names = (ctypes.c_char_p * len(headers))(*(each.encode() for each in headers))
        text, name = request["text"].encode(), request["name"].encode(errors="surrogateescape")
        given = (text, name, len(headers), texts, names)
        self.check("CreateProgram", self.call("CreateProgram", ctypes.byref(self.program), *given))
        for each in request["kernels"]:
            self.check("AddNameExpression", self.call("AddNameExpression", self.program, each.encode()))

    def check(self, name: str, result: int) -> None:
        if result != FINE:
            self.library.nvrtcGetErrorString.restype = ctypes.c_char_p
            raise RuntimeError(f"nvrtc{name}: {self.library.nvrtcGetErrorString(result).decode()}")

    def text(self, what: str) -> str:
        """The log or the PTX."""
        size = ctypes.c_size_t()
        self.check(what, self.call(f"Get{what}Size", self.program, ctypes.byref(size)))
        found = ctypes.create_string_buffer(max(1, size.value))
        self.check(what, self.call(f"Get{what}", self.program, found))
        return found.value.decode("utf-8", "replace")

    def lowered(self, kernel: str) -> str:
        found = ctypes.c_char_p()
        asked = (self.program, kernel.encode(), ctypes.byref(found))
        self.check("GetLoweredName", self.call("GetLoweredName", *asked))
        return (found.value or b"").decode()

    def version(self) -> str:
        major, minor = ctypes.c_int(), ctypes.c_int()
        self.check("Version", self.call("Version", ctypes.byref(major), ctypes.byref(minor)))
        return f"{major.value}.{minor.value}"


def compile_request(request: dict[str, Any]) -> dict[str, Any]:
    nvrtc = Nvrtc(request["library"], request["builtins"])
    nvrtc.create(request)
    options = [each.encode(errors="surrogateescape") for each in request["options"]]
    result = nvrtc.call("CompileProgram", nvrtc.program, len(options), (ctypes.c_char_p * len(options))(*options))
    said = nvrtc.text("ProgramLog")
    if result in (WRONG_TEXT, WRONG_OPTION, WRONG_NAME):
        return {"refused": said, "by": "text" if result == WRONG_TEXT else "option"}
    nvrtc.check("CompileProgram", result)
    names = {each: nvrtc.lowered(each) for each in request["kernels"]}
    return {"ptx": nvrtc.text("PTX"), "names": names, "version": nvrtc.version()}


def answer(compile_one: Callable[[dict[str, Any]], dict[str, Any]], question: str, reply: str) -> None:
    request = json.loads(Path(question).read_text(encoding="utf-8"))
    try:
        found = compile_one(request)
    except (
        OSError,
        RuntimeError,
        AttributeError,
    ) as error:  # not to be loaded, or of another version
        found = {"broken": str(error)}
    Path(reply).write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    answer(compile_request, sys.argv[1], sys.argv[2])
