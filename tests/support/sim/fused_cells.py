"""Cells of recurrent layers that torch has as one operation on devices alone: here in operations of the CPU.

With input gates ``a``, hidden gates ``b`` (biases added) and ``s`` the logistic function:

    GRU     r = s(a_r + b_r), z = s(a_z + b_z), n = tanh(a_n + r b_n), h' = n + z (h - n)
    LSTM    i, f, o = s(a + b), g = tanh(a_g + b_g), c' = f c + i g, h' = o tanh(c')
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from tests.support.sim.rules import aten

MaybeTensor = Tensor | None


def _with_bias(gates: Tensor, bias: MaybeTensor) -> Tensor:
    return gates if bias is None else gates + bias


def _sums(gates: Tensor, has_bias: bool) -> MaybeTensor:
    return gates.sum(0) if has_bias else None


def gru(a: Tensor, b: Tensor, h: Tensor, a_bias: MaybeTensor = None, b_bias: MaybeTensor = None) -> tuple[Tensor, ...]:
    """The new rows ``[n, k]``, and what backward needs, ``[n, 5 k]``."""
    a_r, a_z, a_n = _with_bias(a, a_bias).chunk(3, 1)
    b_r, b_z, b_n = _with_bias(b, b_bias).chunk(3, 1)
    r, z = (a_r + b_r).sigmoid(), (a_z + b_z).sigmoid()
    n = (a_n + r * b_n).tanh()
    return n + z * (h - n), torch.cat([r, z, n, h, b_n], 1)


def gru_back(grad: Tensor, kept: Tensor, has_bias: bool) -> tuple[MaybeTensor, ...]:
    """The gradients of input gates, hidden gates, rows and both biases."""
    r, z, n, h, b_n = kept.chunk(5, 1)
    to_z = grad * (h - n) * (1 - z) * z
    to_n = grad * (1 - z) * (1 - n * n)
    to_r = to_n * b_n * (1 - r) * r
    of_a, of_b = torch.cat([to_r, to_z, to_n], 1), torch.cat([to_r, to_z, to_n * r], 1)
    return of_a, of_b, grad * z, _sums(of_a, has_bias), _sums(of_b, has_bias)


def lstm(a: Tensor, b: Tensor, c: Tensor, a_bias: MaybeTensor = None, b_bias: MaybeTensor = None) -> tuple[Tensor, ...]:
    """The new rows and the new memory ``[n, k]``, and what backward needs, ``[n, 4 k]``."""
    i, f, g, o = (_with_bias(a, a_bias) + _with_bias(b, b_bias)).chunk(4, 1)
    i, f, g, o = i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()
    new = f * c + i * g
    return o * new.tanh(), new, torch.cat([i, f, g, o], 1)


def lstm_back(
    grad: MaybeTensor, grad_new: MaybeTensor, c: Tensor, new: Tensor, kept: Tensor, has_bias: bool
) -> tuple[MaybeTensor, ...]:
    """The gradients of the gates, of the memory and of the bias."""
    i, f, g, o = kept.chunk(4, 1)
    grad = torch.zeros_like(c) if grad is None else grad
    memory = grad * o * (1 - new.tanh().square())
    memory = memory if grad_new is None else memory + grad_new
    to_i, to_f = memory * g * (1 - i) * i, memory * c * (1 - f) * f
    to_g, to_o = memory * i * (1 - g * g), grad * new.tanh() * (1 - o) * o
    gates = torch.cat([to_i, to_f, to_g, to_o], 1)
    return gates, memory * f, _sums(gates, has_bias)


CELLS: dict[Any, Callable[..., Any]] = {
    aten._thnn_fused_gru_cell.default: gru,
    aten._thnn_fused_gru_cell_backward.default: gru_back,
    aten._thnn_fused_lstm_cell.default: lstm,
    aten._thnn_fused_lstm_cell_backward_impl.default: lstm_back,
}
"""What runs in place of an operation that the CPU lacks."""
