"""Weight gradients of all parameters in one flat buffer, so that one reduction carries them all."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from halowire.exchange import Transport


class FlatGradients:
    """Makes every ``parameter.grad`` a view of one float32 buffer that ends with two numbers more.

    The two are the loss and a flag; reduced together with the gradients, they cost no message of their own. The flag
    counts the workers that were asked to stop, so that all of them stop after the same epoch.
    """

    def __init__(self, parameters: list[nn.Parameter]) -> None:
        sizes = [p.numel() for p in parameters]
        self._buffer = torch.zeros(sum(sizes) + 2, device=parameters[0].device)
        self.gradients = self._buffer[:-2]
        for parameter, piece in zip(parameters, self.gradients.split(sizes), strict=True):
            parameter.grad = piece.view_as(parameter)

    def zero(self) -> None:
        """Forget the last epoch."""
        self._buffer.zero_()

    def reduce(self, loss: Tensor, stop: bool, transport: Transport, where: str) -> tuple[float, bool]:
        """Sum over all workers; the global loss, and whether any worker wants to stop."""
        self._buffer[-2] = loss
        self._buffer[-1] = float(stop)
        transport.all_reduce(self._buffer, where)
        return float(self._buffer[-2]), bool(self._buffer[-1] > 0)

    def clip(self, largest: float) -> None:
        """Scale the whole gradient down to the norm ``largest``, if it is longer."""
        if largest > 0:
            norm = torch.linalg.vector_norm(self.gradients)
            self.gradients.mul_(torch.clamp(largest / (norm + 1e-12), max=1.0))


def broadcast_parameters(parameters: list[nn.Parameter], transport: Transport) -> None:
    """Give every worker rank 0's weights, in one message."""
    with torch.no_grad():
        flat = torch.cat([p.reshape(-1) for p in parameters])
        transport.broadcast(flat, "broadcast of the weights")
        for parameter, piece in zip(parameters, flat.split([p.numel() for p in parameters]), strict=True):
            parameter.copy_(piece.view_as(parameter))
