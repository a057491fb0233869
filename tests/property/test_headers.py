"""Headers and messages that are random, damaged or cut off: always a clear error, never a crash or a wrong result."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from halowire.errors import InputError, MessageError
from halowire.wire import FORWARD, HEADER_BYTES, Policy, Rate, StageLink, codec_of, run_threads
from halowire.wire.header import LAYOUT, Header, refuse_other

words = st.integers(0, 2**32 - 1)
headers = st.builds(
    Header, words, st.integers(0, 2**16 - 1), st.integers(0, 255), st.integers(0, 255), words, words
)  # fmt: skip


@given(st.binary(max_size=40))
def test_any_bytes_are_a_header_or_a_clear_error(data):
    if len(data) == HEADER_BYTES:
        assert LAYOUT.pack(*Header.read(data)) == data
    else:
        with pytest.raises(MessageError, match="a header has 16 bytes"):
            Header.read(data)


@given(headers, headers)
def test_two_headers_pass_only_if_they_are_equal(expected, came):
    refuse_other(expected, expected, 1, "here")
    if came != expected:
        with pytest.raises(MessageError, match=r"^at here, the message from rank 1 .*expected .*; .+"):
            refuse_other(expected, came, 1, "here")


@given(headers, st.integers(0, 8 * HEADER_BYTES - 1))
def test_a_flipped_bit_is_always_found(expected, bit):
    data = bytearray(LAYOUT.pack(*expected))
    data[bit // 8] ^= 1 << bit % 8
    with pytest.raises(MessageError):
        refuse_other(expected, Header.read(bytes(data)), 1, "here")


RATES = [Rate(32), Rate(16), Rate(8), Rate(4, "levels"), Rate(1), Rate(1, "clipped")]


@settings(deadline=None, max_examples=60)
@given(st.sampled_from(RATES), st.integers(0, 8 * HEADER_BYTES - 1), st.integers(0, 1))
def test_a_message_with_a_damaged_header_is_never_decoded(rate, bit, number):
    """The bit is flipped between the two ends of a stage link, in the header of one of its two chunks."""
    places, into = [slice(0, 3), slice(3, 7)], torch.full((7, 5), torch.nan)

    def work(transport):
        link = StageLink(transport, 1 - transport.rank, 2, 0, torch.arange(7), Policy(lambda *_: rate))
        if transport.rank == 0:
            _damage(transport, bit, number)
            for chunk, at in enumerate(places):
                link.send(torch.ones(7, 5)[at], chunk, at, FORWARD, 4)
            return
        for chunk, at in enumerate(places):
            link.expect(chunk, at, into, FORWARD, 4)
        for chunk, at in enumerate(places):
            link.take(chunk)
            link.unpack(at)

    with pytest.raises(MessageError, match=r"^at epoch 4, stage link into layer 2, forward, the message from rank 0 "):
        run_threads(2, work)
    assert into[places[number]].isnan().all(), "nothing was decoded"
    assert bool(into[places[0]].isnan().all()) == (number == 0), "the chunk before it was"


def _damage(transport, bit: int, number: int) -> None:
    put, seen = transport._hub.put, []

    def damaged(key, value):
        if key[0] == "header":
            if len(seen) == number:
                value = value.clone()
                value[bit // 8] ^= 1 << bit % 8
            seen.append(key)
        put(key, value)

    transport._hub.put = damaged


@given(st.sampled_from(RATES), st.integers(1, 9), st.binary(max_size=120))
def test_random_or_cut_off_rows_decode_to_rows_or_a_clear_error(rate, columns, data):
    codec, size = codec_of(rate), codec_of(rate).row_bytes(columns)
    given_bytes = torch.frombuffer(bytearray(data), dtype=torch.uint8) if data else torch.empty(0, dtype=torch.uint8)
    if len(data) % size:
        with pytest.raises((InputError, MessageError), match=f"{len(data)} bytes"):
            codec.decode(given_bytes, columns)
    else:
        assert codec.decode(given_bytes, columns).shape == (len(data) // size, columns)
