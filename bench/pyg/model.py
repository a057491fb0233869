"""The model of the comparison: PyG's own layers, as a user writes them, with halowire's weights."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric import EdgeIndex
from torch_geometric.nn import GATConv, GCNConv, SAGEConv
from torch_geometric.utils import to_torch_csr_tensor

from halowire.graph import Graph

PATHS = ("edge_index", "EdgeIndex", "csr tensor")


class Net(nn.Module):
    """Layers of one kind with ReLU between them; heads of GAT are concatenated but for the last layer's."""

    def __init__(self, name: str, weights: dict[str, Tensor]) -> None:
        super().__init__()
        layers = 1 + max(int(key.split(".")[1]) for key in weights)
        parts = [_of_layer(weights, layer) for layer in range(layers)]
        self.convs = nn.ModuleList(_conv(name, part, layer == layers - 1) for layer, part in enumerate(parts))

    def forward(self, x: Tensor, edge_index: Any) -> Tensor:
        """Logits ``[n, classes]``."""
        for layer, conv in enumerate(self.convs):
            x = conv(x, edge_index)
            x = x.relu() if layer < len(self.convs) - 1 else x
        return x


def edges_of(graph: Graph, path: str) -> Any:
    """The edges in one of the forms that PyG takes without extra packages."""
    pairs, size = graph.edge_index(), (graph.num_nodes, graph.num_nodes)
    if path == "edge_index":
        return pairs
    if path == "EdgeIndex":
        return EdgeIndex(pairs, sparse_size=size, sort_order="col").fill_cache_()
    return to_torch_csr_tensor(pairs.flip(0), size=size)


def _of_layer(weights: dict[str, Tensor], layer: int) -> dict[str, Tensor]:
    prefix = f"blocks.{layer}.conv."
    return {key.removeprefix(prefix): value for key, value in weights.items() if key.startswith(prefix)}


def _conv(name: str, part: dict[str, Tensor], last: bool) -> nn.Module:
    out, into = part["weight"].shape
    if name == "gcn":
        # Normalised once: what PyG recommends where the graph stays the same.
        conv: Any = GCNConv(into, out, cached=True)
        pairs = [(conv.lin.weight, part["weight"])]
    elif name == "sage":
        conv = SAGEConv(into, out)
        pairs = [(conv.lin_l.weight, part["weight"]), (conv.lin_r.weight, part["weight_self"])]
    else:
        heads, cols = part["att_src"].shape
        conv = GATConv(into, cols, heads=heads, concat=not last)
        pairs = [(conv.lin.weight, part["weight"])]
        pairs += [(conv.att_src, part["att_src"][None]), (conv.att_dst, part["att_dst"][None])]
    bias = conv.lin_l.bias if name == "sage" else conv.bias
    with torch.no_grad():
        for parameter, value in [*pairs, (bias, part["bias"])]:
            parameter.copy_(value)
    return conv  # type: ignore[no-any-return]
