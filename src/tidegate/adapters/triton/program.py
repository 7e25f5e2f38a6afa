"""The functions of a TTGIR file as programs: a graph each, and a plan carried out in the file's own text.

Needs   a `Ttgir` and a target
Gives   for each kernel its graph and what is to be said of it; for plans the new text
Keeps   what is not understood is said as findings, never dropped
Cost    that of `build` and `write`
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tidegate.adapters.mlir.model import Operation
from tidegate.adapters.triton import libtriton
from tidegate.adapters.triton.build import Built, build
from tidegate.adapters.triton.places import Source
from tidegate.adapters.triton.read import Ttgir
from tidegate.adapters.triton.target import target_of
from tidegate.diag import Finding, Label, Span
from tidegate.targets import Target


@dataclass(frozen=True, slots=True)
class TritonProgram:
    """One kernel of a file."""

    ttgir: Ttgir
    function: Operation
    target: Target
    built: Built

    @property
    def name(self) -> str:
        return self.built.graph.name

    @property
    def said(self) -> str:
        """How the file was taken, where that is not just as it stands."""
        if not self.ttgir.is_compiled:
            return ""
        return f"as Triton {libtriton.version()} compiles it: its own barriers were put in first"

    def source(self, at: Span) -> Source | None:
        """Where in the Triton source a place of the file comes from."""
        return self.ttgir.places.source(at.line) if at.file == self.ttgir.file else None

    def findings(self) -> list[Finding]:
        """Operations that are taken for worse than they may be."""
        found = []
        if (self.ttgir.module.operation.integer("ttg.num-ctas") or 1) > 1:
            message = "the workgroups of a cluster share memory: what one of them does alone was looked at"
            found.append(Finding("TG407", message, (Label(self.function.at),)))
        for op in self.built.unknown:
            label = Label(op.at, "may read and write all that it can reach")
            message = f"nothing is known about what `{op.name}` does to shared memory here"
            found.append(Finding("TG407", message, (label,), help=_HELP))
        return found

    def with_sources(self, finding: Finding) -> Finding:
        """A finding with the lines of the Triton source that its places come from."""
        lines = []
        for label in finding.labels:
            source = self.source(label.at)
            if source is not None:
                lines.append(f"line {label.at.line} comes from {source}")
        return replace(finding, notes=(*finding.notes, *dict.fromkeys(lines))) if lines else finding


_HELP = "a row in `effects.toml` would say; until then it is taken for an access to everything"


def programs_of(ttgir: Ttgir, asked: str | None = None) -> list[TritonProgram]:
    """The kernels of a file, for its own GPU or the target asked for."""
    target = target_of(ttgir.gpu, asked)
    return [TritonProgram(ttgir, each, target, build(ttgir, each, target)) for each in ttgir.kernels]
