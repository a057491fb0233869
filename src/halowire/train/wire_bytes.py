"""Halo bytes of an epoch, before it is run: the row formula summed over layers and directions."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from halowire.exchange import BACKWARD, FORWARD, Rate, codec_of

LayerRate = Callable[[int, str], Rate]


def epoch_bytes(rates: LayerRate, widths: Mapping[int, int], halo_rows: int) -> int:
    """Bytes that all workers send in one epoch, forward and backward.

    ``widths`` are the columns of every layer that exchanges rows, ``halo_rows`` the halo rows of all workers. The
    columns of a backward message are those of the forward one.
    """
    total = 0
    for layer, width in widths.items():
        forward, backward = rates(layer, FORWARD), rates(layer, BACKWARD)
        columns = forward.columns(width)
        for rate in (forward, backward):
            total += round(forward.rows * halo_rows) * codec_of(rate).row_bytes(columns)
    return total
