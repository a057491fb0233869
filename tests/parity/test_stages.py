"""One chunk, any mesh: logits, loss and every weight gradient equal the dense reference, element by element."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch

from halowire.partitioning import partition, read_shard, write_shards
from halowire.training import Config, Staged, Trainer, mesh_of
from halowire.wire import Transport
from tests.support import exact_case
from tests.support.deep_reference import DeepReference
from tests.support.epochs import EXACT, compare, train_epochs
from tests.support.parity_graphs import make_graph
from tests.support.stage_case import deep_epochs, first_weights, make_config, train_here
from tests.support.steady import steady


def check(on_workers: Callable, workers: int, config: Config, case: str = "plain", kind=DeepReference) -> None:
    config, want = steady(config, partial(deep_epochs, case=case, kind=kind), EXACT)
    compare(on_workers(workers, train_here, case, config), want)


@pytest.mark.parametrize("model", ["gcn", "sage", "gcnii", "resgcn"])
@pytest.mark.parametrize(("workers", "stages"), [(1, 1), (2, 2), (4, 4), (4, 2), (2, 1)])
def test_one_chunk_is_exact(on_workers, workers, stages, model):
    check(on_workers, workers, make_config(model, stages))


@pytest.mark.parametrize("model", ["gcn, residual", "sage, residual", "gcnii", "resgcn"])
@pytest.mark.parametrize(("workers", "case"), [(1, "plain"), (2, "plain"), (3, "sparse"), (4, "directed-weighted")])
def test_boundary_first_runs_every_model(on_workers, workers, case, model):
    name, _, residual = model.partition(", ")
    config = make_config(name, 1, model__residual=0.3 if residual else 0.0)
    config, want = steady(config, partial(deep_epochs, case=case), EXACT)
    compare(on_workers(workers, exact_case.train_here, case, "random", config), want)


@pytest.mark.parametrize("model", ["gcn", "sage", "gcnii", "resgcn"])
@pytest.mark.parametrize("case", ["directed-weighted", "sparse"])
def test_directed_and_sparse(on_workers, case, model):
    check(on_workers, 4, make_config(model, 2, model__layers=3), case)


@pytest.mark.parametrize("model", ["gcn", "sage"])
@pytest.mark.parametrize(("workers", "stages"), [(1, 1), (4, 2)])
def test_residual(on_workers, workers, stages, model):
    check(on_workers, workers, make_config(model, stages, model__residual=0.3, model__norm="none"))


@pytest.mark.parametrize("model", ["gcnii", "resgcn"])
def test_a_hundred_and_more_layers(on_workers, model):
    check(on_workers, 4, make_config(model, 4, model__layers=128, model__hidden=8))


def test_stages_split_by_measured_costs(on_workers):
    check(on_workers, 2, make_config("sage", 2, mesh__costs="measured"))


class ClippedReference(DeepReference):
    """With gradients of at most the norm that the settings ask for, all parameters together."""

    def step(self) -> dict[str, torch.Tensor]:
        torch.nn.utils.clip_grad_norm_(list(self.weights.values()), self.config.optim.clip)
        return super().step()


def test_the_norm_of_a_clipped_gradient_is_that_of_all_stages(on_workers):
    check(on_workers, 4, make_config("gcnii", 2, optim__clip=1e-3), kind=ClippedReference)


def test_gcnii_with_a_norm_and_resgcn_without(on_workers):
    for model, norm in (("gcnii", "layer"), ("resgcn", "none")):
        check(on_workers, 2, make_config(model, 2, model__norm=norm))


def inductive_here(rank: int, shards: str, config: Config) -> dict[str, object]:
    transport = Transport()
    mesh = mesh_of(config, transport.size)
    train, whole = (read_shard(shards, rank % mesh.parts, train=train) for train in (True, False))
    runner = Staged(train, whole, config, mesh, transport)
    return train_epochs(Trainer(runner, config, transport, Path(tempfile.mkdtemp())), 1)


@pytest.mark.parametrize("model", ["sage", "gcnii"])
@pytest.mark.parametrize("empty", [False, True])
def test_inductive_training_sees_training_nodes_only(on_workers, tmp_path, model, empty):
    """Also where one part has no training node at all."""
    config, graph = make_config(model, 2, task__inductive=True), make_graph("plain")
    parts = partition(graph, 2, method="random")
    if empty:
        parts = replace(parts, owner=torch.where(graph.train_mask, 0, parts.owner))
    shards = write_shards(graph, parts, tmp_path / "shards", inductive=True)
    results = on_workers(4, inductive_here, str(shards), config)
    reference = DeepReference(graph.subgraph(graph.train_mask), config, first_weights(config))
    loss, grads = reference.epoch(0)
    with torch.no_grad():
        logits = DeepReference(graph, config, reference.weights).logits(None)
    want = {"loss": torch.tensor([loss]), "logits": logits} | grads
    compare(results, [{name: value.numpy() for name, value in want.items()}])
