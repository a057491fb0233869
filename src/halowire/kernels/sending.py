"""Tensors of the host on their way to a device, without a wait of the host."""

from __future__ import annotations

import torch
from torch import Tensor

MOST_PINNED = 64 << 20
"""Most bytes that travel from a pinned copy: torch keeps pinned memory to the end, for the next copy."""


def sent_over(values: Tensor, device: torch.device) -> Tensor:
    """``values`` of the host on ``device``; the host goes on at once, and may change them.

    They travel from a pinned copy, which torch keeps until the device has read it: from other memory the driver may let
    the host wait until it has staged them. Larger tensors, such as the edges of a part, do without: they are sent
    before the first epoch.
    """
    if device.type == "cpu" or values.device.type != "cpu":
        return values.to(device)
    if values.nbytes > MOST_PINNED:
        return values.to(device, non_blocking=True)
    return torch.empty_like(values, pin_memory=True).copy_(values).to(device, non_blocking=True)
