"""CUDA source that nobody here wrote: what `tidegate check` says of its kernels.

    python -m bench.cuda_corpus CHECKOUT                 every `.cu` below a folder, e.g. of NVIDIA/cuda-samples
    python -m bench.cuda_corpus CHECKOUT --only reduction
    ... --json OUT
    ... --arch sm_90a --std c++20 -D KITTENS_HOPPER    as the project is meant to be compiled

Needs   a checkout, and the extras `cuda` and `cuda-host` (or nvcc on the path) with a host compiler
Gives   for each kernel that touches shared memory or has barriers its verdict and the reason; totals; seconds
Keeps   the launch shape stands in each row: that of `SHAPES`, else one that the kernel's text suggests; a kernel that
        is a template counts for two of its instances
Cost    a compilation for each file, and `check` for each kernel
"""

from __future__ import annotations

import argparse
import json
import re
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

from bench.triton_figures import TooLong, at_most
from tidegate.hosts.cuda.options import CudaOptions
from tidegate.hosts.ptx.demangle import short_name

SECONDS = 60  # of one kernel
_SHARED = re.compile(r"\.shared\b|\bbar(rier)?\.|\bshfl\.|\bcp\.async|\bmbarrier\.")
_ENTRY = re.compile(r"\.entry\s+([\w$]+)")
# Launch shapes that the host code of a sample computes: a part of the file's path, of the kernel's name, the shape.
SHAPES: tuple[tuple[str, str, str], ...] = (
    ("FDTD3d/", r"", "32x16"),
    ("cdpAdvancedQuicksort/", r"qsort_warp", "512"),
    ("cdpQuadtree/", r"", "128"),
    ("cdpSimplePrint/", r"", "2"),
    ("reduction/", r"reduce[4-9]\w*?Lj(\d+)E", r"\1"),
    ("reduction/", r"multi_warp_cg_reduceI\wLm(\d+)E", r"\1"),
    ("threadFenceReduction/", r"Lj(\d+)E", r"\1"),
    ("convolutionSeparable/", r"Rows", "16x4"),
    ("convolutionSeparable/", r"Columns", "16x8"),
    ("matrixMul/", r"ILi(\d+)E", r"\1x\1"),
    ("matrixMul", r"(?:bs|block)(\d+)", r"\1x\1"),
    ("fp16ScalarProduct/", r"", "128"),
    ("mergeSort/", r"SharedKernel", "512"),
    ("mergeSort/", r"ElementaryIntervals", "128"),
    ("simpleHyperQ/", r"sum", "32"),
    ("simpleAttributes/", r"", "256"),
    ("simpleCooperativeGroups/", r"", "64"),
    ("dct8x8/", r"kernel1", "8x8"),
    ("dct8x8/", r"kernel2", "8x4x2"),
    ("dct8x8/", r"Short", "8x4x4"),
    ("histogram/", r"histogram256Kernel", "192"),
    ("histogram/", r"histogram64Kernel", "64"),
    ("imageDenoising/", r"", "8x8"),
    ("shfl_scan/", r"vertical", "32x8"),
    ("sortingNetworks/", r"Shared", "512"),
    ("binomialOptions", r"", "128"),
    ("dxtc/", r"", "64"),
    ("marchingCubes/", r"Triangles", "32"),
    ("recursiveGaussian/", r"transpose", "16x16"),
    ("HSOpticalFlow/", r"Jacobi", "32x6"),
    ("TensorCoreGemm/", r"", "256"),
    ("nbody", r"", "256"),
    ("stereoDisparity/", r"", "32x8"),
    ("eigenvalues/", r"", "256"),
    ("fastWalshTransform/", r"Batch1", "512"),
    ("SobelFilter/", r"SobelShared", "16x4"),
    ("FunctionPointers/", r"SobelShared", "16x4"),
    ("", r"DeviceAdjacentDifference", "128"),  # of CUB, whose policy says so
)
# Arguments without which a kernel is wrong: lengths that its launches pass.
ARGUMENTS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("sortingNetworks/", r"SortSharedP", ("4=1024",)),
    ("mergeSort/", r"SharedKernel", ("4=1024",)),
    ("scan/", r"scanExclusiveSharedP", ("2=1024",)),
    ("scan/", r"scanExclusiveShared2", ("4=256",)),
    ("fastWalshTransform/", r"Batch1", ("2=11",)),
    ("shfl_scan/", r"shfl_scan_test", ("1=32",)),
    ("SobelFilter/", r"SobelShared", ("2=80", "3=384")),
    ("FunctionPointers/", r"SobelShared", ("2=80", "3=384")),
    ("postProcessGL/", r"cudaProcess", ("3=32", "4=8")),
    ("dwtHaar1D/", r"dwtHaar1D", ("5=256",)),
    ("globalToShmemAsyncCopy/", r"MultiStage|LargeChunkILi", ("3=640", "4=640")),
)
MOST_INSTANCES = 2  # of one template


@dataclass(frozen=True, slots=True)
class Row:
    """One kernel."""

    file: str
    kernel: str
    block: str
    verdict: str  # proved, finding, undecided, not compiled
    why: str = ""
    seconds: float = 0.0


def shape_of(file: str, kernel: str, body: str, source: str) -> str:
    """The launch shape of a kernel: known, demanded, or suggested by the thread ids that its source reads."""
    for part, name, shape in SHAPES:
        if part in file and (found := re.search(name, kernel)):
            return found.expand(shape)
    if found := re.search(r"\.(?:req|max)ntid\s+(\d+)(?:,\s*(\d+))?(?:,\s*(\d+))?", body):
        return "x".join(filter(None, found.groups()))
    if "threadIdx.z" in source:
        return "8x8x4"
    return "16x16" if "threadIdx.y" in source else "256"


