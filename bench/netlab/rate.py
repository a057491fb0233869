"""Link rates: what the user writes, and the token bucket that makes a link run at that rate."""

from __future__ import annotations

import re

UNITS = {"": 1.0, "bit": 1.0, "kbit": 1e3, "mbit": 1e6, "gbit": 1e9}
FRAME = 1514
"""Bytes of a full Ethernet frame as the kernel counts them: 1500 and the header."""
LARGEST_SEGMENT = 32768
"""Bytes; a connection keeps the size it was born with, and the bucket cuts what exceeds it, at the price of a core."""
SLOWEST, FASTEST = 1e5, 1e11


def parse_rate(text: str) -> int:
    """Bits per second of ``text``: 10mbit, 1.5gbit, 250kbit, or a plain number of bits."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([a-z]*)", text.strip().lower())
    if match is None or match[2] not in UNITS:
        # tc reads "mbps" as megabytes per second, nearly everyone else as megabits: better not to guess.
        raise ValueError(f"the rate {text!r} is not known; write a number with kbit, mbit or gbit, for example 100mbit")
    bits = float(match[1]) * UNITS[match[2]]
    if not SLOWEST <= bits <= FASTEST:
        raise ValueError(f"the rate {text!r} is outside the range that can be shaped: 100kbit to 100gbit")
    return round(bits)


def burst_bytes(rate: int) -> int:
    """Bytes that an idle link lets through at once: 2 ms of the rate, 16 ms where that is at most 2 segments, 8 frames.

    Less, and the bucket overflows while the kernel's timer sleeps, so the rate is missed, and short segments cost much
    of a core, which a network card's offload would spare it; more, and small messages travel for nothing.
    """
    return max(rate // 8 // 500, min(rate // 8 // 62, 2 * LARGEST_SEGMENT), 8 * FRAME)


def segment_bytes(rate: int) -> int:
    """Largest segment that TCP may hand to the link: half a burst, since the bucket has to cut what exceeds it."""
    return min(LARGEST_SEGMENT, burst_bytes(rate) // 2)


def queue_bytes(rate: int) -> int:
    """Length of the queue before the link: 50 ms of the rate and a burst, at least 128 KiB; what exceeds it is lost."""
    return max(rate // 8 // 20, 128 * 1024) + burst_bytes(rate)


def shaping(rate: int) -> str:
    """``rate`` as the arguments of ``tc qdisc replace ... root``."""
    return f"tbf rate {rate}bit burst {burst_bytes(rate)} limit {queue_bytes(rate)}"
