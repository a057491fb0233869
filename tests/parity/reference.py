"""The slow, obvious reference: the whole graph in one process, dense matrices, nothing of halowire's nn."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from halowire.graph import Graph
from halowire.kernels.random import row_keys, uniform_bits


def dense_adjacency(graph: Graph, kind: str) -> Tensor:
    """``[N, N]`` normalised as GCN (``symmetric``) or GraphSAGE (``mean``) wants it."""
    a = graph.adj.to_dense()
    if kind == "mean":
        return a / a.sum(1, keepdim=True).clamp(min=1e-30)
    has_loop = a.diagonal() > 0
    a = a + torch.diag((~has_loop).float())
    scale = a.sum(1).rsqrt()
    return scale[:, None] * a * scale[None, :]


def dropout_factor(p: float, seed: int, epoch: int, layer: int, ids: Tensor, columns: int) -> Tensor:
    """0 or 1 / (1 - p) for every node and column."""
    if p == 0:
        return torch.ones(ids.numel(), columns)
    bits = uniform_bits(row_keys(seed, epoch, layer, ids), columns)
    return (bits >= int(p * 2**32)).float() / (1 - p)


class Reference:
    """Trains GCN or GraphSAGE on dense matrices with Adam, from given weights."""

    def __init__(
        self, graph: Graph, name: str, weights: dict[str, Tensor], dropout: float, seed: int, lr: float
    ) -> None:
        self.graph, self.name, self.dropout, self.seed = graph, name, dropout, seed
        self.a = dense_adjacency(graph, "mean" if name == "sage" else "symmetric")
        self.x = graph.x if isinstance(graph.x, Tensor) else graph.x.to_dense()
        self.weights = {key: value.clone().requires_grad_() for key, value in weights.items()}
        self.optimiser = torch.optim.Adam(list(self.weights.values()), lr=lr)
        self.layers = 1 + max(int(key.split(".")[1]) for key in weights)

    def logits(self, epoch: int, training: bool) -> Tensor:
        h = self.x
        for layer in range(self.layers):
            w = {
                key.split(".", 2)[2]: value for key, value in self.weights.items() if key.startswith(f"blocks.{layer}.")
            }
            out = self.a @ h @ w["conv.weight"].T + w["conv.bias"]
            if "conv.weight_self" in w:
                out = out + h @ w["conv.weight_self"].T
            if layer < self.layers - 1:
                if "gamma" in w:
                    out = F.layer_norm(out, out.shape[1:], w["gamma"], w["beta"])
                out = out.relu()
                if training:
                    out = out * dropout_factor(self.dropout, self.seed, epoch, layer, self.graph.ids, out.shape[1])
            h = out
        return h

    def epoch(self, epoch: int) -> tuple[float, dict[str, Tensor], Tensor]:
        """(loss, gradients, training logits) of one epoch; the weights are updated."""
        self.optimiser.zero_grad()
        logits = self.logits(epoch, training=True)
        mask, y = self.graph.train_mask, self.graph.y
        if self.graph.multi_label:
            loss = F.binary_cross_entropy_with_logits(logits[mask], y[mask])
        else:
            loss = F.cross_entropy(logits[mask], y[mask])
        loss.backward()
        grads = {key: value.grad.clone() for key, value in self.weights.items()}
        self.optimiser.step()
        return float(loss.detach()), grads, logits.detach()
