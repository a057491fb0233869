"""Values from files are made safe, and numbers are written as people read them: KiB and MiB, ms and s, per cent."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from halowire.events import NO_SHARE

Json = dict[str, Any]
Points = list[tuple[int, float]]
"""A curve: (epoch, value) in the order of the epochs; the value is NaN where it is not known."""

HUGE = 1e150
"""Numbers from here on are those of damaged files; their squares and sums would be infinite."""
NOTHING = "–"
BYTE_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
METRICS = {
    "micro-f1": "micro-F1", "roc-auc": "ROC-AUC", "mae": "MAE", "rmse": "RMSE", "r2": "R\N{SUPERSCRIPT TWO}",
    "mrr": "MRR", "hits@1": "Hits@1", "hits@10": "Hits@10", "hits@50": "Hits@50",
}  # fmt: skip


def as_object(value: Any) -> Json:
    """A JSON object unchanged; an empty object in place of anything else."""
    return value if isinstance(value, dict) else {}


def as_list(value: Any) -> list[Any]:
    """A JSON list unchanged; an empty list in place of anything else."""
    return value if isinstance(value, list) else []


def number(value: Any) -> float:
    """The value as a float; NaN where it is missing, no number, infinite or huge, so that other code need not check."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < HUGE:
        return math.nan
    return float(value)


def finite(values: Iterable[float]) -> list[float]:
    """The values that are neither NaN nor infinite, in their order."""
    return [value for value in values if math.isfinite(value)]


def share(part: Any, whole: Any) -> float:
    """``part / whole`` as a fraction; NaN where ``whole`` is not above 0."""
    return number(part) / number(whole) if number(whole) > 0 else math.nan


def mean_of(entry: Any) -> float:
    """The mean in ``{mean, standard_error, runs}``, or a plain number itself; NaN if there is no mean."""
    return number(entry.get("mean")) if isinstance(entry, dict) else number(entry)


def error_of(entry: Any) -> float:
    """The standard error in ``{mean, standard_error, runs}``; NaN if there is no error."""
    return number(entry.get("standard_error")) if isinstance(entry, dict) else math.nan


def digits(value: float) -> str:
    """A number with about three significant digits: 1234, 123, 12.3, 1.23, 0.123."""
    size = abs(value)
    if size == 0:
        return "0"
    places = 0 if size >= 99.95 else 1 if size >= 9.995 else 2 if size >= 0.9995 else 3
    return f"{value:.{places}f}" if size >= 0.001 else f"{value:.1e}"


def bytes_text(value: Any) -> str:
    """A number of bytes as text: 12.3 MiB, 512 B, 0 B; a dash where it is not known."""
    size = number(value)
    if math.isnan(size):
        return NOTHING
    unit = 0
    while abs(size) >= 1023.5 and unit < len(BYTE_UNITS) - 1:
        size, unit = size / 1024, unit + 1
    return f"{size:.0f} B" if unit == 0 else f"{digits(size)} {BYTE_UNITS[unit]}"


def seconds_text(value: Any) -> str:
    """A time as text: 85 µs, 42.1 ms, 0.42 s, 12.3 s, 3 min 20 s, 2 h 05 min; a dash where it is not known."""
    seconds = number(value)
    if math.isnan(seconds):
        return NOTHING
    if seconds < 0.0995:
        return f"{digits(seconds * 1e3)} ms" if seconds >= 0.9995e-3 or seconds == 0 else f"{digits(seconds * 1e6)} µs"
    if seconds < 9.995:
        return f"{seconds:.2f} s"
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def percent_text(value: Any) -> str:
    """A fraction as per cent with one decimal: 79.1%."""
    fraction = number(value)
    return NOTHING if math.isnan(fraction) else f"{fraction * 100:.1f}%"


def number_text(value: Any) -> str:
    """A number with about three significant digits; a dash where it is not known."""
    plain = number(value)
    return NOTHING if math.isnan(plain) else digits(plain)


def count_text(value: Any) -> str:
    """A whole number with thousands separated: 63,620."""
    plain = number(value)
    return NOTHING if math.isnan(plain) else f"{plain:,.0f}"


def plural(count: Any, word: str) -> str:
    """A count with its word: 1 worker, 2 workers."""
    return f"{count_text(count)} {word}{'' if number(count) == 1 else 's'}"


def metric_words(metric: str) -> str:
    """The metric's name inside a sentence."""
    return METRICS.get(metric, metric)


def is_share(metric: str) -> bool:
    """Whether the metric is a fraction, which is shown in per cent; an error or R2 is no fraction."""
    return metric not in NO_SHARE


def metric_text(metric: str, value: Any) -> str:
    """A value of the metric: 79.1%, or 0.412 where it is no fraction."""
    return percent_text(value) if is_share(metric) else number_text(value)


def capitalised(words: str) -> str:
    """The words with a capital first letter; the other letters stay as they are."""
    return words[:1].upper() + words[1:]
