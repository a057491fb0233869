"""Rates as written become the bucket that holds them."""

from __future__ import annotations

import pytest
from bench.netlab.rate import FRAME, burst_bytes, parse_rate, queue_bytes, segment_bytes, shaping


@pytest.mark.parametrize(
    ("text", "bits"),
    [("10mbit", 10e6), ("1.5gbit", 1.5e9), ("250kbit", 250e3), ("1 GBit", 1e9), ("1000000", 1e6), ("100000bit", 1e5)],
)
def test_rates_are_bits_per_second(text, bits):
    assert parse_rate(text) == bits


@pytest.mark.parametrize("text", ["", "fast", "10mbps", "10mb", "-5mbit", "10 mbit extra", "1e9", "none"])
def test_other_words_are_refused_with_an_example(text):
    with pytest.raises(ValueError, match=r"for example 100mbit"):
        parse_rate(text)


@pytest.mark.parametrize("text", ["0", "1kbit", "101gbit"])
def test_rates_that_cannot_be_shaped_are_refused(text):
    with pytest.raises(ValueError, match="100kbit to 100gbit"):
        parse_rate(text)


@pytest.mark.parametrize("rate", [10**5, 10**7, 10**8, 10**9, 2 * 10**9, 10**11])
def test_a_bucket_holds_whole_segments_and_a_queue_holds_the_bucket(rate):
    assert 2 * FRAME <= segment_bytes(rate) <= burst_bytes(rate) // 2
    assert queue_bytes(rate) > burst_bytes(rate) >= rate / 8 / 500
    assert shaping(rate) == f"tbf rate {rate}bit burst {burst_bytes(rate)} limit {queue_bytes(rate)}"
