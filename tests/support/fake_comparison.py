"""A comparison as `halowire compare` writes it, made up of made-up runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from unittest import mock

from halowire.report import write_record
from tests.support.fake_run import RECIPES, write_run

NUMBERS = {
    **RECIPES, "half": (6_450_000, 0.39, 0.7908), "sylvie-a": (560_000, 0.25, 0.768),
    "pipegcn": (12_900_000, 0.27, 0.77), "bns": (1_290_000, 0.30, 0.782), "isolated": (0, 0.22, 0.776),
    "halowire": (590_000, 0.30, 0.7905),
}  # fmt: skip
ALL = ("exact", "half", "sylvie-s", "sylvie-a", "pipegcn", "bns", "varco", "isolated", "halowire")


def write_comparison(
    folder: Path, recipes: tuple[str, ...] = ALL, seeds: int = 3, lacking: int = 0, workers: int = 2
) -> dict[str, Any]:
    """The record of a comparison in ``folder``; its last ``lacking`` runs are not finished."""
    cells = [(recipe, seed) for seed in range(seeds) for recipe in recipes]
    done = []
    for recipe, seed in cells[: len(cells) - lacking]:
        sent, seconds, top = NUMBERS[recipe]
        own = {recipe: (sent, seconds * (1 + 0.01 * seed), top + 0.001 * (seed % 2))}
        with mock.patch.dict(RECIPES, own):
            run = write_run(folder / f"{recipe}-seed{seed}", recipe, workers=workers, seed=seed)
        done.append((recipe, seed, run.name, json.loads((run / "summary.json").read_text())))
    summaries = {recipe: f"what {recipe} does" for recipe in recipes}
    settings = {"epochs": 60, "model.hidden": 128}
    about = {
        "graph": "debian", "source": "debian", "workers": workers, "seeds": list(range(seeds)),
        "recipes": list(recipes), "summaries": summaries, "settings": settings, "notes": [],
    }  # fmt: skip
    return write_record(folder, about, done)
