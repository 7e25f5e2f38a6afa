"""The page of `tidegate draw` in a real browser: it loads without errors, clicks and keys work, it can be read.

Needs Debian's `chromium`, or another one that `TIDEGATE_CHROMIUM` names; without one these tests say so, and that is
all.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from oracles.chromium import Browser, Page, find_chromium
from tests.conftest import ROOT
from tests.report.test_report import RACY
from tidegate.files import load, load_text
from tidegate.report.build import Asked, Report, build_report
from tidegate.session import sessions_of

pytestmark = pytest.mark.skipif(
    find_chromium() is None, reason="not here: pages are tested in Chromium (Debian's package `chromium`)"
)
LAPTOP, NARROW = 1280, 800


def report_of(text: str, file: str, **asked: str) -> Report:
    loaded = load_text(text, file)
    (unit,) = sessions_of(loaded, None)
    return build_report(unit, loaded.sources, Asked(**asked))  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with Browser() as started:
        yield started


@pytest.fixture(scope="module")
def racy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("pages") / "racy.html"
    report_of(RACY, "shift.tide").save(path)
    return path


@pytest.fixture
def page(browser: Browser, racy: Path) -> Page:
    return browser.open(racy, width=LAPTOP)


# --- it loads -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [LAPTOP, NARROW])
def test_it_loads_without_errors_and_needs_no_scrolling_sideways(
    browser: Browser, racy: Path, dark: bool, width: int
) -> None:
    page = browser.open(racy, width=width, dark=dark)
    assert page.errors == []
    assert page.fetched == [racy.resolve().as_uri()]
    assert page.value("document.documentElement.scrollWidth") <= width
    ground = page.value("getComputedStyle(document.body).backgroundColor")
    assert ground == ("rgb(16, 21, 28)" if dark else "rgb(255, 255, 255)")


@pytest.mark.parametrize("file", ["gemm_pingpong.tide", "gemm_split.py", "attention_async.tide"])
def test_examples_load(browser: Browser, tmp_path: Path, file: str) -> None:
    loaded = load(str(ROOT / "examples" / file))
    (unit,) = sessions_of(loaded, None)
    build_report(unit, loaded.sources).save(tmp_path / "page.html")
    page = browser.open(tmp_path / "page.html")
    assert page.errors == []
    assert page.count("#listing .row") > 10
    assert page.count("#lanes .bar") > 10
    assert page.value("document.documentElement.scrollWidth") <= LAPTOP


def test_what_a_program_says_is_text_and_no_script(page: Page) -> None:
    """A comment of the kernel holds a tag."""
    assert "</script><script>alert(1)</script>" in page.text("#listing")
    assert page.count("script") == 2


def test_in_the_frame_of_a_notebook(browser: Browser, tmp_path: Path) -> None:
    outer = tmp_path / "notebook.html"
    outer.write_text(f"<!doctype html><body>{report_of(RACY, 'shift.tide')._repr_html_()}</body>", encoding="utf-8")
    page = browser.open(outer)
    inside = "document.querySelector('iframe').contentDocument"
    assert page.value(f"new Promise(done => setTimeout(() => done({inside}.querySelectorAll('.row').length), 300))") > 5
    assert page.errors == []


# --- clicks -------------------------------------------------------------------------------------------------------


def test_a_click_on_a_barrier_explains_it(page: Page) -> None:
    page.click('#program [role="tab"]:nth-child(2)')
    assert "proved" in page.text(".verdict")
    page.click(".row.barrier")
    card = page.text("#details .card")
    assert "shared_memory_barrier (needed)" in card
    assert "TG101" in card
    assert page.count(".row.picked") == 1
    page.click(".row.barrier")
    assert page.count('[data-card^="barrier"]') == 0


def test_a_click_on_an_arc_shows_its_window(page: Page) -> None:
    page.click('#listing [data-hazard="0"]')
    assert page.text("#details .card h3").startswith("RAW %rows")
    assert page.count(".row.end") == 2
    page.click('#listing [data-hazard="1"]')
    assert page.text("#details .card h3").startswith("WAR %rows")
    assert page.count(".row.window") >= 1
    assert page.count("#listing .arc.dim") == 1


def test_a_click_on_a_finding_shows_both_places(page: Page) -> None:
    page.click('[data-pick="finding-0"]')
    card = page.text("#details .card")
    assert "error[TG10" in card
    assert "wave" in card
    assert "help" in card
    assert page.count(".row.end") == 2


def test_links_lead_from_a_barrier_to_its_hazards_and_back(page: Page) -> None:
    page.key("2")
    page.key("b")
    page.click("#details .card .link")
    assert page.count('[data-card="hazard-0"]') == 1
    page.click("#details .card .link")
    assert page.count('[data-card="barrier-0"]') == 1


def test_the_timeline_zooms_moves_and_says_what_a_bar_is(page: Page) -> None:
    ticks = "[...document.querySelectorAll('#lanes text.faint')].map(each => each.textContent).join()"
    whole = page.value(ticks)
    page.click('#time [data-do="in"]')
    closer = page.value(ticks)
    assert closer != whole
    page.value("document.querySelector('#lanes').focus()")
    page.key("ArrowRight")
    assert page.value(ticks) != closer
    page.key("0")
    assert page.value(ticks) == whole
    page.click("#lanes .bar")
    assert "issued at" in page.text("#time .picked")
    assert page.count(".row.lit") == 1
    page.click('#time [role="tab"]:nth-child(2)')
    assert "simulator" in page.text("#time .about")
    page.click("#lanes .mark")
    assert "race" in page.text("#time .picked")


def test_the_timeline_follows_the_mouse(page: Page) -> None:
    page.click('#time [data-do="in"]')
    first = "document.querySelector('#lanes text.faint').textContent"
    page.value("document.querySelector('#lanes').scrollIntoView()")
    before = page.value(first + " + document.querySelector('#lanes svg').innerHTML.length")
    box = page.value(
        "(() => { const b = document.querySelector('#lanes').getBoundingClientRect(); return [b.x, b.y]; })()"
    )
    x, y = box[0] + 500, box[1] + 40
    page.ask("Input.dispatchMouseEvent", type="mousePressed", x=x, y=y, button="left", clickCount=1)
    page.ask("Input.dispatchMouseEvent", type="mouseMoved", x=x - 120, y=y, button="left")
    page.ask("Input.dispatchMouseEvent", type="mouseReleased", x=x - 120, y=y, button="left", clickCount=1)
    assert page.value(first + " + document.querySelector('#lanes svg').innerHTML.length") != before
    assert page.errors == []


def test_steps_go_on_and_back_and_play(page: Page) -> None:
    assert page.text(".count").startswith("1 of ")
    page.click('#how [data-do="next"]')
    assert page.text(".count").startswith("2 of ")
    assert "RAW %rows" in page.text(".say")
    assert page.count("#stage .win:not(.hidden)") == 1
    page.click('#how [data-do="last"]')
    assert page.count("#stage .put:not(.hidden)") == page.count("#stage .put") >= 1
    page.value("document.querySelector('#stage').focus()")
    page.key("Home")
    assert page.text(".count").startswith("1 of ")
    page.key(" ")
    assert page.text('[data-do="play"]') == "Pause"
    page.key(" ")
    assert page.text('[data-do="play"]') == "Play"
    page.click('#how [role="tab"]:nth-child(2)')
    assert "(gfx" in page.text('#how [role="tab"]:nth-child(2)')
    assert page.errors == []


# --- keys ---------------------------------------------------------------------------------------------------------


def test_keys_go_through_barriers_hazards_and_findings(page: Page) -> None:
    page.key("h")
    assert page.count('[data-card="hazard-0"]') == 1
    page.key("h")
    assert page.count('[data-card="hazard-1"]') == 1
    page.key("H", shift=True)
    assert page.count('[data-card="hazard-0"]') == 1
    page.key("f")
    assert page.count('[data-card="finding-0"]') == 1
    page.key("Escape")
    assert page.count("[data-card]") == 0
    page.key("2")
    page.key("b")
    assert page.count('[data-card="barrier-0"]') == 1


def test_light_and_dark_by_key_and_button(page: Page) -> None:
    page.key("t")
    assert page.value("document.documentElement.dataset.theme") == "dark"
    page.click("#theme")
    assert page.value("document.documentElement.dataset.theme") == "light"


def test_keys_are_told(page: Page) -> None:
    page.key("?")
    assert page.value("document.querySelector('#keys').open")
    assert "next, previous barrier" in page.text("#keys")
    page.key("Escape")
    assert not page.value("document.querySelector('#keys').open")


def test_all_that_can_be_clicked_is_reached_with_tab(page: Page) -> None:
    """Buttons of lists stand for arcs and bars, which a mouse may take instead."""
    reached = set()
    for _ in range(60):
        page.key("Tab")
        reached.add(page.value("document.activeElement.id || document.activeElement.textContent.trim()"))
    for name in ("help", "theme", "listing", "lanes", "stage"):
        assert name in reached
    assert any("RAW" in each for each in reached)
    assert page.value("getComputedStyle(document.activeElement).outlineStyle") != "none"


def test_tabs_move_with_arrow_keys(page: Page) -> None:
    page.value("document.querySelector('#program [aria-selected=true]').focus()")
    page.key("ArrowRight")
    assert page.text('#program [aria-selected="true"]') == "synchronized"


# --- it can be read -----------------------------------------------------------------------------------------------

CONTRAST = """(() => {
  const light = (text) => {
    const part = text.match(/[\\d.]+/g).map(Number).slice(0, 3).map((each) => each / 255)
      .map((each) => (each <= 0.04045 ? each / 12.92 : ((each + 0.055) / 1.055) ** 2.4));
    return 0.2126 * part[0] + 0.7152 * part[1] + 0.0722 * part[2];
  };
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const flat = (colours) => {  // one above the other, as the eye sees them
    canvas.clearRect(0, 0, 1, 1);
    for (const each of colours) { canvas.fillStyle = each; canvas.fillRect(0, 0, 1, 1); }
    return `rgb(${[...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3)})`;
  };
  const behind = (element) => {
    const found = [];
    for (let each = element; each; each = each.parentElement) found.unshift(getComputedStyle(each).backgroundColor);
    return found;
  };
  const poor = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.textContent.trim() || !element.getClientRects().length) continue;
    if (["SCRIPT", "STYLE", "TITLE", "NOSCRIPT"].includes(element.tagName.toUpperCase())) continue;
    const style = getComputedStyle(element), ground = behind(element);
    const ink = element instanceof SVGElement ? style.fill : style.color;
    const [one, two] = [light(flat([...ground, ink])), light(flat(ground))];
    const ratio = (Math.max(one, two) + 0.05) / (Math.min(one, two) + 0.05);
    const name = `${element.tagName}.${element.className.baseVal ?? element.className}`;
    if (ratio < 4.5) poor.push(`${ratio.toFixed(2)} ${name}: ${walker.currentNode.textContent.trim().slice(0, 30)}`);
  }
  return poor;
})()"""


@pytest.mark.parametrize("dark", [False, True])
def test_all_text_has_enough_contrast(browser: Browser, racy: Path, dark: bool) -> None:
    """4.5 to 1, as WCAG AA asks for, with nothing picked and with a barrier, a hazard and a finding picked."""
    page = browser.open(racy, width=LAPTOP, dark=dark)
    for keys in ((), ("f",), ("h",), ("2", "b")):
        for key in keys:
            page.key(key)
        assert page.value(CONTRAST) == []


def test_parts_have_names_and_buttons_say_what_they_do(page: Page) -> None:
    unnamed = """[...document.querySelectorAll('button, [role=tab], input, section, [role=application]')]
      .filter((each) => !each.getAttribute('aria-label') && !each.getAttribute('aria-labelledby'))
      .filter((each) => !each.textContent.trim()).length"""
    assert page.value(unnamed) == 0
    assert page.value("document.documentElement.lang") == "en"
    assert page.count("h1") == 1


def test_a_picture_of_the_page(browser: Browser, tmp_path: Path, update: bool) -> None:
    """What a person looks at, of the page that the documentation has; `--update` takes it anew for that."""
    page = browser.open(ROOT / "docs/demo.html", width=LAPTOP)
    page.key("2")
    page.key("b")
    page.picture(tmp_path / "page.png", height=1500)
    assert (tmp_path / "page.png").stat().st_size > 50_000
    if update:
        shutil.copy(tmp_path / "page.png", ROOT / "docs/pictures/page.png")
