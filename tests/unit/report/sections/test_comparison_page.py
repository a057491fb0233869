"""The page of a comparison: all recipes and figures, also of few recipes, one worker or unfinished runs."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from halowire.errors import InputError
from halowire.report import write_compare_page
from tests.support.fake_comparison import ALL, write_comparison
from tests.support.pages import comparison_page, words_of

FIGURES = (
    "Test accuracy against bytes",
    "Test accuracy against time",
    "Bytes per epoch",
    "Training loss",
    "Time per epoch",
)


def test_all_recipes_and_figures_are_there(tmp_path: Path) -> None:
    write_comparison(tmp_path)
    text = comparison_page(tmp_path)
    for title in FIGURES:
        assert f"<h3>{title}</h3>" in text
    for recipe in ALL:
        assert f"what {recipe} does" in text and f"{recipe}-seed2" in text
    said = words_of(text)
    assert "debian, 2 workers, 3 seeds: halowire reaches 78." in said and "1/22 of its halo bytes" in said
    assert "halowire compare debian --recipes exact,half" in said
    colours = re.findall(r'swatch run s(\d)"', text)
    assert len(colours) == len(set(colours)) == len(ALL)


@pytest.mark.parametrize(("recipes", "seeds"), [(("exact",), 1), (("isolated",), 2), (("varco", "bns"), 1)])
def test_few_recipes(tmp_path: Path, recipes: tuple[str, ...], seeds: int) -> None:
    write_comparison(tmp_path, recipes, seeds)
    text = comparison_page(tmp_path)
    assert all(f"<h3>{title}</h3>" in text for title in FIGURES)
    assert "test accuracy" in re.search("<h1>(.*?)</h1>", text)[1]


def test_one_worker_sends_nothing(tmp_path: Path) -> None:
    write_comparison(tmp_path, ("exact", "half"), workers=1)
    assert "Nothing crossed the wire" in comparison_page(tmp_path)


@pytest.mark.parametrize("lacking", [1, 5, 6])
def test_unfinished_comparisons_say_so(tmp_path: Path, lacking: int) -> None:
    write_comparison(tmp_path, ("exact", "halowire"), lacking=lacking)
    assert f"{lacking} run" in comparison_page(tmp_path) and "not finished yet" in comparison_page(tmp_path)


def test_what_the_user_named_is_escaped(tmp_path: Path) -> None:
    record = write_comparison(tmp_path, ("exact",), 1)
    record |= {"graph": "<b>&", "source": "a'b <x>.csv", "notes": ["<i>note"], "settings": {"graph.labels": "<l>"}}
    (tmp_path / "compare.json").write_text(json.dumps(record))
    text = comparison_page(tmp_path)
    assert "&lt;b&gt;&amp;" in text and "<i>note" not in text and "<l>" not in text


def test_no_comparison_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no readable compare\.json"):
        write_compare_page(tmp_path)
    (tmp_path / "compare.json").write_text("{}")
    with pytest.raises(InputError, match=r"no readable compare\.json"):
        write_compare_page(tmp_path)
