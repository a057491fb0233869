"""Models whose outputs are values of edges (attention, scores), their steps, and the graph that they learn from."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
import torch_geometric.nn as pyg
from torch import Tensor, nn

from tests.support.pyg_case import FEATURES, NODES, make_graph

WIDTH = 8


class Attention(nn.Module):
    """Two layers that attend; the second gives its attention weights, with the edges where ``with_edges``."""

    def __init__(self, layer: Any, with_edges: bool, **options: Any) -> None:
        super().__init__()
        self.first = layer(FEATURES, WIDTH, heads=2, **options)
        self.second = layer(2 * WIDTH, WIDTH, heads=2, **options)
        self.with_edges = with_edges

    def forward(self, x: Tensor, edge_index: Tensor) -> Any:
        x = self.first(x, edge_index).relu()
        out, (edges, alpha) = self.second(x, edge_index, return_attention_weights=True)
        return (out, (edges, alpha)) if self.with_edges else (alpha, out)


class Scores(nn.Module):
    """A decoder of edges in a method of its own: one score for each edge, and none for nodes."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = pyg.SAGEConv(FEATURES, WIDTH), pyg.GCNConv(WIDTH, WIDTH)
        self.weigh = nn.Linear(2 * WIDTH + 3, 1)

    def encode(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.second(self.first(x, edge_index).relu(), edge_index)

    def decode(self, z: Tensor, edge_index: Tensor, edge_attr: Tensor) -> Tensor:
        return self.weigh(torch.cat([z[edge_index[0]], z[edge_index[1]], edge_attr], 1)).view(-1)

    def forward(self, x: Tensor, edge_index: Tensor, edge_attr: Tensor) -> Tensor:
        return self.decode(self.encode(x, edge_index), edge_index, edge_attr)


def attention(own: nn.Module, data: Any) -> tuple[list[Tensor], list[Tensor]]:
    """What is gathered, and the values of the loss."""
    out, (edges, alpha) = own(data.x, data.edge_index)
    return [out, edges, alpha], [alpha.square() + 0.1 * alpha[:, :1], out.square().mean(1)]


def weights_alone(own: nn.Module, data: Any) -> tuple[list[Tensor], list[Tensor]]:
    alpha, out = own(data.x, data.edge_index)
    return [alpha, out], [alpha.log(), out.square().mean(1)]


def scores(own: nn.Module, data: Any) -> tuple[list[Tensor], list[Tensor]]:
    found = own(data.x, data.edge_index, data.edge_attr)
    values = F.binary_cross_entropy_with_logits(found, (data.edge_type > 0).float(), reduction="none")
    return [found], [values[data.edge_mask]]


def methods(own: nn.Module, data: Any) -> tuple[list[Tensor], list[Tensor]]:
    z = own.encode(data.x, data.edge_index)
    found = own.decode(z, data.edge_index, data.edge_attr)
    return [z, found], [F.softplus(found)]


CASES = {
    "GATConv with its edges": (lambda: Attention(pyg.GATConv, True), attention),
    "GATConv": (lambda: Attention(pyg.GATConv, False), weights_alone),
    "GATv2Conv": (lambda: Attention(pyg.GATv2Conv, True), attention),
    "GATConv without self loops": (lambda: Attention(pyg.GATConv, True, add_self_loops=False), attention),
    "TransformerConv": (lambda: Attention(pyg.TransformerConv, False), weights_alone),
    "scores": (Scores, scores),
    "methods": (Scores, methods),
}  # fmt: skip


def graph_of(order: str) -> dict[str, Tensor]:
    """The graph of the tests: as it is, sorted by target, without self loops, or with just one at every node."""
    graph = make_graph()
    edges = graph["edge_index"]
    if order == "a loop at every node":
        loops = torch.randperm(NODES, generator=torch.Generator().manual_seed(3)).repeat(2, 1)
        places = torch.randperm(edges.shape[1], generator=torch.Generator().manual_seed(4))[:NODES]
        edges[1] = torch.where(edges[0] == edges[1], (edges[1] + 1) % NODES, edges[1])
        edges[:, places] = loops
    if order == "no loops":
        edges[1] = torch.where(edges[0] == edges[1], (edges[1] + 1) % NODES, edges[1])
    chosen = torch.arange(edges.shape[1])
    if order == "sorted":
        chosen = torch.argsort(edges[1] * NODES + edges[0], stable=True)
    picked = {name: value[..., chosen] if name == "edge_index" else value[chosen] for name, value in graph.items()
              if name != "x"}  # fmt: skip
    return {"x": graph["x"], **picked, "edge_mask": torch.arange(edges.shape[1]) % 3 > 0}
