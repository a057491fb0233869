"""Numbers of the host and of the device in one vector on the device, without a wait of the host."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from halowire.kernels import sent_over


def vector_on(device: torch.device, values: Sequence[float | Tensor]) -> Tensor:
    """``values`` as a float32 vector on ``device``: numbers, and tensors without a dimension that are there already."""
    found = sent_over(torch.tensor([0.0 if isinstance(value, Tensor) else value for value in values]), device)
    for place, value in enumerate(values):
        if isinstance(value, Tensor):
            found[place] = value
    return found
