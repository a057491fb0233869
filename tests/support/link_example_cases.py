"""PyG's link-level examples on one node type, and models whose forward takes pairs, with their steps."""

from __future__ import annotations

from typing import Any

import torch
import torch_geometric.nn as pyg
from torch import Tensor, nn

from tests.support.pyg_case import FEATURES, NODES, make_graph

WIDTH, KINDS, PAIRS = 10, 3, 140


class Relational(nn.Module):
    """The encoder of ``rgcn_link_pred.py``: a row of weights for each node, two RGCN layers of blocks."""

    def __init__(self) -> None:
        super().__init__()
        self.node_emb = nn.Parameter(torch.randn(NODES, WIDTH))
        self.conv1, self.conv2 = (pyg.RGCNConv(WIDTH, WIDTH, KINDS, num_blocks=5) for _ in range(2))

    def forward(self, edge_index: Tensor, edge_type: Tensor) -> Tensor:
        return self.conv2(self.conv1(self.node_emb, edge_index, edge_type).relu_(), edge_index, edge_type)


class DistMult(nn.Module):
    """Its decoder: a product of three, with a row for each kind of pairs."""

    def __init__(self) -> None:
        super().__init__()
        self.rel_emb = nn.Parameter(torch.randn(KINDS, WIDTH))

    def forward(self, z: Tensor, edge_index: Tensor, edge_type: Tensor) -> Tensor:
        return (z[edge_index[0]] * self.rel_emb[edge_type] * z[edge_index[1]]).sum(dim=1)


class AttractRepel(nn.Module):
    """``ar_link_pred.py`` with PyG's `ARLinkPredictor` behind an encoder; forward takes the pairs."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = pyg.GCNConv(FEATURES, WIDTH)
        self.score = pyg.models.ARLinkPredictor(WIDTH, WIDTH)

    def forward(self, x: Tensor, edge_index: Tensor, edge_label_index: Tensor) -> Tensor:
        return self.score(self.conv(x, edge_index).relu(), edge_label_index)


class Weighed(nn.Module):
    """Scores by rows, by labels of the pairs and by what stands beside them; gives rows of nodes too."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.mix = pyg.SAGEConv(FEATURES, WIDTH), nn.Linear(2 * WIDTH + 1, 2)

    def forward(self, x: Tensor, edge_index: Tensor, edge_label_index: Tensor, edge_label_time: Tensor) -> Any:
        z = self.conv(x, edge_index)
        row, col = edge_label_index
        return {"z": z, "scores": self.mix(torch.cat([z[row], z[col], edge_label_time[:, None]], -1))}


class FromData(Weighed):
    """The same, called with the graph itself."""

    def forward(self, data: Any) -> Any:
        return super().forward(data.x, data.edge_index, data.edge_label_index, data.edge_label_time)


def relations(own: Any, data: Any, losses: Any) -> tuple[Tensor, Tensor]:
    z = own.encode(data.edge_index, data.edge_type)
    found = own.decode(z, data.train_edge_index, data.train_edge_type)
    other = own.decode(z, data.false_edge_index, data.train_edge_type[: data.false_edge_index.shape[1]])
    label = torch.cat([torch.ones_like(found), torch.zeros_like(other)])
    return losses.binary_cross_entropy_with_logits(torch.cat([found, other]), label), found


def probabilities(own: Any, data: Any, losses: Any) -> tuple[Tensor, Tensor]:
    found = own(data.x, data.edge_index, data.edge_label_index)
    return losses.binary_cross_entropy(found, data.edge_label), found


def weighed(own: Any, data: Any, losses: Any) -> tuple[Tensor, Tensor]:
    out = own(data.x, data.edge_index, data.edge_label_index, data.edge_label_time)
    rows = losses.mse_loss(out["z"], data.x[:, :1].expand_as(out["z"]))
    return losses.cross_entropy(out["scores"], data.edge_label.long()) + rows, out["scores"]


def from_data(own: Any, data: Any, losses: Any) -> tuple[Tensor, Tensor]:
    out = own(data)
    return losses.cross_entropy(out["scores"], data.edge_label.long()), out["scores"]


CASES: dict[str, tuple[Any, Any]] = {
    "rgcn_link_pred.py": (lambda: pyg.GAE(Relational(), DistMult()), relations),
    "ar_link_pred.py": (AttractRepel, probabilities),
    "labels and times": (Weighed, weighed),
    "forward(data)": (FromData, from_data),
}


def graph_of(double: bool = False) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(4)
    graph = make_graph()
    kept = {name: graph[name] for name in ("x", "edge_index")}
    if double:
        kept["x"] = kept["x"].double()
    return kept | {
        "edge_type": torch.randint(KINDS, (graph["edge_index"].shape[1],), generator=generator),
        "edge_label_index": torch.randint(NODES, (2, PAIRS), generator=generator),
        "edge_label": (torch.rand(PAIRS, generator=generator) < 0.5).to(kept["x"].dtype),
        "edge_label_time": torch.rand(PAIRS, generator=generator).to(kept["x"].dtype),
        "train_edge_index": torch.randint(NODES, (2, PAIRS - 9), generator=generator),
        "train_edge_type": torch.randint(KINDS, (PAIRS - 9,), generator=generator),
    }
