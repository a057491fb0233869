"""Graph parallelism over every kind of wire, and its slow reference: a small graph, how it is trained, its result."""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import torch
import torch.nn.functional as F

from halowire.graph import Graph, block_model
from halowire.partitioning import partition
from halowire.training import Config, GraphParallel, Trainer, policy_of, trained_part
from halowire.training.model_setup import build_model
from halowire.training.recipes import AS_PUBLISHED
from halowire.training.row_age import sends_narrow
from halowire.wire import Policy
from tests.support.epochs import Epochs, train_epochs
from tests.support.machines import transport_for
from tests.support.parity_graphs import cut_graph, lane_edges, node_tensors
from tests.support.reference import dense_adjacency, dropout_factor
from tests.support.steady import nudged
from tests.support.wire_reference import DenseWire, base_bits

NODES, FEATURES, HIDDEN, CLASSES, EPOCHS = 150, 8, 20, 4, 4
# Told as losses to what follows the loss: they fall ever more slowly until epoch 5, then ever faster, so that bits rise
# in epoch 6 and fall in epochs 10 and 11.
STEERING = [100.0, 50.0, 55.0, 61.0, 68.0, 76.0, 65.0, 53.0, 40.0, 26.0, 11.0, -5.0]
BASE = {"model.hidden": HIDDEN, "seed": 5, "epochs": EPOCHS, "model.norm": "none"} | AS_PUBLISHED


def make_graph(method: str = "random") -> Graph:
    """Random parts are all boundary; ranges of a graph whose neighbours have nearby numbers are nearly all interior."""
    graph = block_model(NODES, 1200, FEATURES, CLASSES, seed=3)
    if method == "random":
        return graph
    edges = lane_edges(NODES)
    return Graph.from_edge_index(torch.cat([edges, edges.flip(0)], 1), NODES, **node_tensors(graph))


def make_config(settings: dict[str, object]) -> Config:
    return Config().replace(BASE | settings)


def train_here(rank: int, config: Config, method: str = "random", piece_rows: int = 4) -> dict[str, Any]:
    """Few rows make a message that leaves in pieces, so that all cases do unless they ask for whole ones."""
    with mock.patch("halowire.training.model_setup.Policy", partial(Policy, piece_rows=piece_rows)):
        transport = transport_for(config)
        shard = cut_graph(make_graph(method), transport.size, method)[rank]
        train = trained_part(shard, config)
        trainer = Trainer(GraphParallel(train, shard, config, transport), config, transport, Path(tempfile.mkdtemp()))
        return train_epochs(trainer, config.epochs, STEERING)


def bytes_sent(results: list[dict[str, Any]], epoch: int) -> int:
    """By all workers."""
    return sum(result["sent"][epoch] for result in results)


def in_degree(graph: Graph) -> torch.Tensor:
    source, target = graph.edge_index()
    return torch.bincount(target[source != target], minlength=NODES) + 1


def wire_epochs(config: Config, nudge: int, workers: int, method: str = "random") -> Epochs:
    """Weight gradients of every epoch, from dense matrices.

    The larger a nudge, the more places it shows where rounding decides; but with the many steps of bfloat16, and over
    many epochs, a large one always finds such a place.
    """
    graph = make_graph(method)
    owner = partition(graph, workers, method=method, seed=4).owner
    first = build_model(config.model, FEATURES, CLASSES, config.seed).state_dict()
    size = 5e-7 if config.rate.bits == 16 or config.epochs > EPOCHS else 2e-6
    weights = {name: value.requires_grad_() for name, value in nudged(first, nudge, size).items()}
    a = dense_adjacency(graph, "mean" if config.model.name == "sage" else "symmetric")
    narrow = sends_narrow(config)
    policy = policy_of(config, [HIDDEN, CLASSES if narrow else HIDDEN], 0, input_width=FEATURES)
    wire = DenseWire(a, owner, graph.ids, policy, in_degree(graph))
    optimiser = torch.optim.Adam(list(weights.values()), lr=config.optim.lr)
    found = []
    for epoch in range(config.epochs):
        optimiser.zero_grad()
        h, undropped, mask = graph.x, None, None
        for layer in range(3):
            w = {key.split(".", 2)[2]: v for key, v in weights.items() if key.startswith(f"blocks.{layer}.")}
            weight = w["conv.weight"]
            narrows = narrow and weight.shape[0] < weight.shape[1]
            if layer == 1 and config.wire.first_layer == "local":
                out = a @ h @ weight.T
            elif layer == 0:
                out = (wire.product(h, epoch, 0, None, None) if config.rate.resend_input else a @ h) @ weight.T
            elif narrows:
                out = wire.product(h @ weight.T, epoch, layer, None, None)
            else:
                out = wire.product(h, epoch, layer, undropped, mask) @ weight.T
            out = out + w["conv.bias"] + (h @ w["conv.weight_self"].T if "conv.weight_self" in w else 0)
            if layer < 2:
                out = out.relu()
                if policy.undropped:
                    undropped = out.detach()
                    mask = dropout_factor(0.5, config.seed, epoch, layer, graph.ids, out.shape[1])
                out = out * dropout_factor(0.5, config.seed, epoch, layer, graph.ids, out.shape[1])
            h = out
        F.cross_entropy(h[graph.train_mask], graph.y[graph.train_mask]).backward()
        if policy.base is not None:
            bits, synchronous = base_bits(STEERING[: epoch + 1], config.rate.bits)
            policy.base.history.append(bits)
            wire.adaptive = synchronous and config.freshness.mode == "adaptive"
        found.append({name: value.grad.numpy().copy() for name, value in weights.items()})
        optimiser.step()
    return found
