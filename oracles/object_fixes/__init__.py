"""Published hangs and phase bugs of warp-specialized kernels, as small kernels of our own: wrong, and as fixed.

Needs   nothing; each case is written from the description of a public report, none of its code is used
Gives   `CASES`: by the name of a report its address, what it describes, the right kernel, the edits that make it wrong
        again, and what the finding has to say
"""

from oracles.object_fixes.cases import CASES, Case

__all__ = ["CASES", "Case"]
