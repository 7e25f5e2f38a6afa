"""Random CUDA kernels: tiles, swizzles, rings, reductions, scans, halos, copies, warp-synchronous code, branches.

Needs   a seed
Gives   a kernel's text, called `kSEED`, and the shape of its block
Keeps   addresses and branches depend on thread numbers, constants and the argument `n` alone. About half of the kernels
        lack a barrier that the pattern asks for, have a weaker one, or index another place
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

HEAD = "#include <cuda_pipeline.h>\n"
BARRIER, WARP = "__syncthreads();", "__syncwarp();"


@dataclass(frozen=True)
class Made:
    name: str
    text: str
    block: tuple[int, int, int]


def make(seed: int) -> Made:
    return made_of(seed, _PATTERNS, (1, 1, 2, 3))


def made_of(seed: int, patterns: Sequence[Callable[[Maker], str]], parts: Sequence[int]) -> Made:
    """A kernel of as many patterns as one of the numbers `parts` says."""
    rnd = random.Random(seed)
    maker = Maker(rnd)
    chosen = [rnd.choice(patterns)(maker) for _ in range(rnd.choice(parts))]
    body = "\n  BLOCK\n".join(chosen)
    body = weaken(rnd, body) if rnd.random() < 0.5 else body
    body = body.replace("BLOCK", BARRIER).replace("LANES", WARP)
    arrays = "".join(f"  {each}\n" for each in maker.arrays)
    head = f'extern "C" __global__ void k{seed}(float *out, const float *in, int n) {{\n'
    shape = "  int t = threadIdx.x + blockDim.x * threadIdx.y;\n  float acc = 0;\n"
    return Made(f"k{seed}", f"{head}{arrays}{shape}{body}\n  out[t] = acc;\n}}\n", maker.block)


def weaken(rnd: random.Random, body: str) -> str:
    places = [at for at in range(len(body)) if body.startswith(("BLOCK", "LANES"), at)]
    if not places:
        return body
    at = rnd.choice(places)
    return body[:at] + (rnd.choice(("", "", "LANES")) if body.startswith("BLOCK", at) else "") + body[at + 5 :]


class Maker:
    def __init__(self, rnd: random.Random) -> None:
        self.rnd, self.arrays = rnd, list[str]()
        self.threads = rnd.choice((64, 64, 96, 128))
        wide = rnd.choice((self.threads, 16, 32))
        self.block = (wide, self.threads // wide, 1)

    def array(self, size: int, kind: str = "float") -> str:
        name = f"a{len(self.arrays)}"
        self.arrays.append(f"__shared__ {self.rnd.choice(('', 'volatile '))}{kind} {name}[{size}];")
        return name

    def mostly(self, right: object, *wrong: object) -> object:
        """What the pattern asks for, or now and then something else."""
        return right if self.rnd.random() < 0.85 else self.rnd.choice(wrong)

    @property
    def other(self) -> str:
        """Another thread's place."""
        rnd, threads = self.rnd, self.threads
        return rnd.choice(
            (
                f"(t ^ {rnd.choice((1, 2, 4, 16, 31))})",
                f"(t + {rnd.choice((1, 3, 31, 32, 33))}) % {threads}",
                f"{threads - 1} - t",
                f"(t / 32 * 32 + (t + {rnd.choice((1, 5, 16))}) % 32)",
                f"(t * {rnd.choice((5, 7, 11))} + {rnd.randrange(9)}) % {threads}",
            )
        )


def _shift(m: Maker) -> str:
    a, other = m.array(m.threads), m.other
    sync = "LANES" if "/ 32" in other or "^ " in other else "BLOCK"
    if "^ 32" in other:
        sync = "BLOCK"
    return f"  {a}[t] = in[t];\n  {m.mostly(sync, 'LANES', 'BLOCK')}\n  acc += {a}[{other}];"


