"""Squeezed values come back as they were, in fewer bytes where they have a pattern; damage is told, not unpacked."""

from __future__ import annotations

import zlib

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from halowire.wire.squeeze import columns_of, fill, gaps, squeeze

KINDS = [torch.float32, torch.bfloat16, torch.int16, torch.int32]


def some_values(kind: torch.dtype, count: int, seed: int = 0) -> Tensor:
    draw = torch.Generator().manual_seed(seed)
    return (torch.randn(count, generator=draw) * 100).round().to(kind)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("count", [0, 1, 7, 1000])
def test_values_come_back(kind: torch.dtype, count: int) -> None:
    values = some_values(kind, count)
    data = squeeze(values)
    found = torch.zeros_like(values)
    assert len(data) <= values.numel() * values.element_size()
    assert fill(found, data) and torch.equal(found, values)


def test_rows_of_several_columns_come_back() -> None:
    values = torch.arange(60, dtype=torch.float32).view(12, 5)
    found = torch.zeros(12, 5)
    assert fill(found, squeeze(values)) and torch.equal(found, values)


def test_small_numbers_shrink_and_noise_stays() -> None:
    lengths = torch.randint(0, 30, (5000,), dtype=torch.int32, generator=torch.Generator().manual_seed(0))
    noise = torch.randint(-(2**31), 2**31, (5000,), dtype=torch.int64, generator=torch.Generator().manual_seed(0))
    assert len(squeeze(lengths)) < lengths.numel() * 4 / 3
    assert len(squeeze(noise.to(torch.int32))) == noise.numel() * 4


@given(st.lists(st.lists(st.integers(0, 200), max_size=8, unique=True), max_size=6))
def test_columns_are_found_from_their_gaps(rows: list[list[int]]) -> None:
    columns = torch.tensor([column for row in rows for column in row], dtype=torch.int16)
    lengths = torch.tensor([len(row) for row in rows], dtype=torch.int64)
    assert torch.equal(columns_of(gaps(columns, lengths), lengths), columns.long())


def test_gaps_are_the_distances_within_a_row() -> None:
    columns, lengths = torch.tensor([3, 5, 9, 2, 4]), torch.tensor([3, 0, 2])
    assert gaps(columns, lengths).tolist() == [3, 2, 4, 2, 2]


def test_a_stream_that_would_unpack_to_more_is_refused_before_it_does() -> None:
    values = torch.zeros(1000)
    bomb = zlib.compress(bytes(10**8), 9)[: 4 * 1000 - 1]
    assert not fill(values, bomb) and not values.any()


@given(st.binary(max_size=100), st.integers(0, 40))
def test_any_bytes_fill_or_are_refused(data: bytes, count: int) -> None:
    values = torch.zeros(count, dtype=torch.int32)
    if not fill(values, data):
        assert not values.any()


@given(st.integers(0, 200), st.integers(1, 255))
def test_a_changed_stream_is_never_taken_for_the_old_values(place: int, change: int) -> None:
    values = torch.arange(1000, dtype=torch.int32) // 10
    data = bytearray(squeeze(values))
    data[place % len(data)] ^= change
    found = torch.zeros_like(values)
    if fill(found, bytes(data)):  # a few bits of a deflated stream say nothing
        assert torch.equal(found, values)
