"""Codecs: sizes as the formula says, decode(encode) as defined, errors that shrink with the rate."""

from __future__ import annotations

import math

import pytest
import torch

from halowire.errors import InputError
from halowire.kernels import Csr
from halowire.wire import Rate, Source, codec_of, column_subset


def through(rate: Rate, rows: torch.Tensor, columns: torch.Tensor | None = None, stream: int = 7) -> torch.Tensor:
    codec, count = codec_of(rate), rows.shape[1] if columns is None else columns.numel()
    data = torch.empty(len(rows) * codec.row_bytes(count), dtype=torch.uint8)
    codec.encode(rows, Source(torch.arange(len(rows)), None, None, columns, stream), data)
    return codec.decode(data, count)


@pytest.mark.parametrize("columns", [1, 7, 47, 128, 256])
def test_sizes(columns):
    assert codec_of(Rate(32)).row_bytes(columns) == 4 * columns
    assert codec_of(Rate(16)).row_bytes(columns) == 2 * columns
    for bits in (8, 4, 2, 1):
        assert codec_of(Rate(bits)).row_bytes(columns) == math.ceil(bits * columns / 8) + 4
    assert codec_of(Rate(1, "levels")).row_bytes(columns) == math.ceil(columns / 8) + 4


def test_sylvies_table_of_sizes():
    table = {128: (512, 20, 36, 68, 132), 256: (1024, 36, 68, 132, 260), 512: (2048, 68, 132, 260, 516)}
    for columns, sizes in table.items():
        assert tuple(codec_of(Rate(bits)).row_bytes(columns) for bits in (32, 1, 2, 4, 8)) == sizes


@pytest.mark.parametrize("rate", [Rate(32), Rate(16), Rate(8), Rate(1), Rate(1, "levels"), Rate(2, "levels")], ids=str)
def test_a_message_to_several_peers(rate):
    rows = torch.randn(6, 21, generator=torch.Generator().manual_seed(1))
    index = torch.tensor([4, 0, 4, 5])
    targets = Csr.from_edges(index, torch.arange(4), 6, 4)
    codec = codec_of(rate)
    data = torch.empty(4 * codec.row_bytes(21), dtype=torch.uint8)
    codec.encode(rows, Source(torch.arange(6), index, targets, None, 3), data)
    got = codec.decode(data, 21)
    assert torch.equal(got, through(rate, rows, stream=3)[index]), "a row is the same for every peer"
    total = torch.zeros(2, 21)
    matrix = Csr.from_edges(torch.tensor([0, 0, 1]), torch.tensor([0, 3, 2]), 2, 4, torch.tensor([0.5, 2.0, 1.0]))
    codec.aggregate(matrix, data, 21, total)
    torch.testing.assert_close(total, matrix.to_dense() @ got, rtol=1e-5, atol=1e-5)


def test_errors_shrink_as_bits_rise():
    rows = torch.randn(200, 64, generator=torch.Generator().manual_seed(2))
    errors = [float((through(Rate(bits), rows) - rows).square().mean()) for bits in (1, 2, 4, 8, 16, 32)]
    assert errors == sorted(errors, reverse=True) and errors[-1] == 0
    levels = float((through(Rate(1, "levels"), rows) - rows).square().mean())
    assert levels < errors[0] / 2, "two levels beat the ends of the row at the same size"


def test_errors_shrink_as_columns_rise():
    rows = torch.randn(200, 64, generator=torch.Generator().manual_seed(2))
    errors = []
    for ratio in (64, 16, 4, 2, 1):
        columns = column_subset(64, Rate(ratio=ratio).columns(64), seed=1, epoch=0, layer=1)
        seen = torch.zeros_like(rows)
        chosen = torch.arange(64) if columns is None else columns
        seen[:, chosen] = through(Rate(ratio=ratio), rows, columns)
        errors.append(float((seen - rows).square().mean()))
    assert errors == sorted(errors, reverse=True) and errors[-1] == 0


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"bits": 3}, "3 bits"),
        ({"ratio": 0.5}, "ratio"),
        ({"bits": 8, "code": "levels"}, "1, 2, 4 bits"),
        ({"code": "best"}, "unknown"),
    ],
)
def test_impossible_rates_are_refused(settings, words):
    with pytest.raises(InputError, match=words):
        Rate(**settings)


EVERY = [
    Rate(32), Rate(16), Rate(8), Rate(4), Rate(2), Rate(1), Rate(1, "levels"), Rate(2, "levels"), Rate(4, "levels"),
    Rate(1, "clipped"),
]  # fmt: skip


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("rate", EVERY, ids=str)
def test_a_row_that_is_not_finite_stays_so_and_spoils_no_other_row(rate, bad):
    """However few bits travel: a receiver must not get a number in the place of NaN or infinity."""
    rows = torch.randn(5, 21, generator=torch.Generator().manual_seed(1))
    for column in (0, 15, 20):
        spoilt = rows.clone()
        spoilt[2, column] = bad
        got = through(rate, spoilt)
        assert not bool(torch.isfinite(got[2]).all())
        assert bool(torch.isfinite(got[[0, 1, 3, 4]]).all())
        codec = codec_of(rate)
        data = torch.empty(5 * codec.row_bytes(21), dtype=torch.uint8)
        codec.encode(spoilt, Source(torch.arange(5), None, None, None, 7), data)
        total = torch.zeros(2, 21)
        codec.aggregate(Csr.from_edges(torch.tensor([0, 0, 1]), torch.tensor([1, 2, 3]), 2, 5), data, 21, total)
        assert not bool(torch.isfinite(total[0]).all()) and bool(torch.isfinite(total[1]).all())
