"""What passes between the generic and the async proxy, and TG109, which can be turned down to a note."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

import tidegate as tg
from tests.conftest import ROOT
from tidegate.allowing import allowed_in
from tidegate.cli import main
from tidegate.diag import BadInput
from tidegate.files import load_text
from tidegate.passes import check_session
from tidegate.session import Session, sessions_of

FENCE = "fence proxy_async"
WRITE, READ = "local_write %z, %a", "%v = local_read %a : tile<64xf32>"
STORE = "lds_to_global %a to %Y[0] : tile<64xf32>\ncommit_group"
CP_ASYNC = "gather_to_lds %X[0] to %a : tile<64xf32>\ncommit_group"
TMA = "mbarrier_arrive %landed expect 256\ntensor_load_to_lds %X[0] to %a reports %landed : tile<64xf32>"
LANDED = "mbarrier_wait %landed parity 0"
STORED, COPIED = "wait_count bulk_group(0)", "wait_count group(0)"
# First here, then there; the code, empty if it is proved.
COMBINATIONS = {
    "generic write, async write": (WRITE, TMA + "\n" + LANDED, "TG103"),
    "generic write, async read": (WRITE, STORE, "TG101"),
    "cp.async, async write": (f"{CP_ASYNC}\n{COPIED}", TMA + "\n" + LANDED, "TG103"),
    "cp.async, async read": (f"{CP_ASYNC}\n{COPIED}", STORE, "TG101"),
    "generic read, async write": (READ, TMA + "\n" + LANDED, "TG109"),
    "generic read, async read": (READ, STORE, ""),
    "async write, generic read": (TMA + "\n" + LANDED, READ, ""),
    "async write, generic write": (TMA + "\n" + LANDED, WRITE, ""),
    "async read, generic write": (f"{STORE}\n{STORED}", WRITE, ""),
    "async read that nothing waits for, generic write": (STORE, WRITE, "TG102"),
    "async read, async write": (f"{STORE}\n{STORED}", TMA + "\n" + LANDED, ""),
    "async read that nothing waits for, async write": (STORE, TMA + "\n" + LANDED, "TG102"),
}
FENCED = [name for name, (*_, code) in COMBINATIONS.items() if code and "nothing" not in name]


def two_roles(first: str, second: str, *, above: str = "", target: str = "sm_90") -> str:
    """The first wave arrives, and the second one waits for that."""
    arms = [f"{first}\nmbarrier_arrive %there", f"mbarrier_wait %there parity 0\n{second}"]
    body = [f"    waves {n} .. {n + 1} {{\n" + arm.replace("\n", "\n      ") + "\n    }" for n, arm in enumerate(arms)]
    return f"""{above}target {target}
