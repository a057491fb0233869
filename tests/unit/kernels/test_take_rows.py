"""Gathering rows."""

from __future__ import annotations

import pytest
import torch

from halowire.errors import InputError
from halowire.kernels import empty, take_rows
from tests.support.choices import CHOICES, use


@pytest.mark.parametrize("choice", CHOICES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.bfloat16, torch.uint8])
@pytest.mark.parametrize("index_type", [torch.int32, torch.int64])
def test_takes_rows_of_any_type(choice: str, dtype: torch.dtype, index_type: torch.dtype) -> None:
    x = torch.randint(0, 100, (30, 47)).to(dtype)
    index = torch.randint(0, 30, (75,)).to(index_type)
    with use(choice):
        rows = take_rows(x, index)
    assert rows.is_contiguous()
    assert torch.equal(rows, x[index.long()])


@pytest.mark.parametrize("choice", CHOICES)
def test_strided_input_and_output(choice: str) -> None:
    padded = empty(30, 47)
    padded.copy_(torch.randn(30, 47))
    index = torch.tensor([29, 0, 7])
    with use(choice):
        assert torch.equal(take_rows(padded, index), padded[index])
        assert torch.equal(take_rows(padded.t(), torch.tensor([3, 1])), padded.t()[[3, 1]])
        out = torch.zeros(3, 60)
        take_rows(padded, index, out=out[:, :47])
    assert torch.equal(out[:, :47], padded[index])
    assert float(out[:, 47:].abs().sum()) == 0.0


@pytest.mark.parametrize("choice", CHOICES)
def test_no_rows(choice: str) -> None:
    with use(choice):
        assert take_rows(torch.randn(4, 3), torch.tensor([], dtype=torch.int64)).shape == (0, 3)
        assert take_rows(torch.randn(0, 3), torch.tensor([], dtype=torch.int64)).shape == (0, 3)


@pytest.mark.parametrize("choice", CHOICES)
@pytest.mark.parametrize("bad", [-1, 4])
def test_rows_that_do_not_exist_are_refused(choice: str, bad: int) -> None:
    with use(choice), pytest.raises(InputError, match="only 4 rows"):
        take_rows(torch.randn(4, 3), torch.tensor([0, bad]))
