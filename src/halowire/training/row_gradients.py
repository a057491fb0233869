"""Gradients of weights with a row for each node: every worker has the rows of its own nodes, and nothing is summed.

The exchange has returned all gradients of a row to its owner when backward ends, so these weights are no part of the
flat buffer that is reduced (`FlatGradients`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor, nn

from halowire.wire import Transport


class RowGradients:
    """Gives every one of ``parameters`` a dense gradient of zeros to add to, sparse ones too."""

    def __init__(self, parameters: Sequence[nn.Parameter], transport: Transport) -> None:
        self._transport = transport
        self._own = {id(parameter) for parameter in parameters}
        self.values: list[Tensor] = []
        for parameter in parameters:
            parameter.grad = torch.zeros_like(parameter)
            self.values.append(parameter.grad)

    def others(self, parameters: Iterable[nn.Parameter]) -> list[nn.Parameter]:
        """Those of ``parameters`` whose gradients are not kept here: all workers have them."""
        return [value for value in parameters if id(value) not in self._own]

    def zero(self) -> None:
        """Forget the gradients of the last epoch."""
        for grad in self.values:
            grad.zero_()

    def lost(self) -> Tensor | float:
        """1 if a gradient of this worker's rows is not finite, else 0."""
        return not_finite(self.values) if self.values else 0.0

    def squares(self) -> Tensor | None:
        """The sum of squares of all workers' rows, without a dimension; None where there are no such weights."""
        if not self.values:
            return None
        mine = torch.stack([grad.square().sum() for grad in self.values]).sum()[None]
        return self._transport.all_reduce(mine, "norm of the gradient")[0]

    def scale(self, factor: Tensor) -> None:
        """Multiply all gradients by ``factor``."""
        for grad in self.values:
            grad.mul_(factor)


def not_finite(tensors: Sequence[Tensor]) -> Tensor:
    """1 if a value of the ``tensors``, all on one device, is NaN or infinite, else 0; float32, without a dimension.

    It is found in one pass without a matrix of answers, and the host does not wait for it.
    """
    ends = [end for values in tensors if values.numel() for end in values.detach().aminmax()]  # NaN beats every number
    if not ends:
        return torch.zeros(())
    return (~torch.stack(ends).isfinite()).any().float()
