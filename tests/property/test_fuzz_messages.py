"""Messages of any bytes: they decode to rows of the right shape, or are refused; sums stay inside their arrays."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from halowire.errors import MessageError
from halowire.kernels import Csr
from halowire.wire import Rate, codec_of
from halowire.wire.graded import Graded
from tests.support.fuzzing import examples

fuzz = settings(deadline=None, max_examples=4 * examples())
rates = st.sampled_from([
    Rate(32), Rate(16), Rate(8), Rate(4), Rate(2), Rate(1), Rate(4, "levels"), Rate(2, "levels"), Rate(1, "levels"),
    Rate(1, "clipped"),
])  # fmt: skip


def message(data: bytes) -> torch.Tensor:
    return torch.frombuffer(bytearray(data), dtype=torch.uint8) if data else torch.empty(0, dtype=torch.uint8)


@fuzz
@given(st.data(), rates, st.integers(0, 9), st.integers(1, 70))
def test_any_bytes_of_the_right_length_are_rows(data, rate, rows, columns):
    codec = codec_of(rate)
    size = rows * codec.row_bytes(columns)
    sent = message(data.draw(st.binary(min_size=size, max_size=size)))
    decoded = codec.decode(sent, columns)
    assert decoded.shape == (rows, columns) and decoded.dtype == torch.float32
    matrix = Csr.from_edges(torch.arange(rows), torch.arange(rows), rows + 1, rows)
    total = torch.zeros(rows + 1, columns)
    codec.aggregate(matrix, sent, columns, total)
    assert not total[-1].any(), "a row without edges stays as it was"


@fuzz
@given(rates, st.binary(max_size=200), st.integers(1, 70))
def test_any_bytes_of_another_length_are_refused(rate, data, columns):
    codec = codec_of(rate)
    if len(data) % codec.row_bytes(columns):
        with pytest.raises(MessageError, match="the message was cut off"):
            codec.decode(message(data), columns)
    else:
        assert codec.decode(message(data), columns).shape == (len(data) // codec.row_bytes(columns), columns)


@fuzz
@given(st.data(), st.sampled_from([1, 2, 4]), st.lists(st.integers(0, 6), min_size=1, max_size=3), st.integers(1, 40))
def test_graded_messages(data, bits, counts, columns):
    codec = Graded(torch.arange(float(sum(counts))), tuple(counts), Rate(bits))
    size = sum(codec.sizes(counts, columns))
    length = data.draw(st.one_of(st.just(size), st.just(2 * size), st.integers(0, 2 * size + 8)))
    sent = message(data.draw(st.binary(min_size=length, max_size=length)))
    if length == size:
        assert codec.decode(sent, columns).shape == (sum(counts), columns)
    else:
        with pytest.raises(MessageError, match="the message was cut off"):
            codec.decode(sent, columns)
