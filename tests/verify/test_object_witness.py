"""What is said of a program with barrier objects that hangs: the circle of waits, and the sizes that show it."""

from __future__ import annotations

import pytest

from oracles.rings.cases import CASES
from oracles.rings.model import Arrive, Barrier, Expr, Program, Role, Wait, as_expr
from oracles.rings.search import HANG
from oracles.rings.text import to_tide
from tests.verify.test_objects import LATE, loop, parity_late
from tidegate.diag import Finding
from tidegate.files import load_text
from tidegate.passes import Checked, check_session
from tidegate.session import sessions_of

ZERO = as_expr(0)


def checked(text: str) -> Checked:
    (session,) = sessions_of(load_text(text, "k.tide"), None)
    return check_session(session)


def hang_in(text: str) -> Finding:
    return next(each for each in checked(text).findings if each.code == "TG221")


def facts(finding: Finding) -> dict[str, object]:
    return dict(finding.witness)


def size_of(finding: Finding) -> int:
    configuration = facts(finding)["configuration"]
    assert isinstance(configuration, tuple)
    return int(dict(configuration)["N"])


def waits_of(count: int) -> Program:
    """As many roles, each of which waits for the one before it and then arrives for the one behind it."""
    names = [f"b{n}" for n in range(count)]
    roles = tuple(
        Role(f"r{n}", 1, (loop(k, Wait(names[n], ZERO, k % 2), Arrive(names[(n + 1) % count], ZERO)),))
        for n, k in enumerate(map(Expr, (f"k{n}" for n in range(count))))
    )
    return Program("chain", (), tuple(Barrier(each, 1, 1) for each in names), roles)


@pytest.mark.parametrize("count", [2, 3, 4])
def test_a_circle_of_waits_is_named(count: int) -> None:
    found = hang_in(to_tide(waits_of(count)))
    circle = facts(found)["circle"]
    assert isinstance(circle, tuple)
    assert len(circle) == count
    for number, link in enumerate(circle):
        says = dict(link)
        # Wave n waits for its own barrier, at which the wave before it arrives; the circle goes backwards.
        wave = -number % count
        assert (says["wave"], says["barrier"], says["phase"]) == (wave, f"%b{wave}[0]", 0)
        assert says["waits_for_wave"] == (wave - 1) % count
        assert says["iterations"] == ((f"%k{wave}", 0),)
        assert says["in_iterations"] == ((f"%k{(wave - 1) % count}", 0),)
    (said,) = [each for each in found.notes if "circle" in each]
    assert said.count("\n") == count
    assert "wave 0 waits for phase 0 of `%b0[0]`" in said
    assert "must arrive at `%b0[0]` before its own wait" in found.help


def test_of_two_circles_the_shorter_one_is_named() -> None:
    """Wave 0 waits for both others; one of them waits for wave 0, the other one for a fourth wave that waits for it."""
    body = {
        "a": (Wait("ba", ZERO, as_expr(0)), Arrive("bb", ZERO), Arrive("bc", ZERO)),
        "b": (Wait("bb", ZERO, as_expr(0)), Arrive("bd", ZERO)),
        "c": (Wait("bc", ZERO, as_expr(0)), Arrive("ba", ZERO)),
        "d": (Wait("bd", ZERO, as_expr(0)), Arrive("ba", ZERO)),
    }
    barriers = tuple(Barrier(f"b{each}", 2 if each == "a" else 1, 1) for each in body)
    program = Program("two", (), barriers, tuple(Role(name, 1, steps) for name, steps in body.items()))
    circle = facts(hang_in(to_tide(program)))["circle"]
    assert isinstance(circle, tuple)
    assert [dict(each)["wave"] for each in circle] == [0, 2]


