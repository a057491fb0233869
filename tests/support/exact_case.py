"""Graph parallelism on the graphs of `parity_graphs`, and the dense references of what it must give."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import torch

from halowire.partitioning import Partition, cut
from halowire.training import EXTRAS, Config, GraphParallel, Trainer
from halowire.training.flat import FlatGradients
from halowire.training.model_setup import build_model
from halowire.training.recipes import AS_PUBLISHED
from tests.support.epochs import compare, reference_epochs, train_epochs
from tests.support.machines import transport_for
from tests.support.parity_graphs import CLASSES, FEATURES, NODES, cut_graph, make_graph
from tests.support.reference import GatReference, Reference


def make_config(model: str, norm: str = "layer", layers: int = 3, hidden: int = 16) -> Config:
    """Settings under which all rows travel."""
    settings = {"model.name": model, "model.hidden": hidden, "model.layers": layers, "model.norm": norm}
    return Config().replace(settings | {"seed": 11, "epochs": 5} | AS_PUBLISHED)


def train_here(rank: int, case: str, method: str, config: Config) -> dict[str, Any]:
    """One worker's part: the rows it owns, and loss, logits and gradients of every epoch."""
    graph, transport = make_graph(case), transport_for(config)
    if method == "equal ranges":
        shards = cut(graph, Partition(torch.arange(NODES) * transport.size // NODES, transport.size))
    else:
        shards = cut_graph(graph, transport.size, method)
    view = GraphParallel(shards[rank], shards[rank], config, transport)
    trainer = Trainer(view, config, transport, Path(tempfile.mkdtemp()))
    trainer.flat = FlatGradients(trainer.parameters, EXTRAS, transport, smallest=64)  # many pieces, launched early
    return train_epochs(trainer, config.epochs) | {"head": view.boundary}


def compare_dense(results: list[dict[str, Any]], case: str, config: Config) -> None:
    """Every worker has all gradients of the dense reference, and they have its logits together."""
    weights = build_model(config.model, FEATURES, CLASSES, config.seed).state_dict()
    kind = GatReference if config.model.name == "gat" else Reference
    reference = kind(make_graph(case), config.model.name, weights, config.model.dropout, config.seed, config.optim.lr)
    want = reference_epochs(reference, config.epochs)
    assert all(result["epochs"][0].keys() == want[0].keys() for result in results)
    compare(results, want)