kernel @k(%X: global<64xf32>, %Y: global<64xf32>) waves 2 {{
  %a = alloc : lds<64xf32>
  %landed = new_barrier : mbarrier<1>
  %there = new_barrier : mbarrier<1>
  %z = fill 0.0 : tile<64xf32>
  specialize {{
{chr(10).join(body)}
  }}
}}
"""


def status_of(monkeypatch: pytest.MonkeyPatch, *command: str) -> int:
    monkeypatch.setattr("sys.argv", ["tidegate", *command])
    with pytest.raises(SystemExit) as ended:
        main()
    return int(ended.value.code or 0)


def session_of(text: str, file: str = "k.tide", allow: tuple[str, ...] = ()) -> Session:
    (session,) = sessions_of(load_text(text, file), None, allow)
    return session


def codes_of(text: str, *allow: str) -> list[str]:
    return [each.code for each in check_session(session_of(text, allow=allow)).findings if each.severity == "error"]


@pytest.mark.parametrize("name", COMBINATIONS)
def test_a_combination_of_proxies(name: str) -> None:
    first, second, code = COMBINATIONS[name]
    assert codes_of(two_roles(first, second)) == ([code] if code else [])
    assert codes_of(two_roles(first, second), "TG109") == ([code] if code not in ("", "TG109") else [])


@pytest.mark.parametrize("name", FENCED)
def test_the_fence_may_stand_on_either_side(name: str) -> None:
    first, second, _ = COMBINATIONS[name]
    for text in (two_roles(f"{first}\n{FENCE}", second), two_roles(first, f"{FENCE}\n{second}")):
        assert check_session(session_of(text)).is_proved
    assert codes_of(two_roles(f"{FENCE}\n{first}", f"{second}\n{FENCE}"))


def test_the_message_names_both_places() -> None:
    (found,) = check_session(session_of(two_roles(READ, TMA))).findings
    assert found.message == "`a` is written through the async proxy behind generic reads, without a fence"
    assert "after the read in line 9, before its wave arrives, or before the write in line 15" in found.help


def test_what_is_allowed_is_an_assumption(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "k.tide"
    file.write_text(two_roles(READ, TMA))
    assert status_of(monkeypatch, "check", str(file), "--allow", "TG109", "--json") == 0
    document = json.loads(capsys.readouterr().out)
    (found,) = document["findings"]
    assert (found["code"], found["severity"]) == ("TG109", "note")
    (proof,) = document["verified"]
    assert proof["proved"]
    assert "proxy-reads" in [each["id"] for each in proof["assumptions"]]
    assert status_of(monkeypatch, "check", str(file), "--allow", "TG109") == 0
    said = capsys.readouterr().out
    assert "note[TG109]" in said
    assert "reads end before async writes" in said
    assert status_of(monkeypatch, "check", str(file), "--allow", "TG109", "--sarif") == 0
    (result,) = json.loads(capsys.readouterr().out)["runs"][0]["results"]
    assert result["level"] == "note"


def test_what_needs_no_allowance_assumes_nothing() -> None:
    checked = check_session(session_of(two_roles(f"{READ}\n{FENCE}", TMA), allow=("TG109",)))
    assert checked.is_proved
    assert not checked.findings
    assert "proxy-reads" not in [each.id for each in checked.assumptions]


def test_an_allowance_hides_no_race() -> None:
    """The read is behind the arrival: a fence would not help."""
    late = two_roles("", TMA).replace("mbarrier_arrive %there", f"mbarrier_arrive %there\n{READ}")
    assert codes_of(late) == codes_of(late, "TG109") == ["TG102"]


LINE = "{} tidegate: allow TG109\n"


def test_a_line_in_the_file_allows_it() -> None:
    text = two_roles(READ, TMA)
    assert check_session(session_of(LINE.format("#") + text)).is_proved
    graph = tg.show_graph(session_of(text).graph)
    assert not check_session(session_of(graph, "k.sync")).is_proved
    assert check_session(session_of(LINE.format("#") + graph, "k.sync")).is_proved


def test_a_line_in_ttgir_allows_it() -> None:
    text = (ROOT / "tests/ttgir/gemm.sm_90.ttgir").read_text()
    for line, wanted in ((LINE.format("//"), {"TG109"}), ("", set())):
        (session,) = sessions_of(load_text(line + text, "gemm.ttgir"), None)
        assert session.target.allowed == wanted


def test_the_library_allows_it(tmp_path: Path) -> None:
    file = tmp_path / "k.tide"
    file.write_text(two_roles(READ, TMA))
    assert not tg.check(file)
    assert tg.check(file, allow=["TG109"])
    assert tg.sync(file, allow=["TG109"])
    assert tg.explain(file, allow=["TG109"])


def test_only_some_codes_can_be_allowed(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    text = two_roles(READ, TMA)
    for code in ("TG102", "TG999", "everything"):
        with pytest.raises(BadInput, match=code):
            session_of(text, allow=(code,))
    with pytest.raises(BadInput) as bad:
        allowed_in("target sm_90\n  # tidegate: allow TG109, TG101\n", "k.tide")
    (found,) = bad.value.findings
    assert (found.code, found.at.line, found.at.column) == ("TG001", 2, 21)
    assert status_of(monkeypatch, "check", str(ROOT / "examples/gemm_mbarrier.tide"), "--allow", "TG101") == 2
    assert "cannot be allowed" in capsys.readouterr().err


def test_the_default_target_is_strict() -> None:
    session = session_of(two_roles(READ, TMA))
    assert session.target.fenced == {"read", "write", "atomic"}
    assert replace(session.target, allowed=frozenset(("TG109",))).fenced == {"write", "atomic"}
