"""An independent brute-force judge of small kernels, written from design §2 alone.

    program = generate("lanes", 7)      # kinds: lanes, counts, atomics
    print(to_tide(program))             # the same program in the kernel language
    print(judge(program))               # Verdict(safe=..., why=...)

`AMBIGUITIES` lists where §2 can be read in two ways; the fields of `Rules` of the same names choose. By default each is
read the conservative way. `python -m oracles.twin KIND START COUNT -o file.jsonl` writes programs with their verdicts
and marks each unsafe one that another reading would make safe.

Outside: named barriers and mbarriers, TMA and proxies, stagger, lane-divergent conditions, indices that come from data.
"""

from .generate import generate
from .judge import Verdict, judge
from .program import Program
from .rules import AMBIGUITIES, STRICT, Rules
from .text import to_tide

__all__ = ["AMBIGUITIES", "STRICT", "Program", "Rules", "Verdict", "generate", "judge", "to_tide"]