def test_the_fewest_steps_are_shown() -> None:
    """Wave 0 hangs at its first wait already; an order in which others go on first takes more steps."""
    program = Program(
        "few",
        (),
        (Barrier("never", 1, 1), Barrier("own", 1, 1)),
        (
            Role("one", 1, (Wait("never", ZERO, as_expr(0)),)),
            Role(
                "two",
                1,
                tuple(each for n in range(4) for each in (Arrive("own", ZERO), Wait("own", ZERO, as_expr(n % 2)))),
            ),
        ),
    )
    found = hang_in(to_tide(program))
    assert facts(found)["steps"] == 9  # every order ends so: 8 steps and the end of wave 1
    assert "circle" not in facts(found)
    assert "no wave has an arrival left for phase 0 of `%never[0]`" in found.notes


def test_a_copy_that_never_comes_is_a_link() -> None:
    """The consumer waits for bytes; the producer would copy them, and waits for the consumer."""
    text = """target sm_90
kernel @k(%X: global<64xf32>) waves 2 {
  %a = alloc : lds<64xf32>
  %full = new_barrier : mbarrier<1>
  %go = new_barrier : mbarrier<1>
  specialize {
    waves 0 .. 1 {
      mbarrier_arrive %full expect 256
      mbarrier_wait %go parity 0
      tensor_load_to_lds %X[0] to %a reports %full : tile<64xf32>
    }
    waves 1 .. 2 {
      mbarrier_wait %full parity 0
      mbarrier_arrive %go
    }
  }
}
"""
    found = hang_in(text)
    (said,) = [each for each in found.notes if "circle" in each]
    assert "wave 1 waits for phase 0 of `%full[0]`, for which wave 0 would issue its copy in line 10" in said


def test_what_shows_beyond_the_bound_is_run_with_the_sizes_of_the_proof() -> None:
    found = checked(to_tide(parity_late()))
    assert found.verification is not None
    assert found.verification.undecided[0].endswith(f"wave 1, line 18, iteration {LATE}")
    (hang,) = [each for each in found.findings if each.code == "TG221"]
    assert size_of(hang) == LATE + 1


FAR = """target sm_90

kernel @ring() sizes(N = 6) waves 2 {{
  %full = new_barrier : mbarrier<1>
  %empty = new_barrier : mbarrier<1>
  specialize {{
    waves 0 .. 1 {{
      iterate %k in 0 .. N {{
        mbarrier_wait %empty parity {producer}
        mbarrier_arrive %full
      }}
    }}
    waves 1 .. 2 {{
      iterate %j in 0 .. N {{
        mbarrier_wait %full parity {consumer}
        mbarrier_arrive %empty
      }}
    }}
  }}
}}
"""


@pytest.mark.parametrize("first", [70, 150, 300])
def test_a_mistake_far_out_is_found(first: int) -> None:
    wrong = FAR.format(producer=f"(%k + 1 + %k // {first}) mod 2", consumer="%j mod 2")
    found = hang_in(wrong)
    assert size_of(found) == first + 1
    circle = facts(found)["circle"]
    assert isinstance(circle, tuple)
    assert {dict(each)["phase"] for each in circle} == {first}


def test_the_right_form_is_proved() -> None:
    assert checked(FAR.format(producer="(%k + 1) mod 2", consumer="%j mod 2")).is_proved


@pytest.mark.parametrize("name", [name for name, (_, kind) in CASES.items() if kind == HANG])
def test_every_hang_of_the_oracle_is_shown_as_one(name: str) -> None:
    found = checked(to_tide(CASES[name][0])).findings
    assert "TG221" in [each.code for each in found]
    hang = next(each for each in found if each.code == "TG221")
    assert facts(hang)["waits"]
    missing = [each for each in (*hang.notes, hang.help) if "no wave has" in each or "never happen" in each]
    assert "circle" in facts(hang) or missing or "bytes" in hang.help


def test_a_wave_that_waits_for_itself() -> None:
    """It arrives behind its own wait, and nobody else does."""
    text = """target sm_90
kernel @k() waves 1 {
  %own = new_barrier : mbarrier<1>
  mbarrier_wait %own parity 0
  mbarrier_arrive %own
}
"""
    assert "only wave 0 itself has an arrival left for phase 0 of `%own[0]`, in line 5" in hang_in(text).notes
