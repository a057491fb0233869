"""Models whose outputs are values by node and edge type, their steps, and the ``HeteroData`` that they learn from."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
import torch_geometric.nn as pyg
from torch import Tensor, nn

from tests.support.hetero_case import HIDDEN, LINKS, WIDTHS, make_hetero

WRITES, CITES = ("author", "writes", "paper"), ("paper", "cites", "paper")


class Attention(nn.Module):
    """Layers that attend, by edge type; gives the rows of papers and, by type, the weights with their edges."""

    def __init__(self) -> None:
        super().__init__()
        self.enter = pyg.HeteroDictLinear(WIDTHS, HIDDEN)
        self.convs = nn.ModuleDict({
            "__".join(kind): pyg.GATConv((HIDDEN, HIDDEN), HIDDEN, heads=2, concat=False, add_self_loops=kind == CITES)
            for kind in LINKS
        })  # fmt: skip

    def forward(self, x_dict: dict[str, Tensor], edge_index_dict: dict[Any, Tensor]) -> Any:
        h, alpha = self.enter(x_dict), {}
        out = {name: torch.zeros_like(rows) for name, rows in h.items()}
        for kind, edges in edge_index_dict.items():
            ends = h[kind[0]], h[kind[2]]
            found, alpha[kind] = self.convs["__".join(kind)](ends, edges, return_attention_weights=True)
            out[kind[2]] = out[kind[2]] + found
        return out, alpha


class Scores(nn.Module):
    """One score for each edge of one type, as a tensor, after a layer; and of all types, by their names in text."""

    def __init__(self, every: bool) -> None:
        super().__init__()
        self.enter = pyg.HeteroDictLinear(WIDTHS, HIDDEN)
        self.conv = pyg.HeteroConv({kind: pyg.SAGEConv(HIDDEN, HIDDEN) for kind in LINKS})
        self.weigh = nn.Bilinear(HIDDEN, HIDDEN, 1)
        self.every = every

    def forward(self, x_dict: dict[str, Tensor], edge_index_dict: dict[Any, Tensor]) -> Any:
        h = self.enter(x_dict)
        h = h | {name: rows.relu() for name, rows in self.conv(h, edge_index_dict).items()}
        kinds = list(edge_index_dict) if self.every else [WRITES]
        scores = {"__".join(kind): self._score(h, kind, edge_index_dict[kind]) for kind in kinds}
        return scores if self.every else scores["author__writes__paper"]

    def _score(self, h: dict[str, Tensor], kind: Any, edges: Tensor) -> Tensor:
        return self.weigh(h[kind[0]][edges[0]], h[kind[2]][edges[1]]).view(-1)


def attention(own: nn.Module, data: Any) -> tuple[list[Tensor], list[Tensor]]:
    """What is gathered, and the values of the loss."""
    out, alpha = own(data.x_dict, data.edge_index_dict)
    flat = [*out.values(), *(value for pair in alpha.values() for value in pair)]
    return flat, [out["paper"].square(), alpha[WRITES][1].square(), alpha[CITES][1].log()]


def scores(own: nn.Module, data: Any) -> tuple[list[Tensor], list[Tensor]]:
    found = own(data.x_dict, data.edge_index_dict)
    label = (data[WRITES].edge_attr[:, 0] > 0).float()
    return [found], [F.binary_cross_entropy_with_logits(found, label, reduction="none")]


def every_score(own: nn.Module, data: Any) -> tuple[list[Tensor], list[Tensor]]:
    found = own(data.x_dict, data.edge_index_dict)
    return list(found.values()), [F.softplus(value) for value in found.values() if value.numel() or own.every]


CASES = {
    "attention": (Attention, attention),
    "scores of one type": (lambda: Scores(False), scores),
    "scores of all types": (lambda: Scores(True), every_score),
}


def graph_of(sort: bool) -> Any:
    """The graph of the tests; an edge type without edges has no mean."""
    data = make_hetero(sort)
    data["venue", "prints", "paper"].edge_index = torch.tensor([[0, 3, 3], [5, 5, 9]])
    data["venue", "prints", "paper"].edge_attr = torch.randn(3, 3, generator=torch.Generator().manual_seed(8))
    return data
