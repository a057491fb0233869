"""The random generator of the simulated device, apart from that of the CPU, as every GPU has one of its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor


class DeviceGenerator:
    """Draws what operations of the device draw; ``torch.manual_seed`` seeds it like all other generators."""

    def __init__(self) -> None:
        self.state: Tensor
        self.seed(0)

    def seed(self, number: int) -> None:
        """Begin anew, with the numbers that the CPU's generator has after the same seed."""
        self.state = torch.Generator().manual_seed(number).get_state()

    @contextmanager
    def drawing(self) -> Iterator[None]:
        """Let operations in the block draw from this generator; the CPU's stays where it is."""
        host = torch.get_rng_state()
        torch.set_rng_state(self.state)
        try:
            yield
        finally:
            self.state = torch.get_rng_state()
            torch.set_rng_state(host)
