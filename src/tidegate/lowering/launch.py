"""A built kernel on a GPU.

Needs   its assembly and manifest; CuPy (`pip install tidegate[cuda]`) and an NVIDIA GPU that takes the target
Gives   `LoadedKernel.launch`: runs it on arrays of the GPU
Keeps   shapes, element types and assumptions about sizes are checked before anything runs
Cost    the driver compiles PTX once for each `LoadedKernel`
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidegate.diag import BadInput, Finding
from tidegate.lowering.manifest import Manifest, grid_of, read_manifest, sizes_of

if TYPE_CHECKING:
    from tidegate.lowering.build import BuiltKernel

TIMED = 20  # launches
AT_ONCE = 48 * 1024  # bytes of shared memory that a kernel has without asking
HELD_IN = {"bf16": "uint16", "i1": "bool", "f64": "float64", "f32": "float32", "f16": "float16"}


class LoadedKernel:
    """A kernel that the driver has taken."""

    def __init__(self, assembly: str, manifest: Manifest) -> None:
        cupy = get_cupy()
        self.manifest = manifest
        try:
            with tempfile.TemporaryDirectory() as folder:  # CuPy takes PTX as a file only
                path = Path(folder, "kernel.ptx")
                path.write_text(assembly, encoding="utf-8")
                self._kernel = cupy.RawModule(path=str(path)).get_function(manifest.name)
                self._kernel.attributes  # noqa: B018 - makes CuPy load it now, while the file is there
        except cupy.cuda.driver.CUDADriverError as error:
            raise BadInput(Finding("TG025", f"the driver does not take `{manifest.name}`: {error}")) from None
        if manifest.shared > AT_ONCE:
            self._kernel.max_dynamic_shared_size_bytes = manifest.shared

    def launch(self, arrays: Mapping[str, Any], *, sizes: Mapping[str, int] | None = None, **scalars: int) -> None:
        """Starts it on the current stream; does not wait. Arrays are any that lie on the GPU: CuPy's, or by DLPack."""
        self.prepare(arrays, sizes=sizes, **scalars)()

    def prepare(
        self, arrays: Mapping[str, Any], *, sizes: Mapping[str, int] | None = None, **scalars: int
    ) -> Callable[[], None]:
        """A launch whose arguments are checked, for whoever starts it often."""
        import numpy as np

        cupy, told = get_cupy(), self.manifest
        held = {}
        for array in told.arrays:
            if array.name not in arrays:
                raise BadInput(Finding("TG022", f"the kernel takes an array `{array.name}`"))
            held[array.name] = _on_gpu(cupy, array.name, array.dtype, arrays[array.name])
        values = sizes_of(told, {name: each.shape for name, each in held.items()}, sizes or {})
        given: list[Any] = [held[each.name] for each in told.arrays]
        for name, kind in told.scalars:
            value = scalars.get(name, 0)
            given.append(np.int32(value) if kind == "i32" else np.bool_(value))
        given += [np.int32(values[name]) for name, _ in told.sizes]
        shared = told.shared if told.shared > AT_ONCE else 0
        grid, block, arguments = grid_of(told, values), (told.threads, 1, 1), tuple(given)

        def launch() -> None:
            self._kernel(grid, block, arguments, shared_mem=shared)

        return launch


def load_built(path: Path) -> LoadedKernel:
    """From the assembly that `tidegate build` wrote; its manifest lies beside it."""
    return LoadedKernel(path.read_text(encoding="utf-8"), read_manifest(path.with_suffix(".json")))


def run_arrays(built: BuiltKernel, inputs: Mapping[str, Any], sizes: Mapping[str, int]) -> tuple[dict[str, Any], float]:
    """Runs it on NumPy's arrays: what they hold after one launch, and the median time of more in seconds."""
    import numpy as np

    cupy, told = get_cupy(), built.manifest
    arrays = {each.name: cupy.asarray(_bits(np.asarray(inputs[each.name]))) for each in told.arrays}
    scalars = {name: int(inputs.get(name, 0)) for name, _ in told.scalars}
    launch = LoadedKernel(built.assembly, told).prepare(arrays, sizes=sizes, **scalars)
    launch()
    cupy.cuda.runtime.deviceSynchronize()
    results = {name: cupy.asnumpy(each).view(np.asarray(inputs[name]).dtype) for name, each in arrays.items()}
    times = []
    for _ in range(TIMED):
        start, end = cupy.cuda.Event(), cupy.cuda.Event()
        start.record()
        launch()
        end.record()
        end.synchronize()
        times.append(cupy.cuda.get_elapsed_time(start, end) / 1000)
    return results, statistics.median(times)


def _bits(array: Any) -> Any:
    """NumPy knows no bfloat16: CuPy gets its bits."""
    return array.view("uint16") if array.dtype.name == "bfloat16" else array


def get_cupy() -> Any:
    """CuPy, where there is a GPU for it."""
    try:
        import cupy  # type: ignore[import-not-found]
    except ImportError:
        help = "install it: pip install 'tidegate[gpu]'"
        raise BadInput(Finding("TG019", "CuPy is not installed: kernels run on a GPU through it", help=help)) from None
    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError:
        count = 0
    if not count:
        raise BadInput(Finding("TG019", "there is no GPU here", help="`tidegate run FILE` simulates one"))
    return cupy


def _on_gpu(cupy: Any, name: str, dtype: str, array: Any) -> Any:
    """The array as CuPy sees it, checked."""
    found = (
        array if isinstance(array, cupy.ndarray) else cupy.from_dlpack(array) if hasattr(array, "__dlpack__") else array
    )
    found = cupy.asarray(found)
    wanted = HELD_IN.get(dtype, dtype.replace("i", "int", 1))
    if dtype != "bf16" and str(found.dtype) != wanted:
        raise BadInput(Finding("TG022", f"`{name}` has elements of {found.dtype}, and the kernel takes {dtype}"))
    if not found.flags.c_contiguous:
        raise BadInput(Finding("TG022", f"`{name}` is not contiguous in row-major order"))
    return found
