"""PyG's link-level examples on one node type, and models whose forward takes pairs: three steps equal plain PyG."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
import torch.nn.functional as F
import torch_geometric.nn as pyg
from torch import Tensor, nn

import halowire
from halowire.errors import InputError
from halowire.pyg.shard_data import cut_data
from halowire.wire import run_threads
from tests.support.pyg_case import FEATURES, NODES, assert_close, make_graph, make_owner, seeded

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


class Whole:
    """A whole graph under the names that the parts have."""

    def __init__(self, graph: dict[str, Tensor]) -> None:
        vars(self).update(graph)


def learn(own: nn.Module, data: Any, losses: Any, step: Any) -> tuple[list[Tensor], Tensor]:
    """The gradients of three steps, and the scores at the end."""
    kept, optimiser = [], torch.optim.SGD(own.parameters(), lr=0.1)
    for _ in range(3):
        optimiser.zero_grad()
        step(own.train(), data, losses)[0].backward()
        kept += [value.grad.clone() for name, value in own.named_parameters() if not name.endswith("node_emb")]
        optimiser.step()
    with torch.no_grad():
        return kept, step(own.eval(), data, losses)[1]


@pytest.mark.parametrize("workers", [2, pytest.param(3, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", [*CASES, "labels and times, float64"])
def test_three_steps_equal_plain_pyg(name, workers):
    make, step = CASES[name.removesuffix(", float64")]
    double = name.endswith("float64")
    model, graph = seeded(make), graph_of(double)
    model = model.double() if double else model
    pairs = "train_edge_index" if name == "rgcn_link_pred.py" else "edge_label_index"
    owner = make_owner(workers)
    if pairs == "train_edge_index":  # each positive pair has a negative one of the same first node, and so owner
        graph["false_edge_index"] = torch.stack([graph[pairs][0], graph[pairs][1].flip(0)])
    want, scores = learn(copy.deepcopy(model), Whole(graph), F, step)

    def here(transport):
        data = cut_data(graph, owner, transport)
        found, given = learn(halowire.distribute(copy.deepcopy(model), data), data, data, step)
        transport.settle()
        return found, given, data.pair_rows[pairs][0]

    got = torch.full_like(scores, torch.nan)
    scale = max(float(value.abs().max()) for value in want)
    for found, given, rows in run_threads(workers, here):
        got[rows] = given
        for one, value in zip(found, want, strict=True):
            assert_close("gradient", one, value, floor=0.01 * scale)
    assert_close("scores", got, scores)


class Picky(AttractRepel):
    """Scores of some of the pairs."""

    def forward(self, x: Tensor, edge_index: Tensor, edge_label_index: Tensor) -> Tensor:
        return super().forward(x, edge_index, edge_label_index[:, :4])


def test_scores_of_some_pairs_are_refused():
    def here(transport):
        data = cut_data(graph_of(), make_owner(2), transport)
        with pytest.raises(InputError, match="or one per pair that it is called with"):
            halowire.distribute(Picky(), data)
        transport.settle()

    run_threads(2, here)
