"""Kernels of `oracles/triton_kernels` as PTX, with Triton's barriers and with Tidegate's, and the manifest of them.

Needs   Triton 3.9 and Tidegate; no GPU and no CUDA
Gives   a folder with a file for each variant, and its manifest
Keeps   variants go through the same stages; no line numbers, so that equal code is equal text; kernels have names of
        their own, so that what a tool reports says which it was; what does not compile is listed, never left out
Cost    a third of a second for a variant, and what Tidegate takes
"""

from __future__ import annotations

import hashlib
import re
from functools import partial
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

from bench.gpu.manifest import Entry, Manifest, Refused, write_manifest
from bench.gpu.variants import Variant, variants_of
from oracles.triton_kernels import MODULES, Case, cases, compile_to

BARRIER = re.compile(r"\b(?:bar|barrier)(?:\.cta)?\.(?:sync|red|arrive)\b")
ENTRY = re.compile(r"\.visible \.entry \w+\(([^)]*)\)")
SCRATCH_POINTERS = 2  # behind the arguments


def compile_corpus(
    folder: Path, targets: tuple[str, ...], only: str | None, merge_waits: str, removed: bool
) -> Manifest:
    """Compiles all that can be launched, and writes the folder."""
    work = [(case, target) for case in chosen(only) for target in targets if target in case.targets]
    folder.mkdir(parents=True, exist_ok=True)
    entries: list[Entry] = []
    failed: dict[str, str] = {}
    for case, target in work:
        try:
            made = variants_of(partial(compile_ptx, case, target), merge_waits, removed)
            entries.extend(write(folder, case, target, variant) for variant in made)
        except Exception as error:  # whatever Triton raises is what the manifest says
            failed[f"{case.name}.{target}"] = first_line(error)
    made_by = {"triton": version("triton"), "tidegate": version("tidegate"), "merge_waits": merge_waits}
    manifest = Manifest(made_by, tuple(entries), failed)
    write_manifest(folder, manifest)
    return manifest


def chosen(only: str | None) -> list[Case]:
    """The kernels that run on NVIDIA's chips: all, one, a family, or those of a module."""
    named = {each.name for each in import_module(f"oracles.triton_kernels.{only}").CASES} if only in MODULES else {only}
    found = [each for each in cases() if each.launch and (only is None or {each.name, each.kernel} & named)]
    if not found:
        raise Refused(f"no kernel that can be launched is named {only}")
    return found


def compile_ptx(case: Case, target: str) -> tuple[str, dict[str, Any]]:
    """The PTX of a kernel, and what Triton says beside it: its metadata, and `parameters`, the types that it takes."""
    from triton import knobs

    with knobs.compilation.scope():
        knobs.compilation.disable_line_info = True
        made, metadata = compile_to(case, target, "ptx")
    source, _ = case.source(target)
    metadata["parameters"] = tuple(type_ for type_ in source.signature.values() if type_ != "constexpr")
    return made["ptx"], metadata


def write(folder: Path, case: Case, target: str, variant: Variant) -> Entry:
    """One file of PTX, and what the manifest says of it."""
    known = variant.metadata
    name = re.sub(r"\W", "_", f"{case.name}.{target}.{variant.name}")
    text = rename(variant.ptx, known["name"], name)
    taken = ENTRY.search(text)
    parameters = known["parameters"]
    if taken is None or taken[1].count(".param") != len(parameters) + SCRATCH_POINTERS:
        raise ValueError("the kernel does not take the arguments of its case and two pointers to scratch memory")
    (folder / f"{name}.ptx").write_text(text, encoding="utf-8")
    return Entry(
        case=case.name,
        target=target,
        variant=variant.name,
        ptx=f"{name}.ptx",
        entry=name,
        threads=known["num_warps"] * 32,
        shared=known["shared"],
        ctas=known["num_ctas"],
        scratch=known["global_scratch_size"],
        profile=known["profile_scratch_size"],
        parameters=parameters,
        digest=hashlib.sha256(variant.ptx.encode()).hexdigest()[:16],
        barriers=len(BARRIER.findall(text)),
        fallback=variant.fallback,
        verdict=variant.verdict,
    )


def rename(ptx: str, before: str, after: str) -> str:
    """The kernel under another name; its parameters are named after it, and keep their names."""
    return re.sub(rf"(\.visible \.entry ){re.escape(before)}\(", rf"\g<1>{after}(", ptx)


def first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0]}"[:200] if lines else type(error).__name__
