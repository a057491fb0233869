"""Axes hold all values between round ticks, with zero apart on a logarithmic one; labels keep their distance."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from halowire.report.charts.plot import Axis, Kind, LogAxis, make_axis, pushed_apart, tick_text, ticks_between


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


def test_places_on_a_logarithmic_axis() -> None:
    axis = make_axis([2048.0, 5e6, 3e9], "bytes", zero=False, log=True)
    assert axis.place(axis.low) == 0 and axis.place(axis.high) == 1
    assert axis.place(4e6) - axis.place(2e6) == pytest.approx(axis.place(4e8) - axis.place(2e8))
    assert axis.ticks[0][1].endswith(" KiB") and 2 <= len(axis.ticks) <= 6


def test_zero_has_a_place_of_its_own() -> None:
    axis = make_axis([0.0, 1e3, 1e6], "bytes", zero=False, log=True)
    assert isinstance(axis, LogAxis) and axis.ticks[0] == (0.0, "none")
    assert axis.place(0.0) == 0 < axis.place(axis.low) == pytest.approx(0.16)
    assert type(make_axis([0.0, 0.0], "bytes", zero=False, log=True)) is Axis


@pytest.mark.parametrize("value", [1.0, 700.0, 1024.0, 1e9, 7e15])
def test_a_single_value_has_an_axis(value: float) -> None:
    axis = make_axis([value], "bytes", zero=False, log=True)
    assert axis.low <= value <= axis.high and axis.ticks


def test_labels_are_spread_without_leaving_the_plot() -> None:
    placed = pushed_apart([10.0, 11.0, 12.0, 180.0, 181.0], 182.0, 16.0)
    gaps = [after - before for before, after in pairwise(placed)]
    assert min(gaps) >= 16 and max(placed) <= 182 and placed == sorted(placed)
