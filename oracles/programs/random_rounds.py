"""Random CUDA kernels about counters: remainders of loops, heads and tails, strides, launches that abort.

Needs   a seed
Gives   a kernel as `random_cuda` gives it
Keeps   about half of the kernels lack a barrier, or index another place. Small counters wrap around in none of the runs
        that an oracle makes: what happens then is a matter for named tests
"""

from __future__ import annotations

from oracles.programs.random_cuda import Made, Maker, made_of


def make(seed: int) -> Made:
    return made_of(seed, _PATTERNS, (1, 1, 2))


def _remainder(m: Maker) -> str:
    """A loop of n % 4 rounds, and what it leaves behind."""
    rnd, threads = m.rnd, m.threads
    slots, by = rnd.choice((2, 3)), rnd.choice((2, 3, 4, 5, 8, 9))
    a = m.array(slots * threads)
    rounds = rnd.choice((f"(n & {by})", "(n & 3)", "(n & 7)", "((n + 1) & 3)", f"(unsigned)n % {by}"))
    last = m.mostly(f"({rounds}) % {slots}", f"({rounds} + 1) % {slots}", "0")
    return (
        f"  for (int k = 0; k < {rounds}; k++) {{\n    {a}[k % {slots} * {threads} + t] = in[k];\n    BLOCK\n"
        f"    acc += {a}[k % {slots} * {threads} + {m.other}];\n  }}\n"
        f"  {a}[(unsigned)({last}) % {slots} * {threads} + t] = in[n];\n  BLOCK\n  acc += {a}[{m.other}];"
    )


def _tickets(m: Maker) -> str:
    """A ring whose slots come from counters of one kind or two, which go up together."""
    rnd, threads = m.rnd, m.threads
    slots = rnd.choice((2, 4))
    a, kind = m.array(slots * threads), rnd.choice(("unsigned char", "unsigned short", "unsigned", "int"))
    other = rnd.choice((kind, "unsigned"))
    ahead, step = m.mostly(slots - 1, slots, 1), rnd.choice((1, 1, 3))
    late = m.mostly(f"if ((unsigned char)(head - tail) > {slots}) acc += 1;", f"if (n == 5) head += {step};")
    return (
        f"  {{\n  {kind} head = 0;\n  {other} tail = 0;\n"
        f"  for (int k = 0; k < {ahead}; k++, head += {step}) {a}[head % {slots} * {threads} + t] = in[k];\n"
        f"  for (int k = 0; k < n; k++) {{\n    BLOCK\n    {a}[head % {slots} * {threads} + t] = in[k + 7];\n"
        f"    head += {step};\n    acc += {a}[tail % {slots} * {threads} + {m.other}];\n    tail += {step};\n"
        f"    {late}\n  }}\n  }}"
    )


def _downwards(m: Maker) -> str:
    """Two counters that run against each other."""
    rnd, threads = m.rnd, m.threads
    a, step = m.array(2 * threads), rnd.choice((1, 2, 3))
    late = m.mostly("", f"if (up + down != n * {step}) {{ BLOCK }}")
    at = m.mostly(f"(up / {step} & 1)", f"(down / {step} & 1)", "(up & 1)")
    return (
        f"  for (int up = 0, down = n * {step}; down > 0; up += {step}, down -= {step}) {{\n"
        f"    {a}[{at} * {threads} + t] = in[up];\n    BLOCK\n"
        f"    acc += {a}[(up / {step} & 1) * {threads} + {m.other}];\n"
        f"    {late}\n  }}"
    )


def _own_place(m: Maker) -> str:
    """Remainders and quotients that threads take of what they do not share."""
    rnd, threads = m.rnd, m.threads
    size = rnd.choice((8, 16, 32))
    a, far = m.array(threads + size), rnd.choice((size, 2 * size, 96 * size))
    at = rnd.choice((f"(unsigned)(t + {far} * blockIdx.x) % {size}", f"(t + {far} * blockIdx.x & {size - 1})"))
    back = m.mostly(f"(unsigned)({at}) % {threads}", m.other)
    return (
        f"  if (t < {rnd.choice((7, 12, 32))}) {a}[{at}] = in[t];\n  {rnd.choice(('BLOCK', 'BLOCK', ''))}\n"
        f"  if (t < {rnd.choice((7, 12, 32))}) acc += {a}[{back}];"
    )


def _trap(m: Maker) -> str:
    a, threads = m.array(m.threads), m.threads
    when = m.rnd.choice(("n == 3", "n > 4", f"t == {threads - 1} && n == 2", "n < 0"))
    where = m.mostly("BLOCK", "")
    abort = m.mostly("__trap();", "return;")
    return (
        f"  {a}[t] = in[t];\n  if ({when}) {abort}\n  {where}\n  acc += {a}[{m.other}];\n  BLOCK\n  {a}[t] = acc;\n"
        f"  BLOCK\n  acc += {a}[{threads - 1} - t];"
    )


_PATTERNS = (_remainder, _remainder, _tickets, _tickets, _downwards, _own_place, _trap)
