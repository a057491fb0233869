"""Halo and stage bytes of an epoch, before it is run: the row formula summed over layers and directions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from halowire.wire import BACKWARD, FORWARD, Rate, codec_of, grade_bits

LayerRate = Callable[[int, str], Rate]
GradeCounts = Mapping[int, tuple[int, ...]]


@dataclass(frozen=True)
class StageLink:
    """The border of two stages: ``rows`` of ``width`` columns that enter ``layer``, each way in every epoch."""

    layer: int
    width: int
    rows: int


def epoch_bytes(rates: LayerRate, widths: Mapping[int, int], halo_rows: int, grades: GradeCounts | None = None) -> int:
    """Bytes that all workers send in one epoch, forward and backward.

    ``widths`` are the columns of every layer that exchanges rows, ``halo_rows`` the halo rows of all workers that
    travel, ``grades`` how many of them each grade of a base has (needed for graded rates). The columns of a backward
    message are those of the forward one.
    """
    total = 0
    for layer, width in widths.items():
        forward = rates(layer, FORWARD)
        columns = forward.columns(width)
        # Layer 0 are the raw features, which have no gradient.
        for rate in (forward, rates(layer, BACKWARD)) if layer > 0 else (forward,):
            total += _message_bytes(rate, columns, halo_rows, grades)
    return total


def link_bytes(rates: LayerRate, links: Sequence[StageLink]) -> int:
    """Bytes that all workers send between stages in one epoch, forward and backward; every row travels."""
    return sum(epoch_bytes(rates, {link.layer: link.width}, link.rows) for link in links)


def _message_bytes(rate: Rate, columns: int, rows: int, grades: GradeCounts | None) -> int:
    if not rate.graded:
        return rows * codec_of(rate).row_bytes(columns)
    if grades is None:
        raise ValueError("the bytes of a graded rate depend on the rows of every grade")
    parts = zip(grade_bits(rate.bits), grades[rate.bits], strict=True)
    return sum(count * codec_of(Rate(bits)).row_bytes(columns) for bits, count in parts)
