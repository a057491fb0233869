"""PyG models and a user's own training loop, on the simulated device and on the CPU."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric import nn as pyg

import halowire
from halowire.pyg.hetero_data import cut_hetero
from halowire.pyg.own_model import own_runner
from halowire.pyg.shard_data import cut_data, of_shard
from halowire.training import Config, Hooks, Trainer, recipe_config
from halowire.training.model_setup import output_width
from halowire.wire.own_codec import Draws
from tests.support.device_case import EpochCounts, Outcome, link_of, outcome_of, torch_kernels
from tests.support.device_graphs import part_of
from tests.support.hetero_case import build_hetero, make_hetero, make_owners
from tests.support.list_case import EQUAL, PLAIN, list_graph
from tests.support.pyg_case import make_owner
from tests.support.pyg_layers import LAYERS
from tests.support.sim import SIM, Counts, Simulation, nccl_simulated, transport_of


class Two(nn.Module):
    """Two layers, a norm of the whole graph between them, and dropout from torch's generator."""

    def __init__(self, make: Callable[[int, int], nn.Module], norm: bool, features: int = 6, classes: int = 4) -> None:
        super().__init__()
        self.first = make(features, 8)
        self.norm = nn.BatchNorm1d(8) if norm else nn.Identity()
        self.second = make(8, classes)
        self.dropout = 0.3

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        h = F.dropout(self.norm(self.first(x, edge_index)).relu(), self.dropout, self.training)
        return self.second(h, edge_index)


class Own(nn.Module):
    """A model that reads and adds rows by edges itself."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Linear(6, 4)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        source, target = edge_index
        h = self.weight(x)
        return torch.zeros_like(h).index_add(0, target, h[source])


class Dropping(nn.Module):
    """A model whose edges are others in every epoch."""

    def __init__(self) -> None:
        super().__init__()
        self.drop_edges = halowire.DropEdges(0.3, seed=2)
        self.rest = Two(pyg.SAGEConv, norm=False)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.rest(x, self.drop_edges(edge_index))


class Half(halowire.RowCodec):
    """A codec as users write them: bf16, rounded at random."""

    def row_bytes(self, columns: int) -> int:
        return 2 * columns

    def encode_rows(self, rows: Tensor, draws: Draws) -> Tensor:
        noise = draws.uniform(rows.shape[1]) * 2.0**-9
        return (rows * (1 + noise)).bfloat16().view(torch.uint8)

    def decode_rows(self, data: Tensor, columns: int) -> Tensor:
        return data.view(torch.bfloat16).float()


def without_dropout(model: nn.Module) -> nn.Module:
    """``model``, which drops no values if it is a `Two`."""
    if isinstance(model, Two):
        model.dropout = 0.0
    return model


def for_recipe(model: nn.Module, recipe: str) -> nn.Module:
    """``model``, without dropout where ``recipe`` codes changes: dropped rows change in every epoch."""
    return without_dropout(model) if recipe == "delta" else model


MODELS: dict[str, Callable[[], nn.Module]] = {
    "GCNConv": lambda: Two(pyg.GCNConv, norm=False),
    "SAGEConv and BatchNorm": lambda: Two(pyg.SAGEConv, norm=True),
    "GATConv": lambda: Two(pyg.GATConv, norm=False),
    "GINConv": lambda: Two(lambda i, o: pyg.GINConv(nn.Linear(i, o)), norm=False),
    "TransformerConv": lambda: Two(pyg.TransformerConv, norm=False),
    "SAGEConv max": lambda: Two(lambda i, o: pyg.SAGEConv(i, o, aggr="max"), norm=False),
    "SAGEConv at home": lambda: without_dropout(Two(pyg.SAGEConv, norm=False)),
    "own": Own,
    "DropEdges": Dropping,
}
LAYER = "layer "
"""Stands before the name of one of PyG's layers, which is tried as in `tests/support/pyg_layers.py`."""
OF_USES = ("GatedGraphConv", "RGATConv", "RGATConv multiplicative", "SAGEConv lstm")
"""Layers that `tests/device/test_uses_on_a_device.py` compares: with an operation that torch has for devices alone,
with weights that PyG leaves as it finds them, and one that needs sorted edges."""
IN_A_LOOP = [name for name, case in LAYERS.items() if case.outcome == EQUAL and name not in OF_USES]
"""All other layers whose results are those of plain PyG."""
HETERO = ("HeteroConv SAGE", "HGTConv", "HANConv")
"""Models of several node types."""