def _transpose(m: Maker) -> str:
    side = 16 if m.threads >= 256 else 8
    pad = m.rnd.choice((0, 1))
    a = m.array(side * (side + pad) * (m.threads // (side * side)))
    at = f"t / {side * side} * {side * (side + pad)} + "
    row, col = f"(t / {side} % {side})", f"(t % {side})"
    write, read = f"{at}{row} * {side + pad} + {col}", f"{at}{col} * {side + pad} + {row}"
    guard = f"if (t < {m.threads // (side * side) * side * side}) "
    return f"  {guard}{a}[{write}] = in[t];\n  BLOCK\n  {guard}acc += {a}[{read}];"


def _swizzle(m: Maker) -> str:
    a = m.array(2 * m.threads)
    mask = m.rnd.choice((3, 7))
    write = f"(t / 8) * 8 + ((t % 8) ^ (t / 8 & {mask}))"
    read = f"(t / 8 ^ {m.rnd.choice((1, 2, 4))}) * 8 + ((t % 8) ^ ((t / 8 ^ 1) & {m.mostly(mask, 1)}))"
    return f"  {a}[{write}] = in[t];\n  {m.mostly('BLOCK', 'LANES')}\n  acc += {a}[{read}];"


def _ring(m: Maker) -> str:
    slots = m.rnd.choice((2, 3, 4))
    ahead = m.mostly(slots - 1, slots, 1)
    a, threads = m.array(slots * m.threads), m.threads
    slot = m.rnd.choice((f"k % {slots}", "slot"))
    step = f"    slot = slot + 1 == {slots} ? 0 : slot + 1;\n" if slot == "slot" else ""
    fill = f"for (int k = 0; k < {ahead}; k++) {a}[k % {slots} * {threads} + t] = in[k * {threads} + t];"
    return (
        f"  {{\n  int slot = 0;\n  {fill}\n  for (int k = 0; k < n; k++) {{\n    BLOCK\n"
        f"    {a}[(k + {ahead}) % {slots} * {threads} + t] = in[(k + {ahead}) * {threads} + t];\n"
        f"    acc += {a}[{slot} * {threads} + {m.other}];\n{step}  }}\n  }}"
    )


def _double(m: Maker) -> str:
    a, threads = m.array(2 * m.threads), m.threads
    toggle = m.mostly("now ^= 1;", "")
    return (
        f"  {{\n  int now = 0;\n  for (int k = 0; k < n; k++) {{\n    {a}[now * {threads} + t] = in[k];\n    BLOCK\n"
        f"    acc += {a}[now * {threads} + {m.other}];\n    {toggle}\n  }}\n  }}"
    )


def _reduce(m: Maker) -> str:
    size = 64 if m.threads < 128 else 128
    a, last = m.array(m.threads), m.rnd.choice((0, 32))
    tree = (
        f"  {a}[t] = in[t];\n  BLOCK\n  for (int h = {size // 2}; h > {last}; h /= 2) {{\n"
        f"    if (t < h) {a}[t] += {a}[t + h];\n    BLOCK\n  }}"
    )
    if not last:
        return f"{tree}\n  acc += {a}[0];"
    loop = m.rnd.choice(
        (
            f"float v = {a}[t + h];\n      LANES\n      {a}[t] += v;\n      LANES",
            f"float v = h < 32 ? {a}[t + h] : {a}[t];\n      LANES\n      {a}[t] = v;\n      LANES",
        )
    )
    tail = f"  if (t < 32) {{\n    for (int h = 16; h > 0; h /= 2) {{\n      {loop}\n    }}\n  }}"
    return f"{tree}\n{tail}\n  BLOCK\n  acc += {a}[0];"


def _shuffles(m: Maker) -> str:
    a = m.array(m.threads // 32)
    mask = "0xffffffffu"
    return (
        f"  {{\n  float v = in[t];\n  for (int h = 16; h > 0; h /= 2) v += __shfl_xor_sync({mask}, v, h);\n"
        f"  if (t % 32 == {m.mostly(0, 'n % 2')}) {a}[t / 32] = v;\n  BLOCK\n"
        f"  if (t < {m.threads // 32}) acc += {a}[t];\n  else acc += {a}[0];\n  }}"
    )


def _scan(m: Maker) -> str:
    a, threads = m.array(2 * m.threads), m.threads
    return (
        f"  {{\n  int to = 0, from = 1;\n  {a}[t] = in[t];\n  BLOCK\n  for (int d = 1; d < {threads}; d *= 2) {{\n"
        f"    to = 1 - to;\n    from = 1 - to;\n"
        f"    if (t >= d) {a}[to * {threads} + t] = {a}[from * {threads} + t] + {a}[from * {threads} + t - d];\n"
        f"    else {a}[to * {threads} + t] = {a}[from * {threads} + t];\n    BLOCK\n  }}\n"
        f"  acc += {a}[to * {threads} + t];\n  }}"
    )


def _halo(m: Maker) -> str:
    radius = m.rnd.choice((1, 2, 4))
    a, threads = m.array(m.threads + 2 * radius), m.threads
    reach = m.mostly(radius, radius - 1)
    return (
        f"  {a}[t + {radius}] = in[t];\n"
        f"  if (t < {radius}) {{\n    {a}[t] = in[t + 1];\n    {a}[t + {threads + radius}] = in[t + 2];\n  }}\n"
        "  BLOCK\n"
        f"  for (int d = -{radius}; d <= {reach}; d++) acc += {a}[t + {radius} + d];"
    )


def _branch(m: Maker) -> str:
    a, b = m.array(m.threads), m.array(m.threads)
    edge = m.rnd.choice((16, 32, 40, 64))
    test = m.mostly(m.rnd.choice((f"t < {edge}", f"t & {m.rnd.choice((1, 32))}", "n > 2")), f"t < {edge} && n != 1")
    inner = "BLOCK" if test == "n > 2" or m.rnd.random() < 0.1 else ""
    return (
        f"  if ({test}) {{\n    {a}[t] = in[t];\n    {inner}\n    acc += {a}[{m.mostly('t', m.other)}];\n  }} else {{\n"
        f"    {b}[t] = in[n + t];\n    {inner}\n    acc += {b}[{m.mostly('t', m.other)}];\n  }}\n  BLOCK\n"
        f"  acc += {a}[{m.other}] + {b}[{m.other}];"
    )


def _copies(m: Maker) -> str:
    slots = m.rnd.choice((2, 3))
    a, threads = m.array(slots * m.threads), m.threads
    left = m.mostly(slots - 2, slots - 1)
    copy = f"__pipeline_memcpy_async((void *)&{a}[SLOT * {threads} + t], &in[STEP * {threads} + t], 4);"
    copy += "\n  __pipeline_commit();"
    first = "\n  ".join(copy.replace("SLOT", str(k)).replace("STEP", str(k)) for k in range(slots - 1))
    later = copy.replace("SLOT", f"(k + {slots - 1}) % {slots}").replace("STEP", f"(k + {slots - 1})")
    return (
        f"  {first}\n  for (int k = 0; k < n; k++) {{\n    __pipeline_wait_prior({left});\n    BLOCK\n    {later}\n"
        f"    acc += {a}[k % {slots} * {threads} + {m.other}];\n  }}\n  __pipeline_wait_prior(0);"
    )


def _histogram(m: Maker) -> str:
    a = m.array(m.threads, "int")
    m.arrays[-1] = m.arrays[-1].replace("volatile ", "")
    add = m.mostly(f"atomicAdd(&{a}[t * 7 % 16], 1);", f"{a}[t * 7 % 16] += 1;")
    return f"  {a}[t] = 0;\n  BLOCK\n  for (int k = 0; k < n; k++) {add}\n  BLOCK\n  acc += {a}[{m.other}];"


def _matmul(m: Maker) -> str:
    side = 8
    a, b = m.array(side * side), m.array(side * side)
    row, col = "(t / 8 % 8)", "(t % 8)"
    return (
        f"  for (int k = 0; k < n; k++) {{\n    if (t < 64) {{\n      {a}[t % 64] = in[k * 64 + t];\n"
        f"      {b}[t % 64] = in[k * 64 + 64 + t];\n    }}\n    BLOCK\n"
        f"    for (int i = 0; i < {side}; i++)\n"
        f"      acc += {a}[{row} * {side} + i] * {b}[i * {side} + {col}];\n    BLOCK\n  }}"
    )


_PATTERNS = (
    _shift,
    _transpose,
    _swizzle,
    _ring,
    _double,
    _reduce,
    _shuffles,
    _scan,
    _halo,
    _branch,
    _copies,
    _histogram,
    _matmul,
)
