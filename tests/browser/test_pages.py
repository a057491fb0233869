"""The pages in Debian's chromium: nothing overlaps, nothing is cut off, everything can be read, nothing is fetched."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from halowire.report import write_compare_page, write_report
from tests.support.chromium import MISSING, Chromium, find_chromium
from tests.support.fake_comparison import ALL, write_comparison
from tests.support.fake_pipeline import write_pipeline
from tests.support.fake_run import write_run
from tests.support.page_checks import FAINT, OVERLAPS, SHADE, UNDESCRIBED, UNFOLD

pytestmark = pytest.mark.browser

WIDTHS = (320, 375, 600, 768, 860, 1280)
RUNS = ("one", "alone", "broken", "short", "coded", "several", "seeds", "pipeline", "hybrid")
COMPARISONS = ("all recipes", "three recipes", "one recipe", "unfinished", "none sent")
PAGES = (*RUNS, *COMPARISONS)


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A page of every kind."""
    return runs_pages(tmp_path_factory.mktemp("runs")) | comparison_pages(tmp_path_factory.mktemp("comparisons"))


def runs_pages(folder: Path) -> dict[str, Path]:
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
        "several": [write_run(folder / recipe, recipe, epochs=10 * n) for n, recipe in enumerate(recipes, 2)],
        "pipeline": [write_pipeline(folder / "pipeline", stages=8, chunks=32)],
        "hybrid": [write_pipeline(folder / "hybrid", stages=2, parts=2, layers=32)],
        "seeds": [write_run(folder / f"{recipe}{n}", recipe, seed=n) for recipe in recipes for n in range(3)],
    }
    return {name: write_report(of, folder / f"{name}.html") for name, of in runs.items()}


def comparison_pages(folder: Path) -> dict[str, Path]:
    write_comparison(folder / "all recipes", ALL)
    write_comparison(folder / "three recipes", ("exact", "halowire", "isolated"), seeds=1)
    write_comparison(folder / "one recipe", ("varco",), seeds=1)
    write_comparison(folder / "unfinished", ("exact", "sylvie-s", "isolated"), lacking=4)
    write_comparison(folder / "none sent", ("exact", "half"), workers=1)
    return {name: write_compare_page(folder / name) for name in COMPARISONS}


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
    browser.run(UNFOLD)
    assert (browser.run(SHADE) < 60) == dark
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
    assert browser.run(UNDESCRIBED) == []
    figures = browser.run("document.querySelectorAll('figure').length")
    assert figures == 5 if name in COMPARISONS else figures >= 5


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


def test_a_wide_plot_has_more_ticks_than_a_narrow_one(browser: Chromium, pages: dict[str, Path]) -> None:
    counts = []
    for width in (375, 1280):
        browser.open(pages["all recipes"], width)
        counts.append(browser.run("[...document.querySelectorAll('.fine')].filter(t => t.checkVisibility()).length"))
    assert counts[0] == 0 < counts[1]


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
