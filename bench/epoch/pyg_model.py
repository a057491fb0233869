"""The same model in PyTorch Geometric, on each of the sparse paths that it offers without extra packages."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric import EdgeIndex
from torch_geometric.nn import GCNConv, SAGEConv

from bench.epoch.torch_model import torch_csr
from halowire.kernels import Csr

PATHS = ("csr tensor", "EdgeIndex", "edge_index")


class PygModel(nn.Module):
    """GCNConv or SAGEConv layers with halowire's weights, on one of PyG's sparse paths."""

    def __init__(
        self, weights: dict[str, Tensor], name: str, path: str, matrix: Csr, x: Tensor, dropout: float
    ) -> None:
        super().__init__()
        self.x, self.dropout, self.name, self.path = x, dropout, name, path
        self.layers = 1 + max(int(key.split(".")[1]) for key in weights)
        self.convs, self.norms = nn.ModuleList(), nn.ModuleList()
        for layer in range(self.layers):
            self._add(weights, layer)
        self.edge_weight: Tensor | None = None
        self.edges = self._edges(matrix)

    def _add(self, weights: dict[str, Tensor], layer: int) -> None:
        weight, bias = weights[f"blocks.{layer}.conv.weight"], weights[f"blocks.{layer}.conv.bias"]
        if self.name == "gcn":
            # The weights of `matrix` are already normalised, on the whole graph, once.
            conv = GCNConv(weight.shape[1], weight.shape[0], normalize=False)
            parts = [(conv.lin.weight, weight), (conv.bias, bias)]
        else:
            conv = SAGEConv(weight.shape[1], weight.shape[0])
            own = weights[f"blocks.{layer}.conv.weight_self"]
            parts = [(conv.lin_l.weight, weight), (conv.lin_l.bias, bias), (conv.lin_r.weight, own)]
        self.convs.append(conv)
        if f"blocks.{layer}.gamma" in weights:
            norm = nn.LayerNorm(weight.shape[0])
            parts += [(norm.weight, weights[f"blocks.{layer}.gamma"]), (norm.bias, weights[f"blocks.{layer}.beta"])]
            self.norms.append(norm)
        with torch.no_grad():
            for parameter, value in parts:
                parameter.copy_(value)

    def _edges(self, matrix: Csr) -> Tensor:
        if self.path == "csr tensor":
            return torch_csr(matrix if self.name == "gcn" else matrix.with_weight(None))
        pairs = torch.stack([matrix.indices.long(), matrix.row_index().long()])
        self.edge_weight = matrix.weight if self.name == "gcn" else None
        if self.path == "edge_index":
            return pairs
        edges = EdgeIndex(pairs, sparse_size=(matrix.num_cols, matrix.num_rows), sort_order="col")
        return edges.fill_cache_()

    def forward(self) -> Tensor:
        h = self.x
        for layer, conv in enumerate(self.convs):
            h = conv(h, self.edges) if self.edge_weight is None else conv(h, self.edges, self.edge_weight)
            if layer < self.layers - 1:
                if len(self.norms):
                    h = self.norms[layer](h)
                h = F.dropout(h.relu(), self.dropout) if self.dropout else h.relu()
        return h