def loop_on(device: str, name: str, recipe: str, counts: Counts, epochs: int = 4) -> Outcome:
    """Train a model in a loop of the user's own, on ``device``; the loss is read in every epoch."""
    transport = transport_of(device)
    where = torch.device(device)
    torch.manual_seed(0)
    if name in HETERO:
        model = build_hetero(name)
        typed = cut_hetero(make_hetero(), make_owners(2), transport, where)
        data: Any = typed
        inputs: tuple[Any, ...] = typed.x_dict, typed.edge_index_dict
    else:
        layer = LAYERS[name.removeprefix(LAYER)] if name.startswith(LAYER) else None
        model, names = (MODELS[name](), PLAIN) if layer is None else (layer.build(), layer.inputs)
        graph = list_graph(sort=False)
        data = cut_data({key: graph[key] for key in names}, make_owner(2), transport, where)
        inputs = tuple(data[key] for key in names)
    settings = link_of(recipe_config(recipe, own_model=True))
    model = halowire.distribute(for_recipe(model.to(device), recipe), data, recipe, settings).train()
    optimiser = torch.optim.SGD(model.parameters(), lr=0.01)
    torch.manual_seed(5 + transport.rank)
    waits: list[Counter[tuple[str, str]]] = []
    for _ in range(epochs):
        before = Counter(counts.waits)
        optimiser.zero_grad()
        loss = data.mean(model(*inputs).square())
        loss.backward()
        optimiser.step()
        waits.append(counts.waits - before)
        last = float(loss.detach())
    model.eval()
    with torch.no_grad():
        out = model(*inputs)
    transport.drain()
    weights: dict[str, np.ndarray] = {key: value.cpu().numpy().copy() for key, value in model.state_dict().items()}
    return Outcome(last, {}, weights | {"out": out.cpu().numpy()}, waits, dict(transport.ledger.totals))


def waits_of_plain(rank: int, name: str) -> int:
    """How often the host waits in an epoch of one of PyG's layers on the whole graph, without halowire."""
    model, names = LAYERS[name].build(), LAYERS[name].inputs
    graph = list_graph(sort=False)
    with Simulation() as simulation:
        model.to(SIM)
        inputs = [graph[key].to(SIM) for key in names]
        for _ in range(2):  # the first epoch may keep what later ones use
            before = simulation.counts.waits.total()
            model(*inputs).square().mean().backward()
        return simulation.counts.waits.total() - before


def fit_trainer_on(device: str, config: Config, kind: str, folder: Path, codec: bool = False) -> Trainer:
    """What `fit` makes in a worker: a trainer of a PyG model, on ``device``, with a ``codec`` of one's own."""
    transport = transport_of(device)
    shard, links = part_of(kind, config, transport, torch.device(device))
    data = of_shard(shard, transport, torch.device(device))
    torch.manual_seed(5 + transport.rank)
    model = for_recipe(Two(pyg.GATConv, True, 12, output_width(config, shard.num_classes)), config.recipe)
    runner = own_runner(model, data, config, None, ("x", "edge_index"), links, Half() if codec else None)
    torch.manual_seed(5 + transport.rank)  # on a device only its own generator goes on, not the one that drew weights
    return Trainer(runner, config, transport, folder)


def fit_on(device: str, config: Config, counts: Counts, kind: str = "classes", codec: bool = False) -> Outcome:
    """Train as `fit` does."""
    with tempfile.TemporaryDirectory() as folder:
        trainer = fit_trainer_on(device, config, kind, Path(folder), codec)
        watch = EpochCounts(counts)
        trainer.run(Hooks(watch, keep=False))
    return outcome_of(trainer, watch)


def fit_on_both(rank: int, config: Config, kind: str = "classes", codec: bool = False) -> tuple[Outcome, Outcome]:
    """The same on the simulated device and, with the same torch code, on the CPU."""
    with nccl_simulated() as simulation:
        device = fit_on(SIM, config, simulation.counts, kind, codec)
    with torch_kernels():
        return device, fit_on("cpu", config, Counts(), kind, codec)


def loop_on_both(rank: int, name: str, recipe: str) -> tuple[Outcome, Outcome]:
    """The same loop on the simulated device and, with the same torch code, on the CPU."""
    with nccl_simulated() as simulation:
        device = loop_on(SIM, name, recipe, simulation.counts)
    with torch_kernels():
        return device, loop_on("cpu", name, recipe, Counts())
