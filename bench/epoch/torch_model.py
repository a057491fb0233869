"""The strongest plain-torch opponent: CSR products with a precomputed transpose and a precomputed first aggregation."""

from __future__ import annotations

import warnings
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from halowire.kernels import Csr


def torch_csr(matrix: Csr) -> Tensor:
    """The same matrix as a torch sparse CSR tensor."""
    weight = torch.ones(matrix.nnz) if matrix.weight is None else matrix.weight
    shape = (matrix.num_rows, matrix.num_cols)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta", category=UserWarning)
        return torch.sparse_csr_tensor(matrix.indptr.int(), matrix.indices, weight, shape, check_invariants=False)


class Product(torch.autograd.Function):
    """``A x`` forward, ``A^T g`` backward, both stored."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, a: Tensor, a_t: Tensor) -> Tensor:
        ctx.a_t = a_t
        return a @ x

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        return ctx.a_t @ grad, None, None


class TorchModel(nn.Module):
    """GCN or GraphSAGE by hand: aggregation before the weights, or after them where that is narrower."""

    def __init__(self, weights: dict[str, Tensor], matrix: Csr, x: Tensor, dropout: float) -> None:
        super().__init__()
        self.weights = nn.ParameterDict({key.replace(".", "_"): nn.Parameter(w.clone()) for key, w in weights.items()})
        self.layers = 1 + max(int(key.split(".")[1]) for key in weights)
        self.a, self.a_t = torch_csr(matrix), torch_csr(matrix.transpose())
        self.x, self.gathered, self.dropout = x, self.a @ x, dropout

    def forward(self) -> Tensor:
        h = self.x
        for layer in range(self.layers):
            w = self.weights
            name = f"blocks_{layer}_"
            weight, bias = w[f"{name}conv_weight"], w[f"{name}conv_bias"]
            if layer == 0:
                out = F.linear(self.gathered, weight, bias)
            elif weight.shape[0] < weight.shape[1]:
                out = Product.apply(h @ weight.T, self.a, self.a_t) + bias
            else:
                out = F.linear(Product.apply(h, self.a, self.a_t), weight, bias)
            if f"{name}conv_weight_self" in w:
                out = out + h @ w[f"{name}conv_weight_self"].T
            if layer < self.layers - 1:
                if f"{name}gamma" in w:
                    out = F.layer_norm(out, out.shape[1:], w[f"{name}gamma"], w[f"{name}beta"])
                out = F.dropout(out.relu(), self.dropout) if self.dropout else out.relu()
            h = out
        return h
