"""Who asks for each fact of a target: the judge whose answer depends on it.

Needs   the keys of `schema`
Gives   `JUDGES`: for every key those who ask for it
Keeps   a fact that nobody asks for is a belief that nobody checks: `test_target_facts.py` holds every key to this
        table, and shows for each judge a program about which its answer changes with the fact
Cost    constant

| judge | what it answers |
|---|---|
| verifier | whether a program is proved |
| simulator | which races and hangs there are |
| fit | whether a program can run on the target at all |
| waits | which count `sync` writes |
| schedule | how ping-pong arranges waves |
| cost | how many cycles a program takes; never what is right |
| assumption | nothing decides it: it is printed with the verdict |
| shown | nothing: it is for people |
"""

from __future__ import annotations

JUDGE_NAMES = ("verifier", "simulator", "fit", "waits", "schedule", "cost", "assumption", "shown")
BOTH = ("verifier", "simulator")
COST = ("cost",)

JUDGES: dict[str, tuple[str, ...]] = {
    "wave.size": (*BOTH, "waits", "cost"),
    "wave.max_per_workgroup": ("fit",),
    "wave.simds": ("schedule", "cost"),
    "wave.to_simd": ("schedule",),
    "lds.bytes": ("fit",),
    "lds.granularity": COST,
    "lds.banks": ("shown",),
    "lds.in_order": (*BOTH, "waits"),
    "barrier.split": ("fit",),
    "barrier.ids": ("fit",),
    "barrier.named": ("fit",),
    "barrier.named_first": ("fit",),
    "barrier.performs": BOTH,
    "barrier.wave_end": ("simulator", "fit"),
    "barrier.named_wave_end": ("assumption",),
    "barrier.mbarrier": ("fit",),
    "barrier.mbarrier_bytes": ("fit",),
    "fence.proxy_needed": BOTH,
    "fence.kinds": (*BOTH, "fit"),
    "fence.wave_performs": BOTH,
    "fence.waits": BOTH,
    "counters.*.max": (*BOTH, "waits", "fit"),
    "counters.*.unit": (*BOTH, "fit"),
    "counters.*.in_order": (*BOTH, "waits"),
    "operations.*.present": ("fit",),
    "operations.*.counter": BOTH,
    "operations.*.certain": (*BOTH, "waits"),
    "operations.*.in_order": (*BOTH, "waits"),
    "operations.*.bytes_per_lane": (*BOTH, "waits", "cost"),
    "operations.*.whole_tile": (*BOTH, "cost"),
    "operations.*.mbarrier": ("fit",),
    "operations.*.proxy": BOTH,
    "cost.clock": ("shown",),
    "cost.alu_issue": COST,
    "cost.alu_latency": COST,
    "cost.lds_issue": COST,
    "cost.lds_latency": COST,
    "cost.lds_bytes": COST,
    "cost.global_issue": COST,
    "cost.global_latency": COST,
    "cost.global_spread": COST,
    "cost.global_bytes": COST,
    "cost.cache_size": ("shown",),
    "cost.cache_latency": COST,
    "cost.cache_spread": COST,
    "cost.cache_bytes": COST,
    "cost.copy_issue": COST,
    "cost.copy_latency": COST,
    "cost.mma_issue": COST,
    "cost.mma_latency": COST,
    "cost.mma_f64": COST,
    "cost.mma_f32": COST,
    "cost.mma_f16": COST,
    "cost.mma_8bit": COST,
    "cost.barrier_issue": COST,
    "cost.barrier_latency": COST,
    "cost.barrier_loss": COST,
    "cost.unit_lds": COST,
    "cost.unit_waves": COST,
    "mma.m": ("fit", "cost"),
    "mma.n": ("fit", "cost"),
    "mma.k": ("fit", "cost"),
    "mma.a": ("fit",),
    "mma.b": ("fit",),
    "mma.acc": ("fit",),
    "notes.text": ("shown",),
}
