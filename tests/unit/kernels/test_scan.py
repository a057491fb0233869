"""The scan finds the first bad value wherever it stands, and nothing in good arrays; native code and twin agree."""

from __future__ import annotations

import pytest
import torch

from halowire.errors import InputError
from halowire.kernels import first_outside
from halowire.kernels.scan import WHOLE, first_outside_twin

SIZES = (0, 1, 7, 64, 2048, 2049, 5000)


@pytest.mark.parametrize("dtype", WHOLE)
@pytest.mark.parametrize("size", SIZES)
def test_values_outside_a_range(dtype: torch.dtype, size: int) -> None:
    good = torch.arange(size).remainder(2).to(dtype)
    assert first_outside(good, 0, 2) is None
    for place in {0, size // 2, size - 1} & set(range(size)):
        for value in (2, 255) if dtype in (torch.uint8, torch.bool) else (2, -1, 2**31 - 1, -(2**31)):
            bad = good.clone()
            (bad.view(torch.uint8) if dtype == torch.bool else bad)[place] = value
            assert first_outside(bad, 0, 2) == first_outside_twin(bad, 0, 2) == place


def test_ranges_at_the_ends_of_whole_numbers() -> None:
    ends = torch.tensor([0, 2**63 - 1, -(2**63), -1])
    assert first_outside(ends, 0, 2**63 - 1) == first_outside_twin(ends, 0, 2**63 - 1) == 1
    assert first_outside(ends, -(2**63), 0) == first_outside_twin(ends, -(2**63), 0) == 0
    assert first_outside(ends[:1], 0, 0) == first_outside_twin(ends[:1], 0, 0) == 0
    assert first_outside(ends[:0], 0, 0) is None
    assert first_outside(torch.tensor([-1, 3, 4], dtype=torch.int32), -1, 4) == 2


@pytest.mark.parametrize("high", [2**31, 2**32, 2**33, 2**40, 2**63 - 1])
def test_ranges_that_a_narrow_type_cannot_hold(high: int) -> None:
    values = torch.tensor([2**31 - 1, 0, -1], dtype=torch.int32)
    assert first_outside(values, 0, high) == first_outside_twin(values, 0, high) == 2
    assert first_outside(values, -high, 1) == first_outside_twin(values, -high, 1) == 0
    assert first_outside(values[1:], -high, 1) is None
    assert first_outside(values.to(torch.uint8), 0, high) is None


def test_other_types_are_refused() -> None:
    with pytest.raises(InputError, match=r"values is torch\.float32 \[2\]"):
        first_outside(torch.ones(2), 0, 2)
    with pytest.raises(InputError, match="contiguous"):
        first_outside(torch.arange(6)[::2], 0, 6)
