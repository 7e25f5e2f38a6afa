"""One compiled kernel as a file; a module of its own, so that other processes can import it."""

from __future__ import annotations

from pathlib import Path

from oracles.triton_kernels import cases, compile_ttgir


def write_one(folder: str, name: str, target: str) -> str:
    """Compiles one kernel for one target; the first line of the error, or nothing."""
    case = next(each for each in cases() if each.name == name)
    try:
        text = compile_ttgir(case, target)
    except Exception as error:  # whatever Triton raises is what the table says
        lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
        return next((line for line in lines if "rror" in line), lines[-1])[:300]
    Path(folder, f"{name}.{target}.ttgir").write_text(text, encoding="utf-8")
    return ""
