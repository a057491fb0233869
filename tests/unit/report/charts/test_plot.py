"""What all charts share: labels that keep their distance."""

from __future__ import annotations

from itertools import pairwise

from halowire.report.charts.plot import pushed_apart


def test_labels_are_spread_without_leaving_the_plot() -> None:
    placed = pushed_apart([10.0, 11.0, 12.0, 180.0, 181.0], 182.0, 16.0)
    gaps = [after - before for before, after in pairwise(placed)]
    assert min(gaps) >= 16 and max(placed) <= 182 and placed == sorted(placed)
