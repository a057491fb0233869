"""VARCO's epochs all differ: their seconds, from a few that were timed at a constant ratio."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from halowire.training import recipe_config
from halowire.wire import Rate, linear


def ratios(epochs: int) -> list[float]:
    """The compression ratio of every epoch of a run of ``epochs``, as the recipe's schedule sets it."""
    rate = recipe_config("varco").rate
    return [linear(epoch, epochs, rate.max_ratio, rate.min_ratio, rate.slope) for epoch in range(epochs)]


def bytes_at(ratio: float, widths: Sequence[int], exact_bytes: float) -> float:
    """Halo bytes of an epoch at ``ratio``, the last layer spared, given those at ratio 1."""
    columns = sum(Rate(ratio=ratio).columns(width) for width in widths[:-1]) + widths[-1]
    return exact_bytes * columns / sum(widths)


def schedule(
    runs: Mapping[str, Mapping[str, Any]], widths: Sequence[int], epochs: int
) -> tuple[list[float], list[float]]:
    """(seconds, halo bytes) of every epoch: straight lines between the timed runs, in bytes."""
    exact = runs["exact"]
    points = sorted(
        (run["halo_bytes"], run["seconds"]) for name, run in runs.items() if name == "exact" or "varco/" in name
    )
    sent = [bytes_at(ratio, widths, exact["halo_bytes"]) for ratio in ratios(epochs)]
    known, seconds = zip(*points, strict=True)
    return [float(value) for value in np.interp(sent, known, seconds)], sent
