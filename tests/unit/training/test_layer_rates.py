"""Bits that fit: more for narrow rows, never more bytes than the share allows."""

from __future__ import annotations

import pytest

from halowire.training.layer_rates import STEPS, fit_bits
from halowire.wire import Rate, codec_of


def size(bits, widths):
    return sum(codec_of(Rate(number)).row_bytes(widths[layer]) for (layer, _), number in bits.items())


@pytest.mark.parametrize(
    ("widths", "expected"),
    [
        ({1: 128, 2: 4}, [1, 1, 4, 4]),
        ({1: 128, 2: 10}, [1, 1, 2, 2]),
        ({1: 128, 2: 45}, [1, 1, 2, 1]),
        ({1: 256, 2: 40}, [1, 1, 4, 2]),
        ({1: 16, 2: 4}, [1, 1, 1, 1]),
        ({0: 100, 1: 256}, [2, 1, 1]),
        ({}, []),
    ],
)
def test_a_twentieth_of_the_bytes(widths, expected):
    assert list(fit_bits(1, widths, 0.05).values()) == expected


@pytest.mark.parametrize("share", [0.03, 0.05, 0.1, 0.3, 1.0])
@pytest.mark.parametrize("widths", [{1: 128, 2: 7}, {1: 256, 2: 256, 3: 47}, {1: 64}])
def test_the_share_is_kept_and_no_step_is_left_that_has_room(widths, share):
    bits = fit_bits(1, widths, share)
    full = sum(4 * widths[layer] for layer, _ in bits)
    if set(bits.values()) != {1}:
        assert size(bits, widths) <= share * full
    for place, number in bits.items():
        if number in STEPS:
            assert size(bits | {place: STEPS[number]}, widths) > share * full
