"""What the twin takes as true of each GPU, copied by hand from docs/targets and design §6.

Only facts that decide an order stand here: lanes of a wave, which counter an operation counts on, how many bytes one
instruction of a copy moves for a lane at most, and what an arrival performs.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Facts:
    """One target."""

    name: str
    lanes: int
    lds_counter: str  # on which ordinary accesses count; "" where none can be waited for
    load_counter: str  # on which loads from global memory count; "" where none
    split: bool  # whether `signal -1` and `wait -1` exist
    barrier_performs: bool  # an arrival performs the wave's ordinary accesses
    wave_wide_wait: bool  # a wait for copies speaks for all lanes of the wave (AMD), not for its own lane only
    copies: dict[str, str] = field(default_factory=dict)  # operation → counter
    widest: dict[str, int] = field(default_factory=dict)  # operation → bytes a lane; 0: one instruction for any tile
    groups: bool = False  # whether copies are counted in commit groups
    mma_k: int = 16

    def instructions(self, operation: str, size: int) -> int:
        """The fewest instructions that a copy of so many bytes becomes."""
        widest = self.widest[operation]
        return 1 if widest == 0 else -(-size // (self.lanes * widest))


def _cdna(name: str, widest: int) -> Facts:
    return Facts(
        name, 64, "lgkmcnt", "vmcnt", False, False, True, {"gather_to_lds": "vmcnt"}, {"gather_to_lds": widest}
    )


def _nvidia(name: str) -> Facts:
    copies, widest = {"gather_to_lds": "group"}, {"gather_to_lds": 16}
    return Facts(name, 32, "", "", False, True, False, copies, widest, groups=True)


FACTS: dict[str, Facts] = {
    facts.name: facts
    for facts in (
        _cdna("gfx90a", 4),
        _cdna("gfx942", 4),
        _cdna("gfx950", 16),
        Facts("gfx1201", 32, "dscnt", "loadcnt", True, False, True),
        Facts(
            "gfx1250",
            32,
            "dscnt",
            "loadcnt",
            True,
            False,
            True,
            {"gather_to_lds": "asynccnt", "lds_to_global": "asynccnt", "tensor_load_to_lds": "tensorcnt"},
            {"gather_to_lds": 16, "lds_to_global": 16, "tensor_load_to_lds": 0},
            mma_k=32,
        ),
        _nvidia("sm_80"),
        _nvidia("sm_90"),
    )
}

BYTES = {"f64": 8, "f32": 4, "f16": 2, "bf16": 2, "i64": 8, "i32": 4, "i16": 2, "i8": 1}
