"""Models on a cut graph of several node types against plain PyG: outputs, gradients and three steps of training."""

from __future__ import annotations

import copy
from typing import Any

import torch
import torch_geometric.nn as pyg
from torch import Tensor, nn
from torch_geometric.data import HeteroData

import halowire
from halowire.pyg.hetero_data import HeteroShardData, cut_hetero
from halowire.wire import Transport
from tests.support.pyg_case import TOLERANCE, assert_close

HIDDEN, CLASSES, STEPS = 8, 4, 3
COUNTS = {"paper": 60, "author": 41, "field": 2, "venue": 17}
"""Nodes by type: fewer fields than three workers."""
WIDTHS = {"paper": 6, "author": 5, "field": 3, "venue": 4}
LINKS = {
    ("author", "writes", "paper"): 170,
    ("paper", "rev_writes", "author"): 150,
    ("paper", "cites", "paper"): 190,
    ("paper", "about", "field"): 70,
    ("field", "rev_about", "paper"): 70,
    ("venue", "prints", "paper"): 0,
    ("paper", "rev_prints", "venue"): 25,
    ("author", "knows", "author"): 60,
}
"""Edges by type: one type has none."""


def make_hetero(sort: bool = False, seed: int = 0) -> HeteroData:
    """A graph of four node types with self loops, duplicates, isolated nodes and nodes without edges of a type."""
    generator = torch.Generator().manual_seed(seed)
    data = HeteroData()
    for name, count in COUNTS.items():
        data[name].x = torch.randn(count, WIDTHS[name], generator=generator)
    data["paper"].y = torch.randint(CLASSES, (COUNTS["paper"],), generator=generator)
    data["paper"].train_mask = torch.rand(COUNTS["paper"], generator=generator) < 0.5
    for kind, count in LINKS.items():
        ends = [torch.randint(max(1, COUNTS[name] - 2), (count,), generator=generator) for name in (kind[0], kind[2])]
        edge_index = torch.stack(ends)
        if sort:
            edge_index = edge_index[:, torch.argsort(edge_index[1], stable=True)]
        data[kind].edge_index = edge_index
        data[kind].edge_attr = torch.randn(count, 3, generator=generator)
    return data


def make_owners(parts: int, seed: int = 1) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return {name: torch.randint(parts, (count,), generator=generator) for name, count in COUNTS.items()}


class Typed(nn.Module):
    """Two layers of `HeteroConv` between linear maps by type; gives the logits of papers."""

    def __init__(self, first: nn.Module, second: nn.Module, out: int = HIDDEN) -> None:
        super().__init__()
        self.enter = nn.ModuleDict({name: nn.Linear(width, HIDDEN) for name, width in WIDTHS.items()})
        self.convs = nn.ModuleList([first, second])
        self.leave = nn.Linear(out, CLASSES)

    def forward(self, x_dict: dict[str, Tensor], edge_index_dict: dict[Any, Tensor], *more: Any) -> Tensor:
        h = {name: self.enter[name](x).relu() for name, x in x_dict.items()}
        for conv in self.convs:
            found = conv(h, edge_index_dict, *more)
            h = h | {name: rows.relu() for name, rows in found.items() if rows is not None}
        return self.leave(h["paper"])


def hetero_conv(make: Any, aggr: str = "sum") -> pyg.HeteroConv:
    return pyg.HeteroConv({kind: make(kind) for kind in LINKS}, aggr=aggr)


