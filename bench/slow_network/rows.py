"""The numbers of the tables, from what was measured."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from typing import Any

from bench.slow_network import varco
from bench.slow_network.cases import RECIPES, SYNTHETIC

GOAL = 0.99
VARCO_EPOCHS = 200
"""Length of the run over which VARCO's mean epoch is taken; the default of `halowire train`."""

Json = Mapping[str, Any]


def speed_rows(case: Json) -> list[dict[str, Any]]:
    """One row per recipe: seconds, waiting, bytes, and the ratios to exact training and to the null transports."""
    runs, nulls = case["runs"], case["nulls"]
    if "exact" not in runs or "exact" not in nulls:
        return []
    rows = [row for row in (_row(recipe, case) for recipe in RECIPES) if row is not None]
    exact, plain = runs["exact"], nulls["exact"]["seconds"]
    exact_bytes = exact["halo_bytes"] + exact["weight_bytes"]
    for row in rows:
        sent = row["halo_bytes"] + row["weight_bytes"]
        row["speed_up"] = exact["seconds"] / row["seconds"]
        row["byte_ratio"] = exact_bytes / sent
        row["halo_ratio"] = exact["halo_bytes"] / row["halo_bytes"] if row["halo_bytes"] else None
        row["weight_share"] = row["weight_bytes"] / sent
        row["times_null"] = row["seconds"] / row["null_seconds"] if row["null_seconds"] else None
        row["times_plain_null"] = row["seconds"] / plain
    return rows


def _row(recipe: str, case: Json) -> dict[str, Any] | None:
    runs, nulls = case["runs"], case["nulls"]
    if recipe == "varco":
        if len([name for name in runs if name.startswith("varco/")]) < 2:
            return None
        seconds, sent = varco.schedule(runs, case["widths"], VARCO_EPOCHS)
        mean = statistics.fmean(seconds)
        row = {"seconds": mean, "fastest": min(seconds), "waiting": None, "halo_bytes": statistics.fmean(sent)}
        return row | {"recipe": recipe, "weight_bytes": runs["exact"]["weight_bytes"], "null_seconds": None}
    if recipe not in runs:
        return None
    keys = ("seconds", "fastest", "waiting", "halo_bytes", "weight_bytes")
    row = {"recipe": recipe} | {key: runs[recipe][key] for key in keys}
    return row | {"null_seconds": nulls[recipe]["seconds"] if recipe in nulls else None}


def learn_rows(case: Json) -> list[dict[str, Any]]:
    """One row per recipe: epochs to 99% of exact's best validation metric, and the seconds they take at the rate."""
    learnt, runs = case.get("learnt", {}), case["runs"]
    if "exact" not in learnt or "exact" not in runs:
        return []
    best = max(value for _, value in learnt["exact"]["curve"])
    rows = []
    for recipe in RECIPES:
        if recipe not in learnt or (recipe not in runs and recipe != "varco"):
            continue
        curve = learnt[recipe]["curve"]
        done = next((epoch for epoch, value in curve if value >= GOAL * best), None)
        row = {"recipe": recipe, "goal": GOAL * best, "epochs": done, "reached": max(value for _, value in curve)}
        rows.append(row | {"seconds": None if done is None else _seconds(recipe, done, case)})
    return rows


def _seconds(recipe: str, done: int, case: Json) -> float:
    if recipe != "varco":
        return float(done * case["runs"][recipe]["seconds"])
    seconds, _ = varco.schedule(case["runs"], case["widths"], case["learnt"]["varco"]["epochs"])
    return sum(seconds[:done])


def targets(case: Json) -> list[tuple[str, float, float, bool]]:
    """(what, wanted, found, holds), for the synthetic graph; the claim is about its size."""
    if case["graph"] != SYNTHETIC.name:
        return []
    rows = {row["recipe"]: row for row in speed_rows(case)}
    found: list[tuple[str, float, float, bool]] = []
    for recipe, least in (("sylvie-a", 20.0), ("halowire-late", 28.1)):
        if recipe in rows:
            times = rows[recipe]["speed_up"]
            found.append((f"{recipe}, speed-up over exact, at least", least, times, times >= least))
    for recipe, most in (("sylvie-a", 1.15), ("halowire-classic", 1.6), ("halowire-late", 1.1)):
        if recipe in rows and rows[recipe]["times_null"]:
            times = rows[recipe]["times_null"]
            found.append((f"{recipe}, times the null transport, at most", most, times, times <= most))
    return found
