"""The page of a comparison in Debian's chromium: nothing overlaps, nothing is cut off, everything can be read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from chromium import Chromium
from fake_comparison import ALL, write_comparison
from test_report import FAINT, OVERLAPS

from halowire.report import write_compare_page

pytestmark = pytest.mark.browser

WIDTHS = (320, 375, 600, 768, 860, 1280)
PAGES = ("all", "three", "alone", "unfinished", "none-sent")


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A comparison of every kind."""
    folder = tmp_path_factory.mktemp("comparisons")
    write_comparison(folder / "all", ALL)
    write_comparison(folder / "three", ("exact", "halowire", "isolated"), seeds=1)
    write_comparison(folder / "alone", ("varco",), seeds=1)
    write_comparison(folder / "unfinished", ("exact", "sylvie-s", "isolated"), lacking=4)
    write_comparison(folder / "none-sent", ("exact", "half"), workers=1)
    return {name: write_compare_page(folder / name) for name in PAGES}


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
    shown = "getComputedStyle(t).display != 'none'"
    assert (
        browser.run(OVERLAPS.replace("querySelectorAll('text')]", f"querySelectorAll('text')].filter(t => {shown})"))
        == []
    )


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize("dark", [False, True])
def test_every_text_stands_out(browser: Chromium, pages: dict[str, Path], name: str, dark: bool) -> None:
    browser.open(pages[name], 1280, dark=dark)
    browser.run("document.querySelectorAll('details').forEach(one => one.open = true)")
    assert (int(browser.run("getComputedStyle(document.body).backgroundColor.match(/\\d+/)[0]")) < 60) == dark
    assert browser.run(FAINT) == []


@pytest.mark.parametrize("name", PAGES)
def test_it_stands_alone_and_every_figure_is_described(browser: Chromium, pages: dict[str, Path], name: str) -> None:
    browser.open(pages[name], 1280)
    assert browser.requests() == [pages[name].as_uri()] and browser.run("document.scripts.length") == 0
    missing = browser.run(
        "[...document.querySelectorAll('figure')].filter(f => !f.querySelector('svg[role=img][aria-label] > title') ||"
        " !f.querySelector('svg > desc') || !f.querySelector('details tbody tr') || !f.querySelector('h3')).length"
    )
    assert missing == 0 and browser.run("document.querySelectorAll('figure').length") == 5


def test_a_wide_plot_has_more_ticks_than_a_narrow_one(browser: Chromium, pages: dict[str, Path]) -> None:
    counts = []
    for width in (375, 1280):
        browser.open(pages["all"], width)
        counts.append(browser.run("[...document.querySelectorAll('.fine')].filter(t => t.checkVisibility()).length"))
    assert counts[0] == 0 < counts[1]


@pytest.mark.parametrize("name", PAGES)
def test_paper_is_light_and_cuts_no_figure(browser: Chromium, pages: dict[str, Path], name: str) -> None:
    browser.open(pages[name], 688, dark=True, media="print")
    assert browser.run("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert browser.run("document.documentElement.scrollWidth") <= 688
    assert browser.run("Math.max(...[...document.querySelectorAll('figure')].map(f => f.clientHeight))") < 1017
    shown = "getComputedStyle(t).display != 'none'"
    assert (
        browser.run(OVERLAPS.replace("querySelectorAll('text')]", f"querySelectorAll('text')].filter(t => {shown})"))
        == []
    )
