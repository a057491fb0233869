"""The tables of `bench.bytes`: rows of every cut, bytes of an epoch, what is paid for them, seconds on links."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from statistics import fmean
from typing import Any

from bench.bytes.formula import completed
from bench.bytes.real import CHECKED
from bench.bytes.ways import (
    AGAIN,
    ALL,
    CHOSEN,
    HOME_AND_SUMS,
    LAYERS,
    PLAIN,
    TWO_ALL,
    TWO_ONCE,
    TWO_PLAIN,
    WAYS,
)

Results = dict[str, dict[str, Any]]
ONE_HOST = [name for name, way in WAYS.items() if way.hosts == 1]


def tables(results: Results) -> str:
    """All tables for which there are results, as Markdown."""
    every = completed(results)
    parts = [
        ("Rows of one layer and direction", _rows(results.get("rows", {}))),
        ("Halo megabytes of an epoch (with *: computed from the rows)", _epochs(every)),
        ("Times fewer bytes than with every row", _means(every)),
        ("What is paid: set-up, memory, preparation", _paid(results)),
        ("Counted and sent by real workers", _checked(results)),
        ("Seconds of an epoch", _times(results.get("times", {}))),
    ]
    return "\n".join(f"## {title}\n\n{text}\n" for title, text in parts if text)


def grid(head: Sequence[str], lines: Iterable[Sequence[object]], names: int = 1) -> str:
    """A Markdown table, the first ``names`` columns to the left; empty without lines."""
    body = [f"| {' | '.join(map(str, line))} |" for line in lines]
    rule = [" --- "] * names + [" ---: "] * (len(head) - names)
    return "\n".join([f"| {' | '.join(head)} |", f"|{'|'.join(rule)}|", *body]) if body else ""


def _rows(found: dict[str, Any]) -> str:
    head = ["graph", "parts", "method", "halo rows", "with sums", "of METIS's halo rows", "per node", "work", "memory",
            "partitioner s", "cover s"]  # fmt: skip
    lines = []
    for key, one in found.items():
        name, parts, method = key.split()
        usual = found.get(f"{name} {parts} metis")
        share = f"{one['cover_rows'] / usual['halo_rows']:.2f}" if usual else ""
        cover = f"{one['cover_seconds']:.3f}" if "cover_seconds" in one else ""
        lines.append([
            name, parts, method, f"{one['halo_rows']:,}", f"{one['cover_rows']:,}", share,
            f"{one['cover_rows'] / one['nodes']:.2f}", f"{one['work']:.2f}", f"{one['memory']:.2f}",
            f"{one['seconds']:.1f}", cover,
        ])  # fmt: skip
    return grid(head, lines, 3)


def cases(found: dict[str, Any]) -> dict[tuple[str, int, int], dict[str, Any]]:
    """By (graph, parts, layers), what was counted by the name of the way."""
    by: dict[tuple[str, int, int], dict[str, Any]] = {}
    for key, one in found.items():
        name, parts, layers, label = key.split(" ", 3)
        by.setdefault((name, int(parts), int(layers)), {})[label] = one
    return {case: ways for case, ways in by.items() if PLAIN in ways}


def _epochs(found: dict[str, Any]) -> str:
    head = ["graph", "parts", "layers", *ONE_HOST, TWO_PLAIN, TWO_ONCE, TWO_ALL]
    lines = []
    for (name, parts, layers), ways in sorted(cases(found).items(), key=lambda one: (-one[0][2], one[0][1])):
        lines.append([name, parts, layers, *(_size(ways.get(label)) for label in head[3:])])
    return grid(head, lines)


def _size(one: dict[str, Any] | None) -> str:
    """Megabytes, with a star where nobody trained."""
    if one is None:
        return ""
    return f"{one['sent'] / 1e6:.{1 if one['sent'] >= 1e6 else 2}f}{'*' * one.get('computed', False)}"


def fewer(ways: dict[str, Any], label: str) -> float:
    """How many times fewer bytes than every row; infinite where nothing travels."""
    plain = ways[TWO_PLAIN if WAYS[label].hosts > 1 else PLAIN]["sent"]
    return float(plain / ways[label]["sent"]) if ways[label]["sent"] else math.inf


def _means(found: dict[str, Any]) -> str:
    """Arithmetic and geometric means of the ratios over the graphs, and the ratio of all bytes together."""
    by, lines = cases(found), []
    for layers in LAYERS:
        for parts in sorted({case[1] for case in by}):
            of = [ways for case, ways in by.items() if case[1:] == (parts, layers)]
            for label in (name for name in WAYS if name not in (PLAIN, TWO_PLAIN)):
                plain = TWO_PLAIN if WAYS[label].hosts > 1 else PLAIN
                ratios = [fewer(ways, label) for ways in of if {label, plain} <= ways.keys()]
                if ratios:
                    lines.append([f"{layers} layers, {parts} parts", label, len(ratios), *_summary(ratios)])
    return grid(["case", "way", "graphs", "least", "arithmetic mean", "geometric mean", "of mean bytes"], lines, 2)


def _summary(ratios: Sequence[float]) -> list[str]:
    if math.inf in ratios:
        every = all(ratio == math.inf for ratio in ratios)
        return ["nothing travels"] * 4 if every else [f"{min(ratios):.2f}", "", "", f"{harmonic(ratios):.2f}"]
    geometric = math.exp(fmean(map(math.log, ratios)))
    return [f"{min(ratios):.2f}", f"{fmean(ratios):.2f}", f"{geometric:.2f}", f"{harmonic(ratios):.2f}"]


def harmonic(ratios: Sequence[float]) -> float:
    """One over the mean share of the bytes that is left."""
    return 1 / fmean(1 / ratio for ratio in ratios)


def _paid(results: Results) -> str:
    labels = [PLAIN, "first layer", "sums", "both", ALL]
    head = ["graph", "parts", "layers", f"set-up MB: {PLAIN}", *labels[1:], f"memory MB: {PLAIN}", *labels[1:],
            "METIS s", "hypergraph s", f"set-up s: {PLAIN}", "both"]  # fmt: skip
    lines, rows = [], results.get("rows", {})
    for (name, parts, layers), ways in sorted(cases(results.get("epochs", {})).items(), key=lambda one: one[0][1:]):
        setup = [f"{ways[label]['setup'] / 1e6:.1f}" if label in ways else "" for label in labels]
        memory = [f"{ways[label]['memory'] / 1e6:.0f}" if label in ways else "" for label in labels]
        cut = [rows.get(f"{name} {parts} {method}", {}).get("seconds", "") for method in ("metis", "hypergraph")]
        took = [ways.get(label, {}).get("seconds", "") for label in (PLAIN, "both")]
        lines.append([name, parts, layers, *setup, *memory, *cut, *took])
    return grid(head, lines)


def _checked(results: Results) -> str:
    lines = []
    for key, real in results.get("check", {}).items():
        name, label = key.split(" ", 1)
        counted = results.get("epochs", {}).get(f"{name} 4 {LAYERS[0]} {label}")
        if counted and label in CHECKED:
            same = counted["sent"] == real["wire_bytes_per_epoch"]
            sent = f"{counted['sent']:,}", f"{real['wire_bytes_per_epoch']:,.0f}", "yes" if same else "**no**"
            setup = f"{counted['setup']:,}", f"{real['setup_wire_bytes']:,}"
            memory = f"{counted['memory'] / 1e6:.0f}", f"{real['peak_memory_bytes'] / 1e6:.0f}"
            lines.append([name, label, *sent, *setup, *memory])
    head = ["graph", "way", "counted bytes of an epoch", "sent", "equal", "counted set-up", "sent", "predicted MB",
            "largest process MB"]  # fmt: skip
    return grid(head, lines, 2)


def _times(found: dict[str, Any]) -> str:
    labels, lines = (CHOSEN, HOME_AND_SUMS, ALL), []
    for key, one in found.items():
        plain = min(one[PLAIN])
        cells = [f"{min(one[label]):.3f} ({plain / min(one[label]):.2f})" if one.get(label) else "" for label in labels]
        length = f"{len(one[PLAIN])} x {one['epochs']}"
        lines.append([*key.split(), length, f"{plain:.3f}", *cells, f"{noise(one):.2f}", verdict(one),
                      f"{one['others']:.0%}"])  # fmt: skip
    head = ["graph", "workers", "link", "turns x epochs", "plain", *(f"{label} (times faster)" for label in labels),
            "noise", "chosen", "others"]  # fmt: skip
    return grid(head, lines)


def noise(one: dict[str, Any]) -> float:
    """The largest ratio, in any turn, between the two measurements of every row."""
    return max(max(a / b, b / a) for a, b in zip(one[PLAIN], one[AGAIN], strict=True))


def verdict(one: dict[str, Any]) -> str:
    """Whether what is chosen takes longer or shorter than every row by more than the noise of this run."""
    ratio = min(one[CHOSEN]) / min(one[PLAIN])
    if ratio > noise(one):
        return f"**slower**, {ratio:.2f}"
    return f"faster, {ratio:.2f}" if ratio < 1 / noise(one) else f"within noise, {ratio:.2f}"
