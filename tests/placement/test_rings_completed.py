"""`sync` on programs with roles: what a ring lacks is inserted, and the result is proved; else it says why not."""

from __future__ import annotations

import pytest

import tidegate as tg
from tidegate.synchronize import Synchronized

RING = """target {target}

kernel @ring(%X: global<64xf32>) sizes(N = 6) waves {waves} {{
  %a = alloc : lds<64xf32, slots = {slots}>
  %full = new_barrier : mbarrier<1, slots = {slots}>
  %empty = new_barrier : mbarrier<{consumers}, slots = {slots}>
  specialize {{
    waves 0 .. 1 {{
      iterate %k in 0 .. N {{
        mbarrier_wait %empty[%k mod {slots}] parity (%k // {slots} + 1) mod 2
        mbarrier_arrive %full[%k mod {slots}] expect 256
        tensor_load_to_lds %X[0] to %a[%k mod {slots}] reports %full[%k mod {slots}] : tile<64xf32>
      }}
    }}
{roles}
  }}
}}
"""
CONSUMER = """    waves {first} .. {last} {{
      iterate %j{first} in 0 .. N {{
        mbarrier_wait %full[%j{first} mod {slots}] parity (%j{first} // {slots}) mod 2
        %v{first} = local_read %a[%j{first} mod {slots}] : tile<64xf32>
        {drain}
        mbarrier_arrive %empty[%j{first} mod {slots}]
      }}
    }}"""


def ring(consumers: int = 1, slots: int = 3, target: str = "sm_90", wide: int = 1) -> str:
    drain = "fence proxy_async" if target == "sm_90" else "wait_count dscnt(0)"
    roles = [
        CONSUMER.format(first=1 + n * wide, last=1 + (n + 1) * wide, slots=slots, drain=drain) for n in range(consumers)
    ]
    text = "\n".join(roles)
    return RING.format(target=target, waves=1 + consumers * wide, slots=slots, consumers=consumers * wide, roles=text)


def without(text: str, *starts: str, first: bool = False) -> str:
    """The text without the lines that start so; `first`: without the first such line."""
    kept, gone = [], 0
    for line in text.splitlines(True):
        if any(line.strip().startswith(each) for each in starts) and not (first and gone):
            gone += 1
        else:
            kept.append(line)
    assert gone
    return "".join(kept)


def synced(text: str) -> Synchronized:
    (kernel,) = tg.parse(text).kernels
    return tg.sync(kernel)


def inserted(result: Synchronized) -> list[str]:
    """The operations that were inserted, by their first word and object."""
    words = [line.split("#")[0].split() for line in result.text.splitlines() if "#" in line]
    return sorted(" ".join(each[:2]).partition("[")[0] for each in words)


LOST = {
    "arrival": (("mbarrier_arrive %empty",), ["mbarrier_arrive %empty"]),
    "wait of the producer": (("mbarrier_wait %empty",), ["mbarrier_wait %empty"]),
    "wait of the consumer": (("mbarrier_wait %full",), ["mbarrier_wait %full"]),
    "fence": (("fence",), ["fence proxy_async"]),
    "arrival and fence": (("mbarrier_arrive %empty", "fence"), ["fence proxy_async", "mbarrier_arrive %empty"]),
    "all of one object": (
        ("mbarrier_arrive %empty", "mbarrier_wait %empty"),
        ["mbarrier_arrive %empty", "mbarrier_wait %empty"],
    ),
    "all waits": (("mbarrier_wait",), ["mbarrier_wait %empty", "mbarrier_wait %full"]),
    "all of the consumer": (
        ("mbarrier_arrive %empty", "mbarrier_wait %full"),
        ["mbarrier_arrive %empty", "mbarrier_wait %full"],
    ),
}


@pytest.mark.parametrize("name", LOST)
@pytest.mark.parametrize("slots", [1, 2, 4])
def test_what_a_ring_has_lost_is_inserted(name: str, slots: int) -> None:
    starts, wanted = LOST[name]
    text = without(ring(slots=slots), *starts)
    assert not tg.check(tg.parse(text).kernels[0])
    result = synced(text)
    assert inserted(result) == wanted
    assert result
    (again,) = tg.parse(result.text).kernels
    assert tg.check(again)


