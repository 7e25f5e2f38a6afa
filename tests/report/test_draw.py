"""`tidegate draw`: what is in the picture, and what is said where there is none.

The picture of the docs is drawn again and compared; `pytest --update` rewrites it.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.conftest import ROOT
from tidegate.cli import app
from tidegate.diag import BadInput
from tidegate.files import load
from tidegate.graph.build import build_graph
from tidegate.graph.show import show_graph
from tidegate.language.parse import parse
from tidegate.report import Panel, draw_panels, headline
from tidegate.report.scene import SHOWN, Scene, scene_of
from tidegate.simulate.cycles import estimate
from tidegate.targets import load_target

EXAMPLES = ROOT / "examples"
PICTURE = ROOT / "docs" / "pictures" / "gemm_pingpong.svg"
SVG = "{http://www.w3.org/2000/svg}"
HANG = """\
target sm_90

kernel @k() waves 4 {
  %bar = new_barrier : mbarrier<4>
  conditional wave < 3 {
    mbarrier_arrive %bar
  }
  mbarrier_wait %bar parity 0
}
"""


def panel_of(text: str, name: str = "as it is", sizes: dict[str, int] | None = None) -> Panel:
    (kernel,) = parse(text).kernels
    target = load_target(kernel.target)
    graph = build_graph(kernel, target).graph
    found = estimate(graph, target, sizes=sizes, cached=True, record=True)
    return Panel(headline(name, graph, target, found), graph, target, found)


def example(name: str, **sizes: int) -> Panel:
    return panel_of((EXAMPLES / f"{name}.tide").read_text(encoding="utf-8"), sizes=sizes)


@pytest.fixture(scope="module")
def pingpong() -> Panel:
    return example("gemm_pingpong", K=1024)


def pieces(text: str, word: str) -> list[ET.Element]:
    """What has this word in its class."""
    return [each for each in ET.fromstring(text).iter() if word in each.get("class", "").split()]


def words_of(text: str) -> list[str]:
    return [each.text or "" for each in ET.fromstring(text).iter(f"{SVG}text")]


def labels_of(scene: Scene, half: int) -> Counter[str]:
    """The barriers whose release is shown, by their words."""
    meetings = [each for each in scene.halves[half].view.meetings if scene.shows_meeting(each)]
    return Counter(scene.panel.graph.points[each.where].label for each in meetings)


# --- what is drawn ------------------------------------------------------------------------------------------------


def test_both_halves_are_drawn(pingpong: Panel) -> None:
    words = words_of(draw_panels([pingpong]))
    assert words.count("low half (waves 0..3)") == words.count("high half (waves 4..7)") == 1
    assert [each for each in words if each.endswith(": clusters")] == ["wave 0: clusters", "wave 4: clusters"]
    for k in range(SHOWN):
        assert words.count(f"k = {k}") == 2


def test_every_barrier_of_the_window_has_its_bar(pingpong: Panel) -> None:
    """Four an iteration. The first of the high half is the one by which it stays behind."""
    scene = scene_of(pingpong)
    assert labels_of(scene, 0) == {"shared_memory_barrier": 2 * SHOWN + 1, "workgroup_barrier": 2 * SHOWN}
    assert labels_of(scene, 1) == {
        "conditional_barrier": 1,
        "shared_memory_barrier": 2 * SHOWN,
        "workgroup_barrier": 2 * SHOWN,
    }
    text = draw_panels([pingpong])
    assert len(pieces(text, "barrier")) == 2 * (4 * SHOWN + 1)
    assert len(pieces(text, "conditional")) == 1
    assert words_of(text).count("conditional_barrier high") == 1
    assert all(each.get("stroke-dasharray") for each in pieces(text, "pinned"))
    assert len(pieces(text, "pinned")) == 4 * SHOWN
    assert len(pieces(text, "together")) == 4 * SHOWN + 1, "both halves go on from all of them together"


def test_clusters_take_turns(pingpong: Panel) -> None:
    """While a half multiplies, the other does not."""
    scene = scene_of(pingpong)
    for half in scene.halves:
        kinds = [each.kind for each in half.view.clusters if scene.shows(each)]
        assert kinds[: 4 * SHOWN - 1] == (["memory", "matrix"] * 2 * SHOWN)[: 4 * SHOWN - 1]
    low, high = ([each for each in half.view.clusters if each.kind == "matrix"] for half in scene.halves)
    assert not [(one, other) for one in low for other in high if one.start < other.end and other.start < one.end]


def test_the_stagger_is_said_where_conditional_barriers_are(pingpong: Panel) -> None:
    scene = scene_of(pingpong)
    low, high = (half.view.iterations[1] for half in scene.halves)
    text = draw_panels([pingpong])
    assert f"stagger at k = 1: {high - low:,.0f} cycles" in words_of(text)
    assert len(pieces(text, "stagger")) == 1
    assert pieces(draw_panels([example("gemm_one_slot")]), "stagger") == []


def test_work_lies_in_the_row_of_its_unit(pingpong: Panel) -> None:
    text = draw_panels([pingpong])
    rows = {kind: {float(each.get("y", 0)) for each in pieces(text, kind)} for kind in ("mma", "local_read")}
    assert len(rows["mma"]) == 2
    assert not rows["mma"] & rows["local_read"]
    assert {each.get("class") for each in pieces(text, "held")} == {"held by-barrier", "held by-wait", "held by-issue"}


def test_matrix_units_are_busy_as_their_prices_say(pingpong: Panel) -> None:
    """Two waves on each SIMD, two products each of 2 * 64 * 64 * 32 operations, 512 in a cycle."""
    (loop,) = pingpong.estimate.loops
    busy = 2 * 2 * (2 * 64 * 64 * 32) / 512 / loop.cycles
    assert pingpong.title == f"as it is: {loop.cycles:,.0f} cycles an iteration, matrix units busy {busy * 100:.0f} %"


def test_panels_have_one_scale(pingpong: Panel) -> None:
    text = draw_panels([example("gemm_one_slot", K=1024), pingpong])
    assert words_of(text).count("cycles") == 2
    marks = [(float(each.get("x", 0)), each.text) for each in ET.fromstring(text).iter(f"{SVG}text")]
    thousand = [x for x, words in marks if words == "1,000"]
    assert len(thousand) == 2
    assert thousand[0] == thousand[1]


def test_wave_counts_that_cannot_be_halved() -> None:
    text = (
        "target gfx942\n\nkernel @k(%X: global<8x64xf32>) waves WAVES {\n  %a = global_read %X[wave] : tile<64xf32>\n"
    )
    text += "  %b = neg %a : tile<64xf32>\n  global_write %b, %X[wave]\n}\n"
    for waves, names in (("3", {"first wave (0)", "last wave (2)"}), ("1", {"wave 0"}), ("2", {"low half (wave 0)"})):
        words = words_of(draw_panels([panel_of(text.replace("WAVES", waves))]))
        assert names <= set(words)


def boxes(text: str) -> Iterator[tuple[str, float, float, float]]:
    """Each piece of text with its left edge, its right edge and its foot, by the width of usual letters."""
    for each in ET.fromstring(text).iter(f"{SVG}text"):
        width = len(each.text or "") * float(each.get("font-size", 13)) * 0.5
        x = float(each.get("x", 0)) - {"middle": width / 2, "end": width}.get(each.get("text-anchor", ""), 0)
        yield each.text or "", x, x + width, float(each.get("y", 0))


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.tide")), ids=lambda path: path.stem)
def test_every_example_has_a_picture(path: Path) -> None:
    """Well-formed, with words for those who do not see it, and no text outside of it or over another."""
    text = draw_panels([example(path.stem)])
    root = ET.fromstring(text)
    assert path.stem in (root.findtext(f"{SVG}title") or "")
    assert root.findtext(f"{SVG}desc")
    assert not {each.get("fill") for each in root.iter(f"{SVG}text")} & {None, "#ffffff"}
    found = list(boxes(text))
    assert all(left >= 0 and right <= float(root.get("width", 0)) for _, left, right, _ in found)
    for place, (words, left, right, foot) in enumerate(found):
        for other, first, last, under in found[:place]:
            assert abs(foot - under) > 10 or right <= first or last <= left, (words, other)


def test_the_same_panels_give_the_same_text(pingpong: Panel) -> None:
    assert draw_panels([pingpong]) == draw_panels([example("gemm_pingpong", K=1024)])


def test_an_estimate_without_events_cannot_be_drawn(pingpong: Panel) -> None:
    with pytest.raises(ValueError, match="record=True"):
        draw_panels([replace(pingpong, estimate=replace(pingpong.estimate, events=()))])
    with pytest.raises(ValueError, match="nothing to draw"):
        draw_panels([])


# --- the command --------------------------------------------------------------------------------------------------


def draw(*args: object) -> tuple[int, str]:
    """Exit status and output; bad input is what `main` makes exit status 2 of."""
    done = CliRunner().invoke(app, ["draw", *map(str, args)])
    if isinstance(done.exception, BadInput):
        return 2, done.exception.findings[0].message + " " + done.exception.findings[0].help
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, done.output


def test_the_command_draws_the_picture_of_the_docs(tmp_path: Path, update: bool) -> None:
    out = tmp_path / "out.svg"
    status, said = draw(EXAMPLES / "gemm_pingpong.tide", "--size", "K=1024", "--cached", "-o", out)
    assert status == 0
    assert said.startswith(f"{out}: @gemm_pingpong on gfx942, as it is: ")
    assert said.count("\n") == 1
    if update:
        PICTURE.write_text(out.read_text(encoding="utf-8"), encoding="utf-8")
    assert out.read_text(encoding="utf-8") == PICTURE.read_text(encoding="utf-8")


def test_a_graph_and_a_python_file_are_drawn_as_the_kernel(tmp_path: Path) -> None:
    (kernel,) = load(str(EXAMPLES / "gemm_one_slot.tide")).kernels
    graph = tmp_path / "gemm.sync"
    graph.write_text(show_graph(build_graph(kernel, load_target(kernel.target)).graph), encoding="utf-8")
    said = [
        draw(file, "-o", tmp_path / "out.svg")
        for file in (graph, EXAMPLES / "gemm_one_slot.py", EXAMPLES / "gemm_one_slot.tide")
    ]
    assert said[0] == said[1] == said[2]
    assert said[0][0] == 0


@pytest.mark.parametrize(
    ("args", "wanted"),
    [
        (("good.tide", "-o", "out.pdf"), "only `.html` and `.svg` are"),
        (("good.tide", "-o", "out"), "name it `out.html`"),
        (("good.tide",), "no output file given"),
        (("good.tide", "-o", "out.svg", "--size", "Q=4"), "has no size `Q`"),
        (("good.tide", "-o", "out.svg", "--size", "K"), "is not a size"),
        (("good.tide", "-o", "nowhere/out.svg"), "cannot be written"),
        (("good.tide", "-o", "out.svg", "--target", "gfx9000"), "gfx9000"),
        (("missing.tide", "-o", "out.svg"), "cannot be read"),
        (("bad.tide", "-o", "out.svg"), "%q"),
        (("two.tide", "-o", "out.svg"), "pick one: `two.tide::gemm_one_slot`"),
        (("hang.tide", "-o", "out.svg"), "no picture: @k: wave 0 waits forever"),
        (("empty.tide", "-o", "out.svg"), "nothing to draw"),
    ],
)
def test_bad_input_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, args: tuple[str, ...], wanted: str) -> None:
    good = (EXAMPLES / "gemm_one_slot.tide").read_text(encoding="utf-8")
    files = {
        "good.tide": good,
        "bad.tide": good.replace("local_write %a_part", "local_write %q"),
        "two.tide": good + good[good.index("kernel @") :].replace("@gemm_one_slot", "@other"),
        "hang.tide": HANG,
        "empty.tide": "target gfx942\n\nkernel @k() waves 4 {\n}\n",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    status, said = draw(*args)
    assert status == 2
    assert wanted in said
    assert not Path("out.svg").exists()


def test_help_has_examples() -> None:
    status, said = draw("--help")
    assert status == 0
    assert "tidegate draw gemm.tide -o gemm.svg" in " ".join(said.split())
