"""Scatter plots: ticks keep their distance, a point shows its runs and its error."""

from __future__ import annotations

from halowire.report.charts.scatter import Point, ScatterPlot, roomy, scatter_plot


def test_ticks_keep_their_distance() -> None:
    assert roomy([0.0, 1.0, 0.5, 0.55, 0.9], 0.2) == [0.0, 1.0, 0.5]
    assert roomy([], 0.2) == []


def test_a_point_shows_its_runs_and_its_error() -> None:
    point = Point("exact", 1e6, 0.8, 0.01, 0, [(1e6, 0.79), (1e6, 0.81)])
    drawn = scatter_plot(ScatterPlot("title", [point], "bytes", "bytes", log=True), "says")
    assert drawn.count('class="run s0"') == 2 and drawn.count('class="error s0"') == 1 and drawn.count("<circle") == 3
    alone = scatter_plot(ScatterPlot("title", [Point("a", 3.0, 0.8, float("nan"), 0)], "seconds", "time"), "says")
    assert "error" not in alone and "time, s" in alone
