"""Weight gradients of all parameters in one flat buffer, so that one reduction carries them all."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from halowire.exchange import GradientCodec, Transport


class FlatGradients:
    """Makes every ``parameter.grad`` a view of one float32 buffer that ends with ``extras`` numbers more.

    The extras (the loss, the wish to stop, what the console shows) are summed together with the gradients and so cost
    no message of their own.
    """

    def __init__(self, parameters: list[nn.Parameter], extras: int) -> None:
        sizes = [p.numel() for p in parameters]
        self._buffer = torch.zeros(sum(sizes) + extras, device=parameters[0].device)
        self.gradients, self._extras = torch.split(self._buffer, [sum(sizes), extras])
        for parameter, piece in zip(parameters, torch.split(self.gradients, sizes), strict=True):
            parameter.grad = piece.view_as(parameter)

    def zero(self) -> None:
        """Forget the last epoch."""
        self._buffer.zero_()

    def reduce(
        self,
        extras: Sequence[float],
        transport: Transport,
        where: str,
        codec: GradientCodec | None = None,
        epoch: int = 0,
        peers: Transport | None = None,
    ) -> list[float]:
        """Sum ``extras`` over all workers, the gradients over ``peers`` (by default all); the sums of the extras.

        The extras are never coded.
        """
        self._extras.copy_(torch.tensor(extras))
        peers = peers or transport
        if codec is None and peers is transport:
            transport.all_reduce(self._buffer, where)
            return [float(value) for value in self._extras]
        if codec is None:
            peers.all_reduce(self.gradients, where)
        else:
            codec.all_reduce(self.gradients, epoch, where)
        transport.all_reduce(self._extras, where)
        return [float(value) for value in self._extras]

    def clip(self, largest: float, line: Transport | None = None) -> None:
        """Scale the whole gradient down to the norm ``largest``, if it is longer; ``line`` holds the rest of it."""
        if largest > 0:
            norm = torch.linalg.vector_norm(self.gradients)
            if line is not None and line.size > 1:
                norm = line.all_reduce(norm.square()[None], "norm of the gradient")[0].sqrt()
            self.gradients.mul_(torch.clamp(largest / (norm + 1e-12), max=1.0))


def broadcast_parameters(parameters: list[nn.Parameter], transport: Transport) -> None:
    """Give every worker rank 0's weights, in one message."""
    with torch.no_grad():
        flat = torch.cat([p.reshape(-1) for p in parameters])
        transport.broadcast(flat, "broadcast of the weights")
        for parameter, piece in zip(parameters, torch.split(flat, [p.numel() for p in parameters]), strict=True):
            parameter.copy_(piece.view_as(parameter))
