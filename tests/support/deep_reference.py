"""The slow, obvious reference of the deep models: the whole graph in one process, dense matrices, autograd."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from halowire.graph import Graph
from tests.support.reference import dense_adjacency, dropout_factor


class DeepReference:
    """GCN, GraphSAGE (both with a residual share), GCNII and ResGCN+ from given weights, trained with Adam.

    ``aggregate(a_rows, block) -> g``, by default ``A @ a_rows``, is where a test puts other rules in.
    """

    def __init__(self, graph: Graph, config, weights: dict[str, Tensor]) -> None:
        self.graph, self.config = graph, config
        self.name, self.dropout, self.seed = config.model.name, config.model.dropout, config.seed
        self.a = dense_adjacency(graph, "mean" if self.name == "sage" else "symmetric")
        self.x = graph.x if isinstance(graph.x, Tensor) else graph.x.to_dense()
        self.weights = {key: value.detach().clone().requires_grad_() for key, value in weights.items()}
        self.optimiser = torch.optim.Adam(list(self.weights.values()), lr=config.optim.lr)
        self.layers = config.model.layers

    def activate(self, u: Tensor, gamma: str, epoch: int | None, layer: int, ids: Tensor) -> Tensor:
        w = self.weights
        if f"{gamma}gamma" in w:
            u = F.layer_norm(u, u.shape[1:], w[f"{gamma}gamma"], w[f"{gamma}beta"])
        v = u.relu()
        return v if epoch is None else v * dropout_factor(self.dropout, self.seed, epoch, layer, ids, v.shape[1])

    def enter(self, at) -> Tensor:
        """The rows ``at`` that enter the first block with an aggregation of hidden rows."""
        w = self.weights
        if self.name in ("gcnii", "resgcn"):
            return self.x[at] @ w["input.weight"].T + w["input.bias"]
        out = (self.a @ self.x)[at] @ w["blocks.0.conv.weight"].T + w["blocks.0.conv.bias"]
        if self.name == "sage":
            out = out + self.x[at] @ w["blocks.0.conv.weight_self"].T
        return out

    @property
    def blocks(self) -> range:
        return range(self.layers) if self.name in ("gcnii", "resgcn") else range(1, self.layers)

    def before(self, u: Tensor, block: int, epoch: int | None, ids: Tensor) -> tuple[Tensor, Tensor]:
        """(v, a)."""
        deep = self.name in ("gcnii", "resgcn")
        place = block if deep else block - 1
        v = self.activate(u, f"blocks.{place}.", epoch, place, ids)
        weight = self.weights[f"blocks.{block}.conv.weight"]
        return v, v @ weight.T if not deep and weight.shape[0] < weight.shape[1] else v

    def after(self, g: Tensor, v: Tensor, u: Tensor, h0: Tensor, block: int) -> Tensor:
        w = {
            key.split(".", 3)[3]: value for key, value in self.weights.items() if key.startswith(f"blocks.{block}.conv")
        }
        if self.name == "gcnii":
            theta = math.log(0.5 / (block + 1) + 1)
            s = 0.9 * g + 0.1 * h0
            return (1 - theta) * s + theta * s @ w["weight"].T
        if self.name == "resgcn":
            return u + g @ w["weight"].T + w["bias"]
        narrow = w["weight"].shape[0] < w["weight"].shape[1]
        out = (g if narrow else g @ w["weight"].T) + w["bias"]
        if "weight_self" in w:
            out = out + v @ w["weight_self"].T
        share = 0.0 if block == self.layers - 1 else self.config.model.residual
        return (1 - share) * out + share * u if share else out

    def leave(self, u: Tensor, epoch: int | None, ids: Tensor) -> Tensor:
        if self.name not in ("gcnii", "resgcn"):
            return u
        v = self.activate(u, "", epoch, self.layers, ids)
        return v @ self.weights["output.weight"].T + self.weights["output.bias"]

    def logits(self, epoch: int | None) -> Tensor:
        """All rows at once; ``epoch`` None: evaluation."""
        u, ids = self.enter(slice(None)), self.graph.ids
        h0 = u.relu()
        for block in self.blocks:
            v, a = self.before(u, block, epoch, ids)
            u = self.after(self.a @ a, v, u, h0, block)
        return self.leave(u, epoch, ids)

    def loss(self, logits: Tensor, at=slice(None)) -> Tensor:
        """The share of the rows ``at`` in the loss of the whole graph."""
        mask, y = self.graph.train_mask[at], self.graph.y[at]
        return F.cross_entropy(logits[mask], y[mask], reduction="sum") / int(self.graph.train_mask.sum())

    def epoch(self, epoch: int) -> tuple[float, dict[str, Tensor]]:
        """(loss, gradients) of one exact epoch; the weights are updated."""
        self.optimiser.zero_grad()
        loss = self.loss(self.logits(epoch))
        loss.backward()
        return float(loss.detach()), self.step()

    def step(self) -> dict[str, Tensor]:
        grads = {key: value.grad.clone() for key, value in self.weights.items()}
        self.optimiser.step()
        return grads