def gat(kind: Any, **options: Any) -> nn.Module:
    return pyg.GATConv((HIDDEN, HIDDEN), HIDDEN // 2, heads=2, add_self_loops=False, **options)


class Plain(nn.Module):
    """A model of one node type, as `to_hetero` takes it."""

    def __init__(self, make: Any, norm: bool = False) -> None:
        super().__init__()
        self.conv1, self.conv2 = make(), make()
        self.norm = pyg.BatchNorm(HIDDEN) if norm else nn.Identity()

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.conv2(self.norm(self.conv1(x, edge_index)).relu(), edge_index)


class ToHetero(nn.Module):
    """A transformed model between linear maps by type."""

    def __init__(self, make: Any, aggr: str = "sum", norm: bool = False) -> None:
        super().__init__()
        self.enter = pyg.HeteroDictLinear(WIDTHS, HIDDEN)
        metadata = list(COUNTS), list(LINKS)
        self.inner = pyg.to_hetero(Plain(make, norm), metadata, aggr=aggr)
        self.leave = nn.Linear(HIDDEN, CLASSES)

    def forward(self, x_dict: dict[str, Tensor], edge_index_dict: dict[Any, Tensor]) -> Tensor:
        return self.leave(self.inner(self.enter(x_dict), edge_index_dict)["paper"])


class Jumping(nn.Module):
    """The rows of two layers are joined by type with PyG's ``HeteroJumpingKnowledge``."""

    def __init__(self, mode: str) -> None:
        super().__init__()
        self.enter = pyg.HeteroDictLinear(WIDTHS, HIDDEN)
        self.convs = nn.ModuleList(hetero_conv(lambda k: pyg.SAGEConv(HIDDEN, HIDDEN)) for _ in range(2))
        self.join = pyg.HeteroJumpingKnowledge(list(COUNTS), mode, HIDDEN, 2)
        self.leave = nn.Linear(2 * HIDDEN if mode == "cat" else HIDDEN, CLASSES)

    def forward(self, x_dict: dict[str, Tensor], edge_index_dict: dict[Any, Tensor]) -> Tensor:
        h, found = self.enter(x_dict), {name: [] for name in x_dict}
        for conv in self.convs:
            h = h | {name: rows.relu() for name, rows in conv(h, edge_index_dict).items()}
            for name, rows in h.items():
                found[name].append(rows)
        return self.leave(self.join(found)["paper"])


class ByHand(nn.Module):
    """No layer of PyG: a loop over the edge types, which reads and adds in both directions."""

    def __init__(self) -> None:
        super().__init__()
        self.lin = nn.ModuleDict({name: nn.Linear(width, CLASSES) for name, width in WIDTHS.items()})

    def forward(self, x_dict: dict[str, Tensor], edge_index_dict: dict[Any, Tensor]) -> dict[str, Tensor]:
        h = {name: self.lin[name](x) for name, x in x_dict.items()}
        out = dict(h)
        for (source, _, target), edge_index in edge_index_dict.items():
            row, col = edge_index
            out[target] = out[target] + torch.zeros_like(h[target]).index_add_(0, col, h[source][row].tanh())
            out[source] = out[source] + torch.zeros_like(h[source]).index_add(0, row, h[target][col].sigmoid())
        return out


class WithEdges(nn.Module):
    """Attention with the features of the edges, as keywords, on edges some of which are dropped."""

    inputs = ("x_dict", "edge_index_dict", "edge_attr_dict")

    def __init__(self, make: Any) -> None:
        super().__init__()
        self.enter = pyg.HeteroDictLinear(WIDTHS, HIDDEN)
        self.conv = pyg.HeteroConv({kind: make() for kind in LINKS}, aggr="max")
        self.drop = halowire.DropEdges(0.3, seed=4)
        self.leave = nn.Linear(HIDDEN, CLASSES)

    def forward(self, x_dict: dict[str, Tensor], edge_index_dict: dict[Any, Tensor], edge_attr_dict: Any) -> Tensor:
        kept = {kind: self.drop(edge_index_dict[kind], edge_attr_dict[kind]) for kind in edge_index_dict}
        index, attr = ({kind: found[place] for kind, found in kept.items()} for place in range(2))
        return self.leave(self.conv(self.enter(x_dict), index, edge_attr_dict=attr)["paper"])


class Joined(nn.Module):
    """All types as one list of nodes and of edges in the forward itself, as `to_homogeneous` does; reads both ways."""

    def __init__(self) -> None:
        super().__init__()
        self.enter = pyg.HeteroDictLinear(WIDTHS, HIDDEN)
        self.conv = pyg.RGCNConv(HIDDEN, CLASSES, len(LINKS))

    def forward(self, x_dict: dict[str, Tensor], edge_index_dict: dict[Any, Tensor]) -> Tensor:
        h = self.enter(x_dict)
        first, rows = {}, 0
        for name in x_dict:
            first[name], rows = rows, rows + x_dict[name].shape[0]
        shifted = [
            edges + torch.tensor([[first[kind[0]]], [first[kind[2]]]], device=edges.device)
            for kind, edges in edge_index_dict.items()
        ]
        kinds = [
            torch.full((edges.shape[1],), place, device=edges.device)
            for place, edges in enumerate(edge_index_dict.values())
        ]
        edge_index, together = torch.cat(shifted, 1), torch.cat([h[name] for name in x_dict])
        out = self.conv(together, edge_index, torch.cat(kinds))
        row, col = edge_index
        out = out + torch.zeros_like(out).index_add(0, row, out[col].tanh())
        return out[first["paper"] : first["paper"] + x_dict["paper"].shape[0]]


MODELS: dict[str, Any] = {
    "HeteroConv SAGE": lambda: Typed(*(hetero_conv(lambda k: pyg.SAGEConv(HIDDEN, HIDDEN)) for _ in range(2))),
    "HeteroConv SAGE max, cat": lambda: Typed(
        hetero_conv(lambda k: pyg.SAGEConv(HIDDEN, HIDDEN, aggr="max"), "mean"),
        hetero_conv(lambda k: pyg.SAGEConv(HIDDEN, HIDDEN, aggr="max"), "cat"),
        4 * HIDDEN,
    ),
    "HeteroConv GAT": lambda: Typed(hetero_conv(gat), hetero_conv(gat, "mean")),
    "HeteroConv GraphConv": lambda: Typed(*(hetero_conv(lambda k: pyg.GraphConv(HIDDEN, HIDDEN)) for _ in range(2))),
    "HeteroConv GCN, GAT, SAGE": lambda: Typed(*(mixed() for _ in range(2))),
    "HGTConv": lambda: Typed(*(pyg.HGTConv(HIDDEN, HIDDEN, (list(COUNTS), list(LINKS)), heads=2) for _ in range(2))),
    "HANConv": lambda: Typed(*(pyg.HANConv(HIDDEN, HIDDEN, (list(COUNTS), list(LINKS)), heads=2) for _ in range(2))),
    "to_hetero SAGE": lambda: ToHetero(lambda: pyg.SAGEConv((HIDDEN, HIDDEN), HIDDEN)),
    "to_hetero GAT": lambda: ToHetero(lambda: gat(None), "mean"),
    "to_hetero GraphConv, BatchNorm": lambda: ToHetero(lambda: pyg.GraphConv((HIDDEN, HIDDEN), HIDDEN), norm=True),
    "HeteroJumpingKnowledge cat": lambda: Jumping("cat"),
    "HeteroJumpingKnowledge lstm": lambda: Jumping("lstm"),
    "HeteroJumpingKnowledge max": lambda: Jumping("max"),
    "by hand": ByHand,
    "edge features and DropEdges": lambda: WithEdges(lambda: pyg.TransformerConv((HIDDEN, HIDDEN), HIDDEN, edge_dim=3)),
    "joined in forward": Joined,
}


def mixed() -> nn.Module:
    def make(kind: Any) -> nn.Module:
        if kind[0] == kind[2]:
            return pyg.GCNConv(HIDDEN, HIDDEN)
        return gat(kind) if kind[0] == "author" else pyg.SAGEConv(HIDDEN, HIDDEN)

    return hetero_conv(make)


def build_hetero(name: str) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(3)
        return MODELS[name]()


def loss_of(out: Any, data: Any, rows: Any) -> list[Tensor]:
    """One value per row and output: papers' cross entropy, or the weighted squares of all types' outputs."""
    if isinstance(out, Tensor):
        paper = data["paper"]
        return [nn.functional.cross_entropy(out[paper.train_mask], paper.y[paper.train_mask], reduction="none")]
    found = []
    for name, value in out.items():
        weights = torch.randn(COUNTS[name], value.shape[1], generator=torch.Generator().manual_seed(9))
        found.append((value * weights[rows(name)]).square())
    return found


def run_plain(model: nn.Module, data: HeteroData) -> dict[str, Any]:
    """Outputs and gradients of the first step, the weights after three, in plain PyG."""
    model = copy.deepcopy(model).train()

    def loss(out: Any) -> Tensor:
        return sum((values.mean() for values in loss_of(out, data, lambda name: slice(None))), torch.zeros(()))

    return trained(model, data, loss)


def rounding_of(model: nn.Module, data: HeteroData, want: dict[str, Any]) -> dict[str, float]:
    """How far plain PyG's gradients are from those in float64; that of a bias before a norm is nothing but rounding."""
    double = copy.copy(data)
    for store in double.node_stores:
        store.x = store.x.double()
    for store in double.edge_stores:
        store.edge_attr = store.edge_attr.double()
    exact = run_plain(copy.deepcopy(model).double(), double)["grads"]
    return {name: float((grad - exact[name]).abs().max()) for name, grad in want["grads"].items()}


def run_part(
    transport: Transport, model: nn.Module, data: HeteroData, owner: dict[str, Tensor], recipe: str = "exact",
    steps: int = STEPS,
    adam: bool = False,
) -> dict[str, Any]:  # fmt: skip
    """The same on one worker's part."""
    part = cut_hetero(data, owner, transport)
    model = halowire.distribute(copy.deepcopy(model), part, recipe).train()

    def loss(out: Any) -> Tensor:
        first, *others = (part.mean(values) for values in loss_of(out, part, lambda name: part[name].rows))
        for value in others:
            first = first + value
        return first

    found = trained(model, part, loss, steps, adam) | {"rows": dict(part.shard.rows)}
    transport.settle()
    return found


def trained(
    model: nn.Module, data: HeteroData | HeteroShardData, loss_of_out: Any, steps: int = STEPS, adam: bool = False
) -> dict[str, Any]:
    kind = torch.optim.Adam if adam else torch.optim.SGD
    optimiser = kind(model.parameters(), lr=0.02 if adam else 0.05)
    record: dict[str, Any] = {"losses": []}
    inputs = getattr(model, "inputs", ("x_dict", "edge_index_dict"))
    for step in range(steps):
        optimiser.zero_grad()
        out = model(*(getattr(data, name) for name in inputs))
        loss = loss_of_out(out)
        loss.backward()
        if step == 0:
            record["out"] = (
                {"paper": out.detach()} if isinstance(out, Tensor) else {k: v.detach() for k, v in out.items()}
            )
            record["grads"] = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
        optimiser.step()
        record["losses"].append(loss.detach())
    model.eval()
    with torch.no_grad():
        out = model(*(getattr(data, name) for name in inputs))
    record["eval"] = {"paper": out} if isinstance(out, Tensor) else dict(out)
    record["state"] = {name: value.clone() for name, value in model.state_dict().items()}
    return record


def compare_hetero(parts: list[dict[str, Any]], want: dict[str, Any], rounding: dict[str, float]) -> None:
    """Element by element, |a - b| <= 1e-4 max|b|; see `tests.support.pyg_case.compare`."""
    for kind in ("out", "eval"):
        for name, value in want[kind].items():
            got = torch.full_like(value, torch.nan)
            for part in parts:
                got[part["rows"][name]] = part[kind][name]
            assert_close(f"{kind} of {name}", got, value)
    scale = max(float(grad.abs().max()) for grad in want["grads"].values())
    for part in parts:
        for got, value in zip(part["losses"], want["losses"], strict=True):
            assert_close("loss", got, value)
        assert part["grads"].keys() == want["grads"].keys()
        for name, grad in want["grads"].items():
            floor = max(0.01 * scale, 20 * rounding[name] / TOLERANCE)
            assert_close(f"gradient of {name}", part["grads"][name], grad, floor=floor)
        for name, value in want["state"].items():
            assert_close(name, part["state"][name].float(), value.float())
