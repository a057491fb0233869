"""Rows as bytes: sizes, layout, degenerate rows, targets and refusals, whichever implementation runs."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from halowire.errors import InputError
from halowire.kernels import Packing, aggregate_packed, pack_rows, stream_key, unpack_rows
from tests.support.choices import CHOICES, use

CODES = [(1, "minmax"), (1, "clipped"), (1, "levels"), (2, "levels"), (4, "levels")]
QUANTISED = [*(Packing(*code) for code in CODES), Packing(2), Packing(4), Packing(8)]
PACKINGS = [*QUANTISED, Packing(16)]
STREAM = stream_key(1, 2, 3)


def packed(x: Tensor, packing: Packing) -> Tensor:
    """The bytes of the rows of ``x``, one after the other."""
    out = torch.full((x.shape[0], packing.row_bytes(x.shape[1])), 0xAA, dtype=torch.uint8)
    pack_rows(x, packing, STREAM, torch.arange(x.shape[0]), out)
    return out


def decoded(values: list[float], packing: Packing) -> Tensor:
    """One row, packed and unpacked."""
    return unpack_rows(packed(torch.tensor([values]), packing), packing, len(values))[0]


def test_sizes_are_those_of_the_design() -> None:
    assert [Packing(b).row_bytes(128) for b in (1, 2, 4, 8, 16)] == [20, 36, 68, 132, 256]
    assert [Packing(b).row_bytes(256) for b in (1, 2, 4, 8, 16)] == [36, 68, 132, 260, 512]
    assert [Packing(1, "levels").row_bytes(k) for k in (1, 8, 9, 47)] == [5, 5, 6, 10]
    assert [Packing(4).row_bytes(k) for k in (1, 2, 3)] == [5, 5, 6]


@pytest.mark.parametrize("choice", CHOICES)
def test_layout_byte_by_byte(choice: str) -> None:
    row = torch.tensor([[1.0, 3.0, 3.0, 1.0, 1.0, 1.0, 1.0, 3.0, 3.0, 1.0]])
    with use(choice):
        one, two, half = (packed(row, p)[0].tolist() for p in (Packing(1), Packing(2), Packing(16)))
        levels = packed(row, Packing(1, "levels"))[0].tolist()
    assert one == levels == [0x80, 0x3F, 0x40, 0x40, 0b10000110, 0b01]
    assert two == [0x80, 0x3F, 0x40, 0x40, 0b00111100, 0b11000000, 0b0011]
    assert half[:4] == [0x80, 0x3F, 0x40, 0x40]


@pytest.mark.parametrize("choice", CHOICES)
@pytest.mark.parametrize("packing", PACKINGS, ids=str)
@pytest.mark.parametrize("value", [0.0, -0.0, 1.0, 0.3, -7.7, 1e-45, -3e-39, 1e-38, 2e30, -3.3e38, 3.4e38])
def test_constant_rows_come_back_within_one_bf16_step(choice: str, packing: Packing, value: float) -> None:
    if packing.bits == 16 and value == 3.4e38:
        value = 3.38e38  # bf16 itself rounds the largest float32 to infinity
    with use(choice):
        found = decoded([value] * 21, packing)
    assert bool(found.isfinite().all())
    assert float((found.double() - value).abs().max()) <= abs(value) * 2.0**-7 + 2.0**-133


@pytest.mark.parametrize("choice", CHOICES)
@pytest.mark.parametrize("packing", QUANTISED, ids=str)
def test_extreme_rows_stay_finite(choice: str, packing: Packing) -> None:
    rows = [
        [1e-45, 0.0, -1e-45],
        [1e-39, 2e-39, -1e-39],
        [3e38, -3e38, 1.0],
        [3.4e38, -3.4e38],
        [1e38] * 40 + [-1e38] * 24,
        [3e38] * 64 + [0.0],
        [1.0, 1.0 + 2.0**-23],
    ]
    with use(choice):
        for values in rows:
            found = decoded(values, packing)
            assert bool(found.isfinite().all()), values
            assert float(found.max()) <= max(values) + abs(max(values)) * 2.0**-7 + 2.0**-133
            assert float(found.min()) >= min(values) - abs(min(values)) * 2.0**-7 - 2.0**-133


@pytest.mark.parametrize("choice", CHOICES)
@pytest.mark.parametrize("packing", QUANTISED, ids=str)
@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf"), -float("nan")])
def test_divergence_shows(choice: str, packing: Packing, value: float) -> None:
    with use(choice):
        data = packed(torch.tensor([[1.0, value, 2.0], [1.0, 1.5, 2.0]]), packing)
        found = unpack_rows(data, packing, 3)
        total = aggregate_packed(torch.tensor([0, 1, 2]), torch.tensor([0, 1]), None, data, packing, 3)
    for rows in (found, total):
        assert bool(rows[0].isnan().all())
        assert bool(rows[1].isfinite().all())


@pytest.mark.parametrize("choice", CHOICES)
def test_two_levels_are_the_means_on_either_side(choice: str) -> None:
    with use(choice):
        found = decoded([0.0, 1.0, 2.0, 9.0], Packing(1, "levels"))
    assert found.tolist() == [1.0, 1.0, 1.0, 9.0]


@pytest.mark.parametrize("choice", CHOICES)
@pytest.mark.parametrize("packing", PACKINGS, ids=str)
def test_a_row_goes_to_all_its_targets(choice: str, packing: Packing) -> None:
    x, size = torch.randn(4, 13), packing.row_bytes(13)
    indptr, positions = torch.tensor([0, 2, 2, 5, 6]), torch.tensor([6, 0, 1, 5, 2, 3])
    out = torch.full((8 * size + 3,), 0xAA, dtype=torch.uint8)
    with use(choice):
        plain = packed(x, packing)
        for kind in (torch.int64, torch.int32):
            pack_rows(x, packing, STREAM, torch.arange(4), out, targets=(indptr, positions.to(kind)))
            rows = out[: 8 * size].view(8, size)
            for place, row in ((6, 0), (0, 0), (1, 2), (5, 2), (2, 2), (3, 3)):
                assert torch.equal(rows[place], plain[row])
            assert bool((rows[[4, 7]] == 0xAA).all())
            assert bool((out[8 * size :] == 0xAA).all())
            out.fill_(0xAA)


@pytest.mark.parametrize("choice", CHOICES)
@pytest.mark.parametrize("packing", PACKINGS, ids=str)
def test_nothing_in_nothing_out(choice: str, packing: Packing) -> None:
    none = torch.empty(0, dtype=torch.uint8)
    with use(choice):
        pack_rows(torch.empty(0, 7), packing, STREAM, torch.empty(0, dtype=torch.int64), none)
        assert unpack_rows(none, packing, 7).shape == (0, 7)
        assert packed(torch.empty(3, 0), packing).shape == (3, packing.row_bytes(0))
        assert unpack_rows(torch.zeros(3, packing.row_bytes(0), dtype=torch.uint8), packing, 0).shape == (3, 0)
        empty = torch.zeros(3, dtype=torch.int64), torch.empty(0, dtype=torch.int32), None
        assert aggregate_packed(*empty, none, packing, 5).tolist() == [[0.0] * 5] * 2


@pytest.mark.parametrize("choice", CHOICES)
def test_what_does_not_fit_is_refused(choice: str) -> None:
    x, ids, out = torch.randn(3, 8), torch.arange(3), torch.empty(3, 5, dtype=torch.uint8)
    one = Packing(1)
    with use(choice):
        for arguments, words in (
            ((x, one, STREAM, ids[:2], out), "ids is"),
            ((x.double(), one, STREAM, ids, out), "x is"),
            ((x, one, STREAM, ids, out.float()), "out is"),
            ((x, one, STREAM, ids, out[:2]), "out holds only 2 rows of 5 bytes"),
            ((x, one, STREAM, ids, out, torch.tensor([8], dtype=torch.int32)), "columns 8 to 8"),
            ((x, one, STREAM, ids, out, torch.tensor([-1], dtype=torch.int32)), "columns -1 to -1"),
            ((x, one, STREAM, ids, out, None, (torch.tensor([0, 1, 2, 4]), torch.tensor([0, 1, 2]))), "end at 4"),
        ):
            with pytest.raises(InputError, match=words):
                pack_rows(*arguments)
        with pytest.raises(InputError, match="data has 15 bytes"):
            unpack_rows(out, one, 17)
        with pytest.raises(InputError, match="no out was given"):
            aggregate_packed(torch.tensor([0]), ids, None, out, one, 8, accumulate=True)


@pytest.mark.parametrize("choice", CHOICES)
def test_a_position_outside_is_refused_or_left_out(choice: str) -> None:
    x, out = torch.randn(3, 8), torch.full((4, 5), 0xAA, dtype=torch.uint8)
    targets = torch.tensor([0, 1, 2, 3]), torch.tensor([0, 1, 3])
    with use(choice):
        arguments = x, Packing(1), STREAM, torch.arange(3), out[:3], None, targets
        if choice == "triton":  # to refuse it, the host would have to wait for the GPU
            pack_rows(*arguments)
            assert torch.equal(out[:2], packed(x, Packing(1))[:2])
            assert bool((out[2:] == 0xAA).all())
        else:
            with pytest.raises(InputError, match="positions 0 to 3"):
                pack_rows(*arguments)


def test_unknown_packings_are_refused() -> None:
    for arguments, words in (
        ((3,), "bits is 3"),
        ((1, "best"), "code is 'best'"),
        ((8, "levels"), "1, 2, 4 bits"),
    ):
        with pytest.raises(InputError, match=words):
            Packing(*arguments)
