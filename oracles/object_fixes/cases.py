"""The cases, one for each report.

`says`: words of the finding's notes, labels or help that name what the report describes. A circle of waits is given by
its waves.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Case:
    """`right`: the kernel as it was fixed. `edits`: (right, wrong) texts that lead back to the report."""

    url: str
    what: str
    right: str
    edits: tuple[tuple[str, str], ...]
    code: str
    says: tuple[str, ...]
    circle: tuple[int, ...] = ()

    @property
    def wrong(self) -> str:
        text = self.right
        for there, before in self.edits:
            assert text.count(there) == 1, there
            text = text.replace(there, before)
        return text


def kernel(body: str, waves: int, *, sizes: str = "sizes(N = 6) ") -> str:
    head = f"target sm_90\n\nkernel @k(%X: global<64xf32>, %Y: global<64xf32>) {sizes}waves {waves} {{\n"
    return f"{head}{body.strip(chr(10))}\n}}\n"


LEADER = kernel(
    """
  %ready = new_barrier : mbarrier<1, slots = 2>
  %empty = new_barrier : mbarrier<1, slots = 2>
  %team = new_barrier : named_barrier<2>
  specialize {
    waves 0 .. 1 {
      iterate %k in 0 .. N {
        mbarrier_wait %empty[%k mod 2] parity (%k // 2 + 1) mod 2
        mbarrier_arrive %ready[%k mod 2]
      }
    }
    waves 1 .. 3 {
      iterate %j in 0 .. N {
        signal %team
        wait %team
        mbarrier_wait %ready[%j mod 2] parity %j // 2 mod 2
        signal %team  # before the arrival
        wait %team  # before the arrival
        conditional wave == 1 {
          mbarrier_arrive %empty[%j mod 2]
        }
      }
    }
  }
""",
    3,
)

EARLY_RETURN = kernel(
    """
  %epilogue = new_barrier : named_barrier<2>
  specialize {
    waves 0 .. 1 {
      iterate %t in 0 .. N {
        conditional %t mod 3 == 0 {
          signal %epilogue
          wait %epilogue
        } else {
          signal %epilogue
          wait %epilogue  # no work for this tile
        }
      }
    }
    waves 1 .. 2 {
      iterate %u in 0 .. N {
        signal %epilogue
        wait %epilogue
      }
    }
  }
""",
    2,
)

ONE_TRIP = kernel(
    """
  %a = alloc : lds<64xf32>
  %forward = new_barrier : mbarrier<1>
  specialize {
    waves 0 .. 1 {
      iterate %k in 0 .. 1 {
        mbarrier_arrive %forward expect 256
        tensor_load_to_lds %X[0] to %a reports %forward : tile<64xf32>
      }
    }
    waves 1 .. 2 {
      iterate %j in 0 .. 1 {
        mbarrier_wait %forward parity %j mod 2
        %v = local_read %a : tile<64xf32>
      }
    }
  }
""",
    2,
    sizes="",
)

BACK_PRESSURE = kernel(
    """
  %q = alloc : lds<64xf32>
  %full = new_barrier : mbarrier<1>
  %empty = new_barrier : mbarrier<2>
  %rows = new_barrier : named_barrier<2>
  specialize {
    waves 0 .. 1 {
      iterate %k in 0 .. N {
        mbarrier_wait %empty parity %k mod 2
        mbarrier_arrive %full expect 256
        tensor_load_to_lds %X[0] to %q reports %full : tile<64xf32>
      }
    }
    waves 1 .. 3 {
      iterate %j in 0 .. N {
        mbarrier_arrive %empty  # before all that depends on the copy
        mbarrier_wait %full parity %j mod 2
        %v = local_read %q : tile<64xf32>
        signal %rows
        wait %rows
        fence proxy_async
      }
    }
  }
""",
    3,
)

TAIL_PHASE = kernel(
    """
  %ds_full = new_barrier : mbarrier<1>
  %ds_empty = new_barrier : mbarrier<1>
  specialize {
    waves 0 .. 1 {
      iterate %t in 0 .. N {
        iterate %k in 0 .. 3 {
          mbarrier_wait %ds_empty parity (%t * 3 + %k + 1) mod 2
          mbarrier_arrive %ds_full
        }
      }
    }
    waves 1 .. 2 {
      iterate %u in 0 .. N {
        iterate %j in 0 .. 3 {
          mbarrier_wait %ds_full parity (%u * 3 + %j) mod 2
          mbarrier_arrive %ds_empty
        }
      }
    }
  }
""",
    2,
)

STORE_WAIT = kernel(
    """
  %a = alloc : lds<64xf32, slots = 2>
  %full = new_barrier : mbarrier<1, slots = 2>
  mbarrier_arrive %full[0] expect 256
  tensor_load_to_lds %X[0] to %a[0] reports %full[0] : tile<64xf32>
  mbarrier_arrive %full[1] expect 256
  tensor_load_to_lds %X[0] to %a[1] reports %full[1] : tile<64xf32>
  iterate %i in 0 .. 8 {
    mbarrier_wait %full[%i mod 2] parity %i // 2 mod 2
    lds_to_global %a[%i mod 2] to %Y[0] : tile<64xf32>
    commit_group
    wait_count bulk_group(0)
    fence wave
    mbarrier_arrive %full[%i mod 2] expect 256
    tensor_load_to_lds %X[0] to %a[%i mod 2] reports %full[%i mod 2] : tile<64xf32>
  }
  mbarrier_wait %full[0] parity 0
  mbarrier_wait %full[1] parity 0
""",
    1,
    sizes="",
)

PROXY = kernel(
    """
  %a = alloc : lds<64xf32, slots = 2>
  %full = new_barrier : mbarrier<1, slots = 2>
  %empty = new_barrier : mbarrier<1, slots = 2>
  specialize {
    waves 0 .. 1 {
      iterate %k in 0 .. N {
        mbarrier_wait %empty[%k mod 2] parity (%k // 2 + 1) mod 2
        fence proxy_async
        mbarrier_arrive %full[%k mod 2] expect 256
        tensor_load_to_lds %X[0] to %a[%k mod 2] reports %full[%k mod 2] : tile<64xf32>
      }
    }
    waves 1 .. 2 {
      iterate %j in 0 .. N {
        mbarrier_wait %full[%j mod 2] parity %j // 2 mod 2
        %v = local_read %a[%j mod 2] : tile<64xf32>
        mbarrier_arrive %empty[%j mod 2]
      }
    }
  }
""",
    2,
)

EARLY_COMMIT = kernel(
    """
  %a = alloc : lds<64xf32, slots = 4>
  %full = new_barrier : mbarrier<1, slots = 4>
  %empty = new_barrier : mbarrier<1, slots = 4>
  specialize {
    waves 0 .. 1 {
      iterate %k in 0 .. 16 {
        mbarrier_wait %empty[%k mod 4] parity (%k // 4 + 1) mod 2
        gather_to_lds %X[0] to %a[%k mod 4] : tile<64xf32>
        commit_group
        conditional %k > 0 {
          wait_count group(1)
          fence wave
          mbarrier_arrive %full[(%k - 1) mod 4]
        }
      }
      wait_count group(0)
      mbarrier_arrive %full[3]
    }
    waves 1 .. 2 {
      iterate %j in 0 .. 16 {
        mbarrier_wait %full[%j mod 4] parity %j // 4 mod 2
        %v = local_read %a[%j mod 4] : tile<64xf32>
        mbarrier_arrive %empty[%j mod 4]
      }
    }
  }
""",
    2,
    sizes="",
)

NO_MORE_WORK = kernel(
    """
  %a = alloc : lds<64xf32, slots = 2>
  %full = new_barrier : mbarrier<1, slots = 2>
  %empty = new_barrier : mbarrier<1, slots = 2>
  specialize {
    waves 0 .. 1 {
      iterate %k in 0 .. 4 * N {
        mbarrier_wait %empty[%k mod 2] parity (%k // 2 + 1) mod 2
        mbarrier_arrive %full[%k mod 2] expect 256
        tensor_load_to_lds %X[0] to %a[%k mod 2] reports %full[%k mod 2] : tile<64xf32>
      }
    }
    waves 1 .. 2 {
      iterate %j in 0 .. 4 * N {
        mbarrier_wait %full[%j mod 2] parity %j // 2 mod 2
        %v = local_read %a[%j mod 2] : tile<64xf32>
        fence proxy_async
        mbarrier_arrive %empty[%j mod 2]
      }
    }
  }
""",
    2,
)

LOOP_PARITY = kernel(
    """
  %a = alloc : lds<64xf32, slots = 4>
  %bar = new_barrier : mbarrier<1, slots = 4>
  iterate %s in 0 .. 4 {
    mbarrier_arrive %bar[%s] expect 256
    tensor_load_to_lds %X[0] to %a[%s] reports %bar[%s] : tile<64xf32>
    mbarrier_wait %bar[%s] parity 0
    %v = local_read %a[%s] : tile<64xf32>
  }
""",
    1,
    sizes="",
)

LOOP_BACK = kernel(
    """
  %a = alloc : lds<2x64xf32>
  %z = fill 0.0 : tile<64xf32>
  iterate %k in 0 .. N {
    local_write %z, %a[wave]
    workgroup_barrier
    conditional wave == 0 {
      %v = local_read %a : tile<2x64xf32>
    } else {
      %w = local_read %a : tile<2x64xf32>
    }
    workgroup_barrier  # round the loop
  }
""",
    2,
)

ARRIVAL_COUNT = kernel(
    """
  %a = alloc : lds<64xf32, slots = 2>
  %full = new_barrier : mbarrier<1, slots = 2>
  %empty = new_barrier : mbarrier<2, slots = 2>
  specialize {
    waves 0 .. 1 {
      iterate %k in 0 .. N {
        mbarrier_wait %empty[%k mod 2] parity (%k // 2 + 1) mod 2
        mbarrier_arrive %full[%k mod 2] expect 256
        tensor_load_to_lds %X[0] to %a[%k mod 2] reports %full[%k mod 2] : tile<64xf32>
      }
    }
    waves 1 .. 3 {
      iterate %j in 0 .. N {
        mbarrier_wait %full[%j mod 2] parity %j // 2 mod 2
        %v = local_read %a[%j mod 2] : tile<64xf32>
        fence proxy_async
        mbarrier_arrive %empty[%j mod 2]
      }
    }
  }
""",
    3,
)

ONE_ID = kernel(
    """
  %a = alloc : lds<64xf32>
  %b = alloc : lds<64xf32>
  %first = new_barrier : named_barrier<2>
  %second = new_barrier : named_barrier<2>
  %z = fill 0.0 : tile<64xf32>
  specialize {
    waves 0 .. 1 {
      local_write %z, %a
      signal %first
      wait %first
    }
    waves 1 .. 2 {
      signal %first
      wait %first
      %v = local_read %a : tile<64xf32>
    }
    waves 2 .. 3 {
      local_write %z, %b
      signal %second
      wait %second
    }
    waves 3 .. 4 {
      signal %second
      wait %second
      %w = local_read %b : tile<64xf32>
    }
  }
""",
    4,
    sizes="",
)


def _one_id() -> Iterator[tuple[str, str]]:
    """All pairs use the first barrier."""
    yield (
        "waves 2 .. 3 {\n      local_write %z, %b\n      signal %second\n      wait %second",
        ("waves 2 .. 3 {\n      local_write %z, %b\n      signal %first\n      wait %first"),
    )
    yield (
        "waves 3 .. 4 {\n      signal %second\n      wait %second",
        ("waves 3 .. 4 {\n      signal %first\n      wait %first"),
    )


GITHUB = "https://github.com/"
CASES: dict[str, Case] = {
    "triton 10035": Case(
        GITHUB + "triton-lang/triton/pull/10035",
        "the leader warp releases a slot before the other warps of its partition have passed their wait",
        LEADER,
        (("        signal %team  # before the arrival\n        wait %team  # before the arrival\n", ""),),
        "TG221",
        ("wave 2 waits here, %j = 0", "for the phase with parity 0 of `%ready[0]`: phase 2 has 0 of 1 arrivals"),
    ),
    "vllm 26026": Case(
        GITHUB + "vllm-project/vllm/pull/26026",
        "warps without work for a tile arrive at the epilogue's named barrier, do not wait, and arrive again",
        EARLY_RETURN,
        (("          wait %epilogue  # no work for this tile\n", ""),),
        "TG221",
        ("%epilogue",),
    ),
    "tilelang 2566": Case(
        GITHUB + "tile-ai/tilelang/issues/2566",
        "a producer loop of one trip copies without arriving at the forward barrier",
        ONE_TRIP,
        (("        mbarrier_arrive %forward expect 256\n", ""),),
        "TG221",
        ("0 of 1 arrivals",),
    ),
    "tilelang 2567": Case(
        GITHUB + "tile-ai/tilelang/issues/2567",
        "the consumer releases the buffer only behind work that depends on the copy into it",
        BACK_PRESSURE,
        (
            ("        mbarrier_arrive %empty  # before all that depends on the copy\n", ""),
            ("        fence proxy_async\n", "        fence proxy_async\n        mbarrier_arrive %empty\n"),
        ),
        "TG221",
        ("wave 0 waits for phase 0 of `%empty[0]`",),
        (0, 1),
    ),
    "helion 3621": Case(
        GITHUB + "pytorch/helion/pull/3621",
        "the last wait of a tile does not toggle the phase, so the parity is inverted on the second tile",
        TAIL_PHASE,
        (("(%u * 3 + %j) mod 2", "(%u * 2 + %j) mod 2"),),
        "TG221",
        ("%u = 1",),
    ),
    "deepep 657": Case(
        GITHUB + "deepseek-ai/DeepEP/issues/657",
        "with two stages, `wait_group 1` lets the store of the very stage go on that the next load overwrites",
        STORE_WAIT,
        (("bulk_group(0)", "bulk_group(1)"),),
        "TG105",
        ("only 0 is safe here",),
    ),
    "deepep 642": Case(
        GITHUB + "deepseek-ai/DeepEP/pull/642",
        "a TMA load is issued while loads of the slot are in flight: no proxy fence between the wait and the load",
        PROXY,
        (("        fence proxy_async\n", ""),),
        "TG109",
        ("behind its wave's wait",),
    ),
    "cutlass 2502": Case(
        GITHUB + "NVIDIA/cutlass/pull/2502",
        "the producer commits a stage after a `cp_async_wait` whose count waits for no copy",
        EARLY_COMMIT,
        (("wait_count group(1)", "wait_count group(2)"),),
        "TG101",
        ("`group(2)`", "at most 1 is safe here"),
    ),
    "marin 8870": Case(
        GITHUB + "marin-community/marin/issues/8870",
        "the MMA warp takes a grant for the end and exits; the load warp waits for slots that nobody releases",
        NO_MORE_WORK,
        (("%j in 0 .. 4 * N", "%j in 0 .. 4 * N - 4"),),
        "TG221",
        ("no wave has an arrival left for phase", "ended: wave 1"),
    ),
    "tilelang 2927": Case(
        GITHUB + "tile-ai/tilelang/issues/2927",
        "the parity of a wait comes from the loop's iteration, not from the history of the barrier it waits for",
        LOOP_PARITY,
        (("parity 0", "parity %s mod 2"),),
        "TG105",
        ("%s = 1", "check `expect`, slot and parity"),
    ),
    "tilelang 2613": Case(
        GITHUB + "tile-ai/tilelang/issues/2613",
        "an operand that both warp groups read is staged again without a barrier round the loop",
        LOOP_BACK,
        (("    workgroup_barrier  # round the loop\n", ""),),
        "TG102",
        ("%k = 1",),
    ),
    "cutlass 2418": Case(
        GITHUB + "NVIDIA/cutlass/issues/2418",
        "the empty barrier counts one arrival, and several consumers arrive",
        ARRIVAL_COUNT,
        (("mbarrier<2, slots = 2>", "mbarrier<1, slots = 2>"),),
        "TG221",
        ("wave 0 waits for phase 2 of `%empty[0]`",),
        (0, 1),
    ),
    "flashinfer 4533": Case(
        GITHUB + "flashinfer-ai/flashinfer/pull/4533",
        "two groups of warps use one named barrier at the same time",
        ONE_ID,
        tuple(_one_id()),
        "TG101",
        ("no barrier of both waves between them", "wave 3 reads", "wave 2 writes"),
    ),
}
