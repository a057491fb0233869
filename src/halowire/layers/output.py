"""The output of a deep model: logits from its last hidden rows."""

from __future__ import annotations

from torch import Tensor, nn

from halowire.layers.activation import Activation
from halowire.layers.dense import gradient_of
from halowire.layers.layer import Preparing, Work
from halowire.layers.rows import Kept


class Output(Preparing):
    """``logits = f(u) W^T + b``: the first half of a layer, after which nothing is aggregated."""

    def __init__(self, activation: Activation, weight: nn.Parameter, bias: nn.Parameter | None) -> None:
        """``weight`` is ``[classes, k]``, ``bias`` is ``[classes]``."""
        super().__init__(activation, weight.shape[0], weight, bias)
        self._weight = weight
        self._bias = bias

    @property
    def prepare_parameters(self) -> list[nn.Parameter]:
        """All parameters of the output."""
        return [*super().prepare_parameters, *([] if self._bias is None else [self._bias])]

    def prepare_weights(self, kept: Kept, a_grad: Tensor) -> None:
        """Add to the gradients of ``W`` and ``b``."""
        super().prepare_weights(kept, a_grad)
        if self._bias is not None:
            gradient_of(self._bias).add_(a_grad.sum(0))

    @property
    def work(self) -> Work:
        """One activation both ways and three products."""
        classes, width = self._weight.shape
        return Work(values=width, products=3 * classes * width)