def test_a_right_ring_stays_as_it_is() -> None:
    result = synced(ring())
    assert result
    assert not result.plan.edits


@pytest.mark.parametrize("start", ["mbarrier_arrive %empty", "mbarrier_wait %full"])
def test_one_of_two_consumers_has_lost_something(start: str) -> None:
    text = without(ring(consumers=2), start, first=True)
    result = synced(text)
    assert result
    assert inserted(result) == [start]


def test_all_waves_of_a_role_arrive() -> None:
    result = synced(without(ring(wide=4), "mbarrier_arrive %empty"))
    assert result
    assert inserted(result) == ["mbarrier_arrive %empty"]


AMD = """target gfx1250

kernel @ring() sizes(N = 6) waves 2 {
  %a = alloc : lds<64xf32, slots = 2>
  %full = new_barrier : mbarrier<1, slots = 2>
  %empty = new_barrier : mbarrier<1, slots = 2>
  %z = fill 0.0 : tile<64xf32>
  specialize {
    waves 0 .. 1 {
      iterate %k in 0 .. N {
        mbarrier_wait %empty[%k mod 2] parity (%k // 2 + 1) mod 2
        local_write %z, %a[%k mod 2]
        wait_count dscnt(0)
        mbarrier_arrive %full[%k mod 2]
      }
    }
    waves 1 .. 2 {
      iterate %j in 0 .. N {
        mbarrier_wait %full[%j mod 2] parity (%j // 2) mod 2
        %v = local_read %a[%j mod 2] : tile<64xf32>
      }
    }
  }
}
"""


def test_on_amd_the_reads_are_waited_for_before_the_arrival() -> None:
    result = synced(AMD)
    assert result
    assert inserted(result) == ["mbarrier_arrive %empty", "wait_count dscnt(0)"]


def test_a_graph_is_completed_as_well() -> None:
    text = without(ring(), "mbarrier_wait %empty")
    graph = tg.parse_graph(tg.show_graph(tg.build_graph(tg.parse(text).kernels[0]).graph))
    assert not tg.check(graph)
    result = tg.sync(graph)
    assert result
    assert result.after is not None
    assert tg.check(tg.parse_graph(tg.show_graph(result.after)))


def test_an_arrival_that_expects_bytes_is_inserted_before_the_copy() -> None:
    result = synced(without(ring(), "mbarrier_arrive %full"))
    assert result
    assert "mbarrier_arrive %full[%k mod 3] expect 256  # ring `%full`: missing arrival" in result.text


PEELED = """target sm_90

kernel @peeled(%X: global<64xf32>) sizes(N = 6) waves 2 {
  %a = alloc : lds<64xf32, slots = 2>
  %full = new_barrier : mbarrier<1, slots = 2>
  %empty = new_barrier : mbarrier<1, slots = 2>
  specialize {
    waves 0 .. 1 {
      iterate %k in 0 .. N {
        mbarrier_wait %empty[%k mod 2] parity (%k // 2 + 1) mod 2
        mbarrier_arrive %full[%k mod 2] expect 256
        tensor_load_to_lds %X[0] to %a[%k mod 2] reports %full[%k mod 2] : tile<64xf32>
      }
    }
    waves 1 .. 2 {
      iterate %f in 0 .. 1 {
        mbarrier_wait %full[%f mod 2] parity %f // 2 mod 2
        %v = local_read %a[%f mod 2] : tile<64xf32>
        fence proxy_async
        mbarrier_arrive %empty[%f mod 2]
      }
      iterate %j in 1 .. N {
        mbarrier_wait %full[%j mod 2] parity %j // 2 mod 2
        %w = local_read %a[%j mod 2] : tile<64xf32>
        fence proxy_async
        mbarrier_arrive %empty[%j mod 2]
      }
    }
  }
}
"""


@pytest.mark.parametrize("line", ["mbarrier_arrive %empty[%j", "mbarrier_wait %full[%j", "mbarrier_wait %full[%f"])
def test_a_peeled_loop_is_completed_as_the_other_one(line: str) -> None:
    result = synced(without(PEELED, line))
    assert result
    assert "as in another loop" in result.text
    assert line in result.text


# --- without a ring -----------------------------------------------------------------------------------------------

