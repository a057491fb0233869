"""The page of a comparison: well formed, self-contained, escaped, and complete however much of it is finished."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from fake_comparison import ALL, write_comparison
from test_report_page import Balance

from halowire.kernels.errors import InputError
from halowire.report import write_compare_page
from halowire.report.log_axis import LogAxis, make_log_axis
from halowire.report.scatter import Point, Scatter, roomy, scatter_plot
from halowire.report.ticks import Axis

FIGURES = (
    "Test accuracy against bytes",
    "Test accuracy against time",
    "Bytes per epoch",
    "Training loss",
    "Time per epoch",
)


def page(folder: Path) -> str:
    """The page's text, checked to be balanced and to ask for nothing from elsewhere."""
    text = write_compare_page(folder).read_text(encoding="utf-8")
    balance = Balance()
    balance.feed(text)
    assert not balance.open
    assert not {"script", "link", "img", "iframe", "object"} & set(balance.seen)
    assert not re.search(r"https?:|url\(|@import|src=|href=", text)
    assert not {"nan", "inf"} & set(re.findall(r"[a-z]+", re.sub(r"<style>.*?</style>", "", text.lower(), flags=re.S)))
    for drawing in re.findall(r"<svg .*?</svg>(?=</div>)", text, flags=re.S):
        ET.fromstring(drawing)
    return text


def plain(text: str) -> str:
    return re.sub(r"<[^>]+>", "", text)


def test_all_recipes_and_figures_are_there(tmp_path: Path) -> None:
    write_comparison(tmp_path)
    text = page(tmp_path)
    for title in FIGURES:
        assert f"<h3>{title}</h3>" in text
    for recipe in ALL:
        assert f"what {recipe} does" in text and f"{recipe}-seed2" in text
    assert "debian, 2 workers, 3 seeds: halowire reaches 78." in plain(text) and "1/22 of its halo bytes" in plain(text)
    assert "halowire compare debian --recipes exact,half" in plain(text)
    colours = re.findall(r'swatch run s(\d)"', text)
    assert len(colours) == len(set(colours)) == len(ALL)


@pytest.mark.parametrize(("recipes", "seeds"), [(("exact",), 1), (("isolated",), 2), (("varco", "bns"), 1)])
def test_few_recipes(tmp_path: Path, recipes: tuple[str, ...], seeds: int) -> None:
    write_comparison(tmp_path, recipes, seeds)
    text = page(tmp_path)
    assert all(f"<h3>{title}</h3>" in text for title in FIGURES)
    assert "test accuracy" in re.search("<h1>(.*?)</h1>", text)[1]


def test_one_worker_sends_nothing(tmp_path: Path) -> None:
    write_comparison(tmp_path, ("exact", "half"), workers=1)
    assert "Nothing crossed the wire" in page(tmp_path)


@pytest.mark.parametrize("lacking", [1, 5, 6])
def test_unfinished_comparisons_say_so(tmp_path: Path, lacking: int) -> None:
    write_comparison(tmp_path, ("exact", "halowire"), lacking=lacking)
    assert f"{lacking} run" in page(tmp_path) and "not finished yet" in page(tmp_path)


def test_what_the_user_named_is_escaped(tmp_path: Path) -> None:
    record = write_comparison(tmp_path, ("exact",), 1)
    record |= {"graph": "<b>&", "source": "a'b <x>.csv", "notes": ["<i>note"], "settings": {"graph.labels": "<l>"}}
    (tmp_path / "compare.json").write_text(json.dumps(record))
    text = page(tmp_path)
    assert "&lt;b&gt;&amp;" in text and "<i>note" not in text and "<l>" not in text


def test_no_comparison_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no readable compare\.json"):
        write_compare_page(tmp_path)
    (tmp_path / "compare.json").write_text("{}")
    with pytest.raises(InputError, match=r"no readable compare\.json"):
        write_compare_page(tmp_path)


def test_places_on_a_logarithmic_axis() -> None:
    axis = make_log_axis([2048.0, 5e6, 3e9], "bytes")
    assert axis.place(axis.low) == 0 and axis.place(axis.high) == 1
    assert axis.place(4e6) - axis.place(2e6) == pytest.approx(axis.place(4e8) - axis.place(2e8))
    assert axis.ticks[0][1].endswith(" KiB") and 2 <= len(axis.ticks) <= 6


def test_zero_has_a_place_of_its_own() -> None:
    axis = make_log_axis([0.0, 1e3, 1e6], "bytes")
    assert isinstance(axis, LogAxis) and axis.ticks[0] == (0.0, "none")
    assert axis.place(0.0) == 0 < axis.place(axis.low) == pytest.approx(0.16)
    assert type(make_log_axis([0.0, 0.0], "bytes")) is Axis


@pytest.mark.parametrize("value", [1.0, 700.0, 1024.0, 1e9, 7e15])
def test_a_single_value_has_an_axis(value: float) -> None:
    axis = make_log_axis([value], "bytes")
    assert axis.low <= value <= axis.high and axis.ticks


def test_ticks_keep_their_distance() -> None:
    assert roomy([0.0, 1.0, 0.5, 0.55, 0.9], 0.2) == [0.0, 1.0, 0.5]
    assert roomy([], 0.2) == []


def test_a_point_shows_its_runs_and_its_error() -> None:
    point = Point("exact", 1e6, 0.8, 0.01, 0, [(1e6, 0.79), (1e6, 0.81)])
    drawn = scatter_plot(Scatter("title", [point], "bytes", "bytes", "", log=True), "says")
    assert drawn.count('class="run s0"') == 2 and drawn.count('class="error s0"') == 1 and drawn.count("<circle") == 3
    alone = scatter_plot(Scatter("title", [Point("a", 3.0, 0.8, float("nan"), 0)], "seconds", "time", ""), "says")
    assert "error" not in alone and "time, s" in alone
