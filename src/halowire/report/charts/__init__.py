"""Charts are drawn as SVG: curves, scatter plots, bars and timelines; `sections/` decides what they show."""

from halowire.report.charts.bars import Bar, Segment, bar_chart, legend, timeline_chart
from halowire.report.charts.line_chart import Curve, LineChart, line_figure
from halowire.report.charts.plot import WORDS, Kind, metric_kind
from halowire.report.charts.scatter import Point, ScatterPlot, scatter_plot

__all__ = [
    "WORDS", "Bar", "Curve", "Kind", "LineChart", "Point", "ScatterPlot", "Segment", "bar_chart", "legend",
    "line_figure", "metric_kind", "scatter_plot", "timeline_chart",
]  # fmt: skip