ROLES = """target {target}

kernel @hand_over(%Y: global<2x64xf32>) sizes(N = 5) waves {waves} {{
  %a = alloc : lds<64xf32>
  %z = fill 0.0 : tile<64xf32>
  specialize {{
    waves 0 .. 1 {{
      {head}local_write %z, %a{tail}
    }}
    waves 1 .. 2 {{
      {head}%v = local_read %a : tile<64xf32>{tail}
    }}
{third}
  }}
}}
"""
THIRD = """    waves 2 .. 3 {
      global_write %z, %Y[0]
    }"""


def roles(target: str, third: bool, loop: bool) -> str:
    head, tail = ("iterate %i in 0 .. N {\n        ", "\n      }") if loop else ("", "")
    text = ROLES.format(target=target, waves=2 + third, head=head, tail=tail, third=THIRD if third else "")
    return text.replace("%i in", "%j in", 2).replace("%j in", "%i in", 1) if loop else text


@pytest.mark.parametrize("loop", [False, True])
def test_where_all_roles_pass_a_workgroup_barrier_is_inserted(loop: bool) -> None:
    result = synced(roles("sm_90", third=False, loop=loop))
    assert result
    assert set(inserted(result)) == {"shared_memory_barrier"}
    assert len(inserted(result)) == (4 if loop else 2)


@pytest.mark.parametrize("target", ["sm_90", "gfx1250"])
@pytest.mark.parametrize("loop", [False, True])
def test_two_of_three_roles_get_a_named_barrier(target: str, loop: bool) -> None:
    result = synced(roles(target, third=True, loop=loop))
    assert result
    words = {each.split()[0] for each in inserted(result)}
    assert {"signal", "wait"} <= words
    assert "shared_memory_barrier" not in words
    assert "named_barrier<2>" in result.text


def test_without_named_barriers_it_is_refused() -> None:
    result = synced(roles("gfx942", third=True, loop=False))
    assert not result
    assert not result.plan.edits
    assert any("rendezvous of two roles that share `%a`" in each for each in result.notes)


def test_who_comes_first_is_not_guessed() -> None:
    """Both roles begin with a write: either order would be a guess."""
    text = roles("sm_90", third=True, loop=False).replace("%v = local_read %a : tile<64xf32>", "local_write %z, %a")
    result = synced(text)
    assert not result
    assert not result.plan.edits
    assert any("lack nothing that `sync` inserts" in each for each in result.notes)


def test_a_wrong_parity_is_not_mended_by_insertions() -> None:
    text = ring().replace("(%k // 3 + 1) mod 2", "(%k // 3) mod 2")
    result = synced(text)
    assert not result
    assert not result.plan.edits
    assert result.notes


def test_names_of_the_program_are_not_taken_again() -> None:
    text = roles("sm_90", third=True, loop=False).replace("%z", "%meet")
    result = synced(text)
    assert result
    assert "%meet1 = new_barrier" in result.text


PHASES = """target sm_90

kernel @carried(%X: global<64xf32>) sizes(N = 6) waves 2 {
  %a = alloc : lds<64xf32>
  %full = new_barrier : mbarrier<1>
  %empty = new_barrier : mbarrier<1>
  specialize {
    waves 0 .. 1 {
      %r = iterate %k in 0 .. N carry(%p = 1 : index) {
        mbarrier_wait %empty parity %p
        mbarrier_arrive %full expect 256
        tensor_load_to_lds %X[0] to %a reports %full : tile<64xf32>
        yield 1 - %p
      }
    }
    waves 1 .. 2 {
      %s = iterate %j in 0 .. N carry(%q = 0 : index) {
        mbarrier_wait %full parity %q
        %v = local_read %a : tile<64xf32>
        fence proxy_async
        mbarrier_arrive %empty
        yield 1 - %q
      }
    }
  }
}
"""


@pytest.mark.parametrize("start", ["mbarrier_arrive %empty", "mbarrier_wait %empty", "mbarrier_wait %full"])
def test_phases_may_be_carried_around_the_loop(start: str) -> None:
    assert tg.check(tg.parse(PHASES).kernels[0])
    result = synced(without(PHASES, start))
    assert result
    assert inserted(result) == [start]
