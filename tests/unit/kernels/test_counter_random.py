"""The counter-based random bits: reproducible, uniform, unrelated between rows, columns, epochs and streams."""

from __future__ import annotations

import torch

from halowire.kernels import Drop, row_keys, stream_key, uniform_bits
from halowire.kernels.counter_random import MASK_64, drop_factor, mix


def correlation(a: torch.Tensor, b: torch.Tensor) -> float:
    """Pearson's, of all elements."""
    return float(torch.corrcoef(torch.stack([a.double().flatten(), b.double().flatten()]))[0, 1])


def test_keys_equal_the_formula_on_python_integers() -> None:
    ids = [0, 1, 2**40 + 3, 63_619]
    stream = stream_key(7, 11, 2, 1)
    expected = [mix((stream + i * 0x9E3779B97F4A7C15) & MASK_64) for i in ids]
    assert [key & MASK_64 for key in row_keys(7, 11, 2, torch.tensor(ids), stream=1).tolist()] == expected


def test_bits_do_not_depend_on_the_other_rows_or_columns() -> None:
    whole = uniform_bits(row_keys(1, 2, 3, torch.arange(100)), 40)
    some = uniform_bits(row_keys(1, 2, 3, torch.tensor([99, 5])), 7)
    assert torch.equal(some, whole[[99, 5], :7])


def test_bits_are_uniform() -> None:
    bits = uniform_bits(row_keys(0, 0, 0, torch.arange(4000)), 256)
    assert int(bits.min()) >= 0
    assert int(bits.max()) < 2**32
    counts = torch.bincount((bits >> 24).flatten(), minlength=256).double()
    expected = bits.numel() / 256
    chi_square = float(((counts - expected) ** 2 / expected).sum())
    assert abs(chi_square - 255) < 6 * (2 * 255) ** 0.5


def test_neighbouring_counters_are_unrelated() -> None:
    bits = uniform_bits(row_keys(0, 0, 0, torch.arange(4000)), 256)
    bound = 5 / bits.numel() ** 0.5
    assert abs(correlation(bits[1:], bits[:-1])) < bound
    assert abs(correlation(bits[:, 1:], bits[:, :-1])) < bound
    for other in (row_keys(1, 0, 0, torch.arange(4000)), row_keys(0, 1, 0, torch.arange(4000))):
        assert abs(correlation(bits, uniform_bits(other, 256))) < bound
    assert abs(correlation(bits, uniform_bits(row_keys(0, 0, 0, torch.arange(4000), stream=1), 256))) < bound


def test_dropout_keeps_the_expected_share_and_the_mean() -> None:
    for p in (0.1, 0.5, 0.9):
        factor = drop_factor(Drop(p, 0, 0, 0, torch.arange(2000)), 256)
        assert abs(float((factor == 0).float().mean()) - p) < 5 * (p * (1 - p) / factor.numel()) ** 0.5
        assert abs(float(factor.mean()) - 1) < 0.02
