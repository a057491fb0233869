"""Numbers as people read them."""

from __future__ import annotations

import math

import pytest

from halowire.report import bytes_text
from halowire.report.units import count_text, metric_words, number, percent_text, seconds_text, share


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
