"""Numbers as people read them, and axes with round ticks."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from halowire.report.ticks import Kind, make_axis, tick_text, ticks_between
from halowire.report.units import bytes_text, count_text, metric_words, number, percent_text, seconds_text, share


@pytest.mark.parametrize(
    ("value", "words"),
    [(0, "0 B"), (512, "512 B"), (1023.6, "1.00 KiB"), (12_900_000, "12.3 MiB"), (3 << 30, "3.00 GiB"), (None, "–")],
)
def test_bytes(value: float | None, words: str) -> None:
    assert bytes_text(value) == words


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (0, "0 ms"), (85e-6, "85.0 µs"), (0.0421, "42.1 ms"), (0.42, "0.42 s"), (12.34, "12.3 s"),
        (59.99, "1 min 00 s"),
        (200, "3 min 20 s"), (7500, "2 h 05 min"), (math.nan, "–"), ("soon", "–"),
    ],
)  # fmt: skip
def test_seconds(value: object, words: str) -> None:
    assert seconds_text(value) == words


def test_other_words() -> None:
    assert percent_text(0.7912) == "79.1%"
    assert percent_text(None) == "–"
    assert count_text(63620) == "63,620"
    assert metric_words("micro-f1") == "micro-F1"
    assert math.isnan(number(True)) and math.isnan(number(math.inf))
    assert share(1, 4) == 0.25 and math.isnan(share(1, 0))


def test_ticks_are_round() -> None:
    assert ticks_between(0, 59, 6, whole=True) == [0, 10, 20, 30, 40, 50]
    assert ticks_between(1, 3, 6, whole=True) == [1, 2, 3]
    assert tick_text(0.25, 0.25) == "0.25" and tick_text(1000, 500) == "1,000" and tick_text(2.5, 2.5) == "2.5"


@given(
    st.lists(st.floats(0, 1e12, allow_subnormal=False), min_size=1, max_size=20),
    st.sampled_from(["number", "seconds", "bytes"]),
    st.booleans(),
)
def test_an_axis_holds_all_values_between_few_distinct_ticks(values: list[float], kind: Kind, zero: bool) -> None:
    axis = make_axis(values, kind, zero)
    assert axis.low < axis.high
    room = 1e-6 * (axis.high - axis.low)
    assert axis.low - room <= min(values) and max(values) <= axis.high + room
    assert not zero or axis.low == 0
    assert 2 <= len(axis.ticks) <= 7


def test_a_share_stays_within_0_and_100_per_cent() -> None:
    axis = make_axis([0.02, 0.998], "percent", zero=False)
    assert (axis.low, axis.high) == (0.0, 1.0)


def test_labels_share_the_unit_of_the_axis_unless_tiny() -> None:
    axis = make_axis([12.0 * 2**20], "bytes", zero=True)
    assert axis.words(2.0**19) == "0.500 MiB"
    assert axis.words(100.0) == "100 B"
