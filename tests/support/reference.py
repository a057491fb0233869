"""The slow, obvious reference: the whole graph in one process, dense matrices, nothing of halowire's nn."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from halowire.graph import Graph
from halowire.kernels import row_keys, uniform_bits


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

    def logits(self, epoch: int | None) -> Tensor:
        """All rows; ``epoch`` None: evaluation."""
        h = self.x
        for layer in range(self.layers):
            w = {
                key.split(".", 2)[2]: value for key, value in self.weights.items() if key.startswith(f"blocks.{layer}.")
            }
            out = self.convolve(h, w)
            if layer < self.layers - 1:
                if "gamma" in w:
                    out = F.layer_norm(out, out.shape[1:], w["gamma"], w["beta"])
                out = out.relu()
                if epoch is not None:
                    out = out * dropout_factor(self.dropout, self.seed, epoch, layer, self.graph.ids, out.shape[1])
            h = out
        return h

    def convolve(self, h: Tensor, w: dict[str, Tensor]) -> Tensor:
        """One graph layer with the weights ``w``."""
        out = self.a @ h @ w["conv.weight"].T + w["conv.bias"]
        return out + h @ w["conv.weight_self"].T if "conv.weight_self" in w else out

    def epoch(self, epoch: int) -> tuple[float, dict[str, Tensor]]:
        """(loss, gradients) of one epoch; the weights are updated."""
        self.optimiser.zero_grad()
        logits = self.logits(epoch)
        mask, y = self.graph.train_mask, self.graph.y
        if self.graph.multi_label:
            loss = F.binary_cross_entropy_with_logits(logits[mask], y[mask])
        else:
            loss = F.cross_entropy(logits[mask], y[mask])
        loss.backward()
        grads = {key: value.grad.clone() for key, value in self.weights.items()}
        self.optimiser.step()
        return float(loss.detach()), grads


class GatReference(Reference):
    """GAT on the dense matrix of how often each edge occurs, with one self loop per node."""

    def convolve(self, h: Tensor, w: dict[str, Tensor]) -> Tensor:
        """Heads one by one; concatenated, or averaged where the bias is that wide."""
        heads, cols = w["conv.att_src"].shape
        count = self.graph.adj.to_dense().fill_diagonal_(1)
        found = []
        for head in range(heads):
            z = h @ w["conv.weight"][head * cols : (head + 1) * cols].T
            score = (z @ w["conv.att_src"][head])[None, :] + (z @ w["conv.att_dst"][head])[:, None]
            weight = (F.leaky_relu(score, 0.2) + count.log()).softmax(1)
            found.append(weight @ z)
        concatenated = w["conv.bias"].numel() == heads * cols and not self.is_last(w)
        return (torch.cat(found, 1) if concatenated else torch.stack(found).mean(0)) + w["conv.bias"]

    def is_last(self, w: dict[str, Tensor]) -> bool:
        """Whether these are the weights of the last layer, whose heads are averaged."""
        return w["conv.bias"] is self.weights[f"blocks.{self.layers - 1}.conv.bias"]
