"""Bytes of an epoch from the rows of a cut alone, for cases in which nobody trained; the step `epochs` proves it.

For ``r`` rows (or rows and partial sums) of all workers, ``p`` pairs of workers and exchanged rows of ``w`` columns,
which travel forward and backward:

    bytes = sum over w of 2 (4 r w + 16 p)
"""

from __future__ import annotations

from typing import Any

from bench.bytes.ways import WAYS
from halowire.training import ModelConfig
from halowire.wire import HEADER_BYTES

LABELS = ("plain", "first layer", "sums", "both", "hypergraph", "all")
"""The ways whose bytes follow from the rows."""


def epoch_bytes(rows: dict[str, Any], label: str, layers: int, parts: int) -> int:
    """Bytes of all workers for the ``rows`` of a cut, if all pairs of workers exchange some: see the formula above."""
    settings = WAYS[label].settings
    widths = [*[ModelConfig().hidden] * (layers - 2), rows["classes"]]
    widths = widths[settings.get("wire.first_layer") == "local" :]
    count = rows["cover_rows" if settings.get("wire.cover") == "on" else "halo_rows"]
    return sum(2 * (4 * count * width + HEADER_BYTES * parts * (parts - 1)) for width in widths)


def completed(results: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """What was counted in epochs, and what follows from rows where that is missing, marked ``computed``."""
    found = dict(results.get("epochs", {}))
    rows = results.get("rows", {})
    for key in rows:
        name, parts, method = key.split()
        for label in (label for label in LABELS if WAYS[label].method == method):
            for layers in (3, 2):
                sent = epoch_bytes(rows[key], label, layers, int(parts))
                found.setdefault(f"{name} {parts} {layers} {label}", {"sent": sent, "computed": True})
    return found
