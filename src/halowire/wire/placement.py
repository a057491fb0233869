"""Numbers of the host brought to the device of the rows, without a wait of the host."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def sent_over(values: Tensor, device: torch.device) -> Tensor:
    """``values`` of the host on ``device``; the host goes on at once, and may change them."""
    return values.to(device, non_blocking=device.type != "cpu")


def vector_on(device: torch.device, values: Sequence[float | Tensor]) -> Tensor:
    """``values`` as a float32 vector on ``device``: numbers, and tensors without a dimension that are there already."""
    found = sent_over(torch.tensor([0.0 if isinstance(value, Tensor) else value for value in values]), device)
    for place, value in enumerate(values):
        if isinstance(value, Tensor):
            found[place] = value
    return found
