"""The report in Debian's chromium: nothing overlaps, nothing is cut off, everything can be read, nothing is fetched."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from chromium import MISSING, Chromium, find_chromium
from fake_pipeline import write_pipeline
from fake_run import write_run

from halowire.report import write_report

pytestmark = pytest.mark.browser

WIDTHS = (320, 375, 768, 1280)
PAGES = ("one", "alone", "broken", "short", "coded", "compared", "seeds", "pipeline", "hybrid")

# Pairs of texts of a drawing that overlap by more than a hair, and texts that leave the page.
OVERLAPS = """
[...document.querySelectorAll('.plot')].flatMap(plot => {
  const boxes = [...plot.querySelectorAll('text')].map(t => [t.textContent, t.getBoundingClientRect()]);
  const bad = [];
  boxes.forEach(([a, p], i) => {
    if (p.left < -0.5 || p.right > innerWidth + 0.5) bad.push(a + ' leaves the page');
    boxes.slice(i + 1).forEach(([b, q]) => {
      const w = Math.min(p.right, q.right) - Math.max(p.left, q.left);
      const h = Math.min(p.bottom, q.bottom) - Math.max(p.top, q.top);
      if (w > 1 && h > 3) bad.push(a + ' | ' + b);
    });
  });
  return bad;
})
"""

# Texts whose contrast with what lies behind them is below 4.5 (WCAG AA).
FAINT = """
(() => {
  const rgb = c => (c.match(/[\\d.]+/g) || []).map(Number);
  const linear = v => v / 255 <= .04045 ? v / 255 / 12.92 : ((v / 255 + .055) / 1.055) ** 2.4;
  const light = c => { const [r, g, b] = rgb(c).map(linear); return .2126 * r + .7152 * g + .0722 * b; };
  const page = getComputedStyle(document.body).backgroundColor;
  const ratio = (a, b) => { const [x, y] = [light(a), light(b)].sort((p, q) => q - p); return (x + .05) / (y + .05); };
  const behind = e => { for (; e; e = e.parentElement) { const c = getComputedStyle(e).backgroundColor;
                        if (rgb(c).length === 3) return c; } return page; };
  const bad = [];
  for (const e of document.querySelectorAll('body *')) {
    const own = [...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim());
    if (!own || !e.getClientRects().length || e.closest('title, desc')) continue;
    let fore = getComputedStyle(e).color, back = behind(e);
    if (e instanceof SVGElement) {
      fore = getComputedStyle(e).fill;
      if (e.classList.contains('inside')) back = getComputedStyle(e.previousElementSibling).fill;
    }
    if (ratio(fore, back) < 4.5) bad.push(e.textContent.slice(0, 40) + ' ' + fore + ' on ' + back);
  }
  return bad;
})()
"""


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A report of every kind."""
    folder = tmp_path_factory.mktemp("runs")
    broken = write_run(folder / "broken")
    (broken / "summary.json").unlink()
    (broken / "events-1.jsonl").unlink()
    events = [json.loads(line) for line in (broken / "events-0.jsonl").read_text().splitlines()[:44]]
    lost = [{**event, "loss": None} if event.get("epoch", 0) >= 30 else event for event in events]
    (broken / "events-0.jsonl").write_text("".join(json.dumps(event) + "\n" for event in lost) + '{"event":')
    recipes = ("exact", "sylvie-s", "varco")
    runs = {
        "one": [write_run(folder / "one")],
        "alone": [write_run(folder / "alone", workers=1)],
        "broken": [broken],
        "short": [write_run(folder / "short", epochs=1)],
        "coded": [write_run(folder / "coded", "sylvie-s")],
        "compared": [write_run(folder / recipe, recipe, epochs=10 * n) for n, recipe in enumerate(recipes, 2)],
        "pipeline": [write_pipeline(folder / "pipeline", stages=8, chunks=32)],
        "hybrid": [write_pipeline(folder / "hybrid", stages=2, parts=2, layers=32)],
        "seeds": [write_run(folder / f"{recipe}{n}", recipe, seed=n) for recipe in recipes for n in range(3)],
    }
    return {name: write_report(of, folder / f"{name}.html") for name, of in runs.items()}


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    """One browser for all tests."""
    with Chromium(tmp_path_factory.mktemp("profile")) as running:
        yield running


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize("width", WIDTHS)
def test_the_page_fits_its_width_and_no_labels_overlap(
    browser: Chromium, pages: dict[str, Path], name: str, width: int
) -> None:
    browser.open(pages[name], width)
    assert browser.run("document.documentElement.scrollWidth") == width
    assert browser.run(OVERLAPS) == []


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize("dark", [False, True])
def test_every_text_stands_out(browser: Chromium, pages: dict[str, Path], name: str, dark: bool) -> None:
    browser.open(pages[name], 1280, dark=dark)
    browser.run("document.querySelectorAll('details').forEach(one => one.open = true)")
    shade = browser.run("getComputedStyle(document.body).backgroundColor.match(/\\d+/)[0]")
    assert (int(shade) < 60) == dark
    assert browser.run(FAINT) == []