def kernels_of(ptx: str) -> Iterator[tuple[str, str]]:
    """Name and text of each kernel that has to do with shared memory."""
    starts = [found.start() for found in re.finditer(r"^(?:\.visible |\.weak )*\.entry ", ptx, re.MULTILINE)]
    for start, end in zip(starts, [*starts[1:], len(ptx)], strict=False):
        body = ptx[start:end]
        if _SHARED.search(body):
            yield _ENTRY.findall(body)[0], body


def compile_file(path: Path, options: CudaOptions) -> str:
    from tidegate.hosts.cuda.compile import compile_cuda

    return compile_cuda(path.read_text(encoding="utf-8", errors="replace"), str(path), options).ptx


def judge_one(path: Path, kernel: str, block: str, arguments: Sequence[str]) -> tuple[str, str]:
    """Verdict and reason, as `check FILE::KERNEL --block SHAPE` gives them."""
    from tidegate.diag import BadInput
    from tidegate.hosts.isa.launching import parse_arguments, parse_block
    from tidegate.hosts.ptx.parse import parse_ptx
    from tidegate.hosts.ptx.program import Ptx, programs_of
    from tidegate.passes import check_session
    from tidegate.session import Session

    try:
        with at_most(SECONDS, "it"):
            text = path.read_text(encoding="utf-8")
            ptx = Ptx(
                path.name,
                text,
                parse_ptx(text, path.name),
                kernel,
                parse_block(block) if block else (),
                arguments=parse_arguments(arguments),
            )
            (program,) = programs_of(ptx, None)
            session = Session(program.name, program.target, None, program.graph, program)
            checked = check_session(session, simulate=False)
            if not checked.is_proved and not checked.unmodelled:  # what is exact is said with the code of its hazard
                checked = check_session(session)
    except TooLong as late:
        return "undecided", str(late)
    except BadInput as bad:
        return "undecided", bad.findings[0].message
    errors = [each for each in checked.findings if each.severity == "error"]
    errors.sort(key=lambda each: each.code == "TG106")  # a pair that may be unordered: nobody has shown it
    if checked.is_proved and not errors:
        return "proved", ""
    if checked.unmodelled:
        return "undecided", checked.unmodelled[0]
    if errors and errors[0].code == "TG106":
        return "undecided", f"{errors[0].message.partition(';')[0]}"
    if errors:
        return "finding", f"{errors[0].code} {errors[0].message}; {'; '.join(errors[0].notes)}"[:240]
    undecided = checked.verification.undecided if checked.verification is not None else ()
    return "undecided", "; ".join(undecided)


def rows_of(path: Path, root: Path, options: CudaOptions, folder: Path) -> Iterator[Row]:
    name = path.relative_to(root).as_posix()
    try:
        ptx = compile_file(path, options)
    except Exception as error:
        yield Row(name, "", "", "not compiled", str(error).strip().split("\n")[0][:160])
        return
    kept = folder / (name.replace("/", "_") + ".ptx")
    kept.write_text(ptx, encoding="utf-8")
    source, seen = path.read_text(encoding="utf-8", errors="replace"), Counter[str]()
    for kernel, body in kernels_of(ptx):
        base = short_name(kernel).partition("<")[0]
        seen[base] += 1
        if seen[base] > MOST_INSTANCES:
            continue
        began = time.process_time()
        block = shape_of(name, kernel, body, source)
        given = next((each for part, said, each in ARGUMENTS if part in name and re.search(said, kernel)), ())
        verdict, why = judge_one(kept, kernel, block, given)
        yield Row(name, kernel, " ".join((block, *given)), verdict, why, time.process_time() - began)


def table(rows: list[Row]) -> str:
    judged = [each for each in rows if each.kernel]
    counts = Counter(each.verdict for each in judged)
    lost = [each for each in rows if not each.kernel]
    times = sorted(each.seconds for each in judged) or [0.0]
    why = Counter(re.sub(r"`[^`]*`|\d+", "…", each.why) for each in judged if each.verdict == "undecided")
    lines = [
        f"{len(judged)} kernels in {len({each.file for each in judged})} files; {len(lost)} files were not compiled",
        ", ".join(f"{count} {verdict}" for verdict, count in counts.most_common()),
        f"seconds of the processor: median {median(times):.1f}, most {times[-1]:.1f}",
        *(f"  {count} undecided: {reason}" for reason, count in why.most_common(12)),
    ]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--only", default="", help="files whose path contains this")
    parser.add_argument("-I", dest="includes", action="append", default=[], help="include folders")
    parser.add_argument("-D", dest="defines", action="append", default=[], help="macros")
    parser.add_argument("--arch", default="sm_80")
    parser.add_argument("--std", default="", help="the standard of C++; default: the compiler's")
    parser.add_argument("--json", type=Path, help="rows, as JSON")
    parser.add_argument("--keep", type=Path, default=Path("cuda-corpus"), help="where the PTX is kept")
    asked = parser.parse_args()
    asked.keep.mkdir(exist_ok=True)
    options = CudaOptions(tuple(asked.includes), tuple(asked.defines), asked.arch, asked.std)
    rows = []
    for path in sorted(asked.checkout.rglob("*.cu")):
        if asked.only not in path.as_posix():
            continue
        for row in rows_of(path, asked.checkout, options, asked.keep):
            rows.append(row)
            print(row.verdict, row.file, row.kernel, row.block, row.why, f"{row.seconds:.1f}", flush=True)
    print(table(rows))
    if asked.json:
        asked.json.write_text(json.dumps([asdict(each) for each in rows], indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
