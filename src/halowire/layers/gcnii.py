"""GCNII (Chen et al. 2020): a deep model in which every layer also reads the initial rows."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from halowire.layers.activation import Activation
from halowire.layers.aggregation import Sum, symmetric_sum
from halowire.layers.dense import gradient_of
from halowire.layers.layer import Layer, Work
from halowire.layers.model import Deep, register
from halowire.layers.rows import Kept
from halowire.partitioning import Shard
from halowire.wire import HaloExchange

ALPHA, DECAY = 0.1, 0.5


class InitialLayer(Layer):
    """``u' = s M^T``, ``s = (1 - alpha) A v + alpha h_0``, ``M = (1 - theta) I + theta W``."""

    def __init__(self, number: int, activation: Activation, weight: nn.Parameter, alpha: float, theta: float) -> None:
        super().__init__(number, activation, weight.shape[1], weight.shape[0])
        self._weight = weight
        self._alpha = alpha
        self._theta = theta
        self._map = torch.empty(0)
        self._map_back = torch.empty(0)

    @property
    def finish_parameters(self) -> list[nn.Parameter]:
        """The weight ``W``."""
        return [self._weight]

    def begin(self) -> None:
        """Compute ``M`` and ``(1 - alpha) M`` for this pass: that is cheaper than scaling and adding rows."""
        self._map = self._weight.detach() * self._theta
        self._map.diagonal().add_(1 - self._theta)
        self._map_back = self._map * (1 - self._alpha)

    def mix(self, kept: Kept, initial: Tensor | None) -> None:
        """Write ``s`` to the memory of ``g``."""
        assert kept.g is not None and initial is not None
        kept.g.lerp_(initial, self._alpha)

    def finish(self, kept: Kept, out: Tensor) -> None:
        """``s M^T``."""
        assert kept.g is not None
        torch.mm(kept.g, self._map.t(), out=out)

    def finish_back(self, grad: Tensor, g_grad: Tensor) -> None:
        """``g_grad = (1 - alpha) grad M``."""
        torch.mm(grad, self._map_back, out=g_grad)

    def finish_weights(self, kept: Kept, grad: Tensor, g_grad: Tensor, initial_grad: Tensor | None) -> None:
        """Add ``theta grad^T s`` to the gradient of ``W``, and ``alpha / (1 - alpha) g_grad`` to that of ``h_0``."""
        assert kept.g is not None and initial_grad is not None
        gradient_of(self._weight).addmm_(grad.t(), kept.g, alpha=self._theta)
        initial_grad.add_(g_grad, alpha=self._alpha / (1 - self._alpha))

    @property
    def work(self) -> Work:
        """Two aggregations, two activations, and three products."""
        out_width, in_width = self._weight.shape
        return Work(2 * in_width, 2 * in_width, 3 * out_width * in_width)


@register("gcnii")
class GCNII(Deep):
    r"""With ``u_0 = x W_in^T + b`` and ``h_0 = relu(u_0)``, for l = 1, 2, ...:

    ``u_l = ((1 - theta_l) I + theta_l W_l) s_l``,  ``s_l = (1 - alpha) A f(u_(l-1)) + alpha h_0``,
    ``theta_l = ln(lambda / l + 1)``; logits are ``f(u_L) W_out^T + b``. No LayerNorm unless asked for.
    """

    initial = True
    default_norm = "none"
    bias = False

    @staticmethod
    def aggregation(shard: Shard, exchange: HaloExchange) -> Sum:
        """A sum with symmetric weights."""
        return symmetric_sum(shard, exchange)

    @staticmethod
    def theta(block: int) -> float:
        """``ln(lambda / l + 1)`` of ``block``, counted from 0."""
        return math.log(DECAY / (block + 1) + 1)

    def make_layer(self, block: int, undropped: bool) -> Layer:
        """The layer of ``block``."""
        weight = self.conv(block).weight
        return InitialLayer(block + 1, self.activation(block), weight, ALPHA, self.theta(block))
