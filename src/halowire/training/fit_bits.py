"""Bits that fit: more for narrow rows, where they cost little, within a share of the bytes of float32."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from halowire.training.layer_rates import LayerBits
from halowire.wire import BACKWARD, FORWARD, Rate, codec_of

STEPS = {1: 2, 2: 4, 4: 8}


def fit_bits(base: int, widths: Mapping[int, int], share: float) -> LayerBits:
    """Bits by (layer, direction), at least ``base``, for rows of ``widths`` columns by layer.

    Again and again the message that costs the fewest bytes more takes the next step of 1, 2, 4, 8 bits, as long as all
    rows of a halo node together take at most ``share`` of their ``4 k`` bytes in float32. Of equals the one with fewer
    bits goes first, then the earlier layer, then backward: what one bit loses most by are the gradients of the last
    layer. Where not even ``base`` fits, it is ``base`` everywhere.
    """
    places = [(layer, way) for layer in widths for way in (BACKWARD, FORWARD) if layer > 0 or way == FORWARD]
    bits = dict.fromkeys(places, base)
    room = share * sum(4 * widths[layer] for layer, _ in places) - sum(
        _size(base, widths[layer]) for layer, _ in places
    )
    while (steps := _steps(bits, widths, room, places)) and room >= 0:
        more, number, place = min(steps)
        bits[places[place]], room = number, room - more
    return bits


def _steps(
    bits: LayerBits, widths: Mapping[int, int], room: float, places: Collection[tuple[int, str]]
) -> list[tuple[int, int, int]]:
    """(more bytes, bits, number of the place) of every step that has room."""
    found = []
    for number, (layer, way) in enumerate(places):
        now = bits[layer, way]
        if now in STEPS:
            more = _size(STEPS[now], widths[layer]) - _size(now, widths[layer])
            found += [(more, STEPS[now], number)] if more <= room else []
    return found


def _size(bits: int, width: int) -> int:
    return codec_of(Rate(bits)).row_bytes(width)
