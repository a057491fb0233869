"""The step of delta coding's memory: two products and a sum, rounded one by one, whichever implementation runs."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from halowire.kernels import delta_step
from tests.support.choices import CHOICES, use


@pytest.mark.parametrize("choice", CHOICES)
@pytest.mark.parametrize("gain", [1.0, 0.3])
@pytest.mark.parametrize("columns", [None, [4, 0, 17]])
def test_every_operation_is_rounded(choice: str, gain: float, columns: list[int] | None) -> None:
    generator = torch.Generator().manual_seed(1)
    kept = torch.randn(70, 24, generator=generator)[:, :19]
    at = torch.arange(19) if columns is None else torch.tensor(columns)
    values = torch.randn(70, at.numel(), generator=generator)
    before = kept.numpy().copy()
    with use(choice):
        delta_step(kept, values, 0.9, gain, None if columns is None else at)
    want = before.copy()
    want[:, at.numpy()] = before[:, at.numpy()] * np.float32(0.9) + values.numpy() * np.float32(gain)
    assert np.array_equal(kept.numpy(), want)