@pytest.mark.parametrize("name", PAGES)
def test_nothing_is_fetched_and_nothing_runs(browser: Chromium, pages: dict[str, Path], name: str) -> None:
    browser.open(pages[name], 1280)
    assert browser.requests() == [pages[name].as_uri()]
    assert browser.run("document.scripts.length") == 0
    assert browser.run("[...document.querySelectorAll('path.line')].every(one => one.getBBox().width >= 0)")


@pytest.mark.parametrize("name", PAGES)
def test_every_figure_has_a_title_a_description_and_its_data(
    browser: Chromium, pages: dict[str, Path], name: str
) -> None:
    browser.open(pages[name], 1280)
    missing = browser.run(
        "[...document.querySelectorAll('figure')].filter(f => !f.querySelector('svg[role=img][aria-label] > title') ||"
        " !f.querySelector('svg > desc') || !f.querySelector('details tbody tr') || !f.querySelector('h3')).length"
    )
    assert missing == 0 and browser.run("document.querySelectorAll('figure').length") >= 5


@pytest.mark.parametrize("name", PAGES)
def test_paper_is_light_and_cuts_no_figure(
    browser: Chromium, pages: dict[str, Path], name: str, tmp_path: Path
) -> None:
    a4 = (688, 1017)  # pixels inside margins of 14 mm
    browser.open(pages[name], a4[0], dark=True, media="print")
    assert browser.run("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    figures = "[...document.querySelectorAll('figure, .tile, .beside, pre.command')].filter(f => f.checkVisibility())"
    assert browser.run(f"{figures}.filter(f => getComputedStyle(f).breakInside != 'avoid').length") == 0
    assert browser.run(f"Math.max(...{figures}.map(f => f.getBoundingClientRect().height))") < a4[1]
    assert browser.run("document.documentElement.scrollWidth") <= a4[0]
    assert browser.run(OVERLAPS) == []
    paper = browser.pdf(tmp_path / "report.pdf").read_bytes()
    assert paper.startswith(b"%PDF")
    assert 1 <= paper.count(b"/Type /Page\n") + paper.count(b"/Type /Page ") + paper.count(b"/Type /Page/") <= 6


def test_the_picture_is_not_blank(browser: Chromium, pages: dict[str, Path], tmp_path: Path) -> None:
    browser.open(pages["one"], 1280)
    assert browser.screenshot(tmp_path / "one.png").stat().st_size > 50_000


def test_the_checks_find_what_they_look_for(browser: Chromium, pages: dict[str, Path]) -> None:
    browser.open(pages["one"], 375)
    browser.run("document.body.style.setProperty('--soft', '#bbb')")
    browser.run("document.querySelectorAll('svg text').forEach(one => one.setAttribute('y', 9))")
    assert len(browser.run(FAINT)) > 10 and len(browser.run(OVERLAPS)) > 10


def test_a_missing_chromium_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(AssertionError, match="Debian package `chromium`"):
        find_chromium()
    assert "apt-get install chromium" in MISSING
