"""Line charts: long curves keep their peaks, curves break where values are missing."""

from __future__ import annotations

import math
import re

from halowire.report.charts.line_chart import MOST_POINTS, Curve, LineChart, line_chart, thinned


def test_thinning_keeps_the_peaks() -> None:
    points = [(epoch, 100.0 if epoch == 7777 else math.sin(epoch)) for epoch in range(20_000)]
    kept = thinned(points)
    assert len(kept) <= MOST_POINTS and (7777, 100.0) in kept and kept == sorted(kept)


def test_a_curve_breaks_where_values_are_missing() -> None:
    points = [(0, 1.0), (1, 2.0), (2, math.nan), (3, 2.0), (4, math.nan), (5, 1.0), (6, 1.5)]
    drawing = line_chart(LineChart("x", [Curve("x", points, 0, area=True)], "number"), "y")
    line = re.search(r'd="([^"]*)" class="line', drawing)
    assert line and line[1].count("M") == 3
