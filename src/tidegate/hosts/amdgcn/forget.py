"""Vector instructions whose results nobody computes: what these depend on all the same.

Needs   an instruction that `lower_vector` does not know
Gives   operations that forget its results, with everything that decides them as sources
Keeps   two threads, or two waves, with equal sources get equal results: what the register held before is a source where
        it is added to, or where a part of it stays; so are masks and, where lanes look at each other, the whole wave
Cost    constant

AMD Instinct MI300 ISA, 6 (vector ALU), 7 (matrix products, which look at no EXEC mask).
"""

from __future__ import annotations

import re

from tidegate.hosts.amdgcn import model as a
from tidegate.hosts.amdgcn.emitter import UNKNOWN, Emitter
from tidegate.hosts.isa import model as m

# Results that other lanes have a part in.
_OF_LANES = re.compile(r"v_(permlane|mfma|wmma|smfma|swmmac|readlane|readfirstlane|movrel|interp|mbcnt)")
_MOVES = re.compile(r"dpp8|quad_perm|row_|wave_")  # DPP: which lane's value is taken
_READS_MASK = re.compile(r"v_(addc_co|subb_co|subbrev_co|add_co_ci|sub_co_ci|subrev_co_ci|cndmask|div_fmas)_")
# What the register held before has a part in the result: it is added to, or one half of it stays.
_READS_RESULT = re.compile(r"mac|dot\d+c|mix|writelane|swap|sdwa|dpp|_d16|_sr_|op_sel|dst_sel|byte_sel")
_HALF = re.compile(r"[fiub](8|16)(_|$)|fp8|bf8|bf16")
_WHOLE = re.compile(r"v_(pk_|cvt_pk_?rtz|cvt_pk_[bfiu]+16|cvt_f32_|cvt_[iu]32_)")  # of halves, those that set all of it
_TWO_RESULTS = re.compile(r"v_(add|sub|subrev|addc|subb|subbrev)_co_(ci_)?u32|v_div_scale|v_mad(_co)?_[iu]64|v_.*swap")


def forget_vector(out: Emitter, item: a.AsmLine) -> None:
    """Results of what is not integer arithmetic; those of one lane depend on others where it looks at them."""
    name, count = item.name, 2 if _TWO_RESULTS.match(item.name) else 1
    results, given = item.operands[:count], item.operands[count:]
    by_wave = bool(_OF_LANES.match(name)) or not has_no_dpp(item)
    sources: tuple[m.Operand, ...] = ()
    if (found := _READS_MASK.match(name)) is not None:
        explicit = len(given) > (0 if found[1] == "div_fmas" else 2)
        mask = out.mask(given[-1]) if explicit and found[1] != "div_fmas" else m.Register("vcc")
        given = given[:-1] if explicit and found[1] != "div_fmas" else given
        sources = (UNKNOWN if mask is None else mask,)
    sources = (*sources, *out.operands(given))
    words = " ".join((name, *(word for word, _ in item.modifiers)))
    changed_in_part = any(isinstance(each, a.Changed) for each in results[:1])
    adds = by_wave or changed_in_part or bool(_READS_RESULT.search(words))
    if adds or (_HALF.search(name) and not _WHOLE.match(name)):
        sources = (*sources, *out.operands(results))
    if name.startswith(("v_mfma", "v_smfma", "v_wmma", "v_swmmac")):  # whether lanes are active or not
        changed = tuple(each.name for each in out.operands(results) if isinstance(each, m.Register))
        out.add(m.Forget(changed, sources, False, "", True))
        return
    sources = (*sources, m.Register("exec")) if by_wave else sources
    if count == 2 and isinstance(results[-1], a.Registers) and results[-1].first[0] not in "va":
        out.forget_carry(results[-1], sources)
        results = results[:1]
    out.forget(results, sources, uniform=not by_wave, by_wave=by_wave)


def has_no_dpp(item: a.AsmLine) -> bool:
    return not item.name.endswith(("_dpp", "_dpp8")) and not any(_MOVES.match(name) for name, _ in item.modifiers)
