"""The benchmarks that are compared, each in a size that two cores measure in a minute or two, and their rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import Any

Rows = dict[str, float]
RENAMED = {"halowire-classic": "halowire"}
"""Recipes that had another name in earlier code: rows are told by the earlier one."""


@dataclass(frozen=True)
class Case:
    """A benchmark, its command line (``{out}``, ``{work}`` and ``{data}`` are filled in), and how to read its rows.

    A benchmark whose name ends in ``.py`` is a file of this folder, which runs in both checkouts.
    """

    name: str
    bench: str
    words: tuple[str, ...]
    rows: Callable[[Any], Rows]


def aggregate_rows(found: Any) -> Rows:
    """Seconds of the native sum."""
    return {f"{r['columns']} columns, {r['pages']} pages": r["native_seconds"] for r in found["rows"]}


def codec_rows(found: Any) -> Rows:
    """Seconds for a gigabyte of float32."""
    return {f"{r['columns']} columns, {r['task']}, {r['code']}": 1 / r["gb_per_second"] for r in found["rows"]}


def epoch_rows(found: Any) -> Rows:
    """Seconds of halowire's epoch."""
    return {f"{found['model']}, {found['variant']}, threads {found['threads']}": found["seconds"]["halowire"]}


def overlap_rows(found: Any) -> Rows:
    """Seconds of an epoch without a network, and seconds that a worker over shaped links does not wait, at their least.

    The links' rates follow from the epoch without a network, and so differ a little between two runs.
    """
    rows: Rows = {}
    for row in found["rows"]:
        name = RENAMED.get(row["recipe"], row["recipe"])
        rows[f"{name}, no network"] = row["null_seconds"]
        busy = row["seconds"] - row["wait_seconds"] - row["reduce_seconds"]
        label = f"{name}, not waiting"
        rows[label] = min(rows.get(label, busy), busy)
    return rows


def pipeline_rows(found: Any) -> Rows:
    """Seconds that a way computes in an epoch: the link's rate is searched for, and differs between two searches."""
    return {
        f"{name}, {way}": run["seconds"] - run["waiting"]
        for name, case in found["cases"].items()
        for way, run in case["runs"].items()
    }


def deep_rows(found: Any) -> Rows:
    """Seconds of an epoch."""
    return dict(found)


def _epoch(threads: int, variant: str, model: str) -> Case:
    size = ("--nodes", "50000", "--edges", "2500000", "--rounds", "5")
    name = f"epoch {model} {variant} {threads}"
    return Case(name, "epoch", ("--one", str(threads), variant, model, *size), epoch_rows)


DEEP = ("--models", "gcnii", "--ways", "graph parallel", "pipeline", "one-bit pipeline")
QUICK = ("--quick", "--work", "{work}", "--patience", "5", "--out", "{out}")
SMALL = ("--nodes", "50000", "--edges", "2000000", "--columns", "64", "256", "--threads", "1", "--repeats", "15")
CASES = {
    case.name: case
    for case in (
        Case("aggregate", "aggregate", (*SMALL, "--out", "{out}"), aggregate_rows),
        Case("codec", "codec", ("--repeats", "15", "--columns", "64", "256", "--out", "{out}"), codec_rows),
        *(_epoch(*one) for one in product((1, 2), ("plain", "LayerNorm + dropout"), ("sage", "gcn"))),
        Case("overlap", "overlap", QUICK, overlap_rows),
        Case("pipeline", "pipeline", (*QUICK, *DEEP), pipeline_rows),
        Case("deep", "deep.py", ("--data", "{data}", "--work", "{work}", "--out", "{out}"), deep_rows),
    )
}  # fmt: skip
