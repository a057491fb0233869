"""The gradient of an embedding whose rows are read sparsely, which comes from all workers, is made sparse again."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable


class SparseGradient(Function):
    """Passes a weight on unchanged; its gradient, which comes from all workers as a dense tensor, is made sparse."""

    @staticmethod
    def forward(ctx: Any, weight: Tensor) -> Tensor:
        """Return ``weight`` unchanged."""
        return weight.view_as(weight)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        """The rows of the gradient that are not 0."""
        return grads[0].to_sparse(1)
