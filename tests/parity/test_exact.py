"""N workers equal one: logits, loss and every weight gradient, element by element, against a dense reference."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pytest
import torch

from halowire.graph import Graph, block_model
from halowire.kernels import Csr
from halowire.partitioning import Partition, cut, partition
from halowire.training import EXTRAS, Config, GraphParallel, Trainer
from halowire.training.flat import FlatGradients
from halowire.training.model_setup import build_model
from halowire.wire import Transport
from tests.support.reference import GatReference, Reference

NODES, EDGES, FEATURES, CLASSES = 300, 2400, 12, 5
LANES = ("lane", "directed lane", "islands")


def make_lane(case: str) -> Graph:
    """Neighbours have nearby numbers, so that ranges of nodes have few boundary rows and a large interior.

    In ``islands`` the last third has no edge to the others: of three workers, the last has nothing to send or receive.
    """
    graph = block_model(NODES, EDGES, FEATURES, CLASSES, seed=3)
    nodes = torch.arange(NODES)
    edges = torch.cat([torch.stack([nodes[:-step], nodes[step:]]) for step in (1, 2, 5)], 1)
    if case == "islands":
        edges = edges[:, (edges >= 2 * NODES // 3).sum(0) != 1]
    if case != "directed lane":
        edges = torch.cat([edges, edges.flip(0)], 1)
    masks = {name: getattr(graph, name) for name in ("train_mask", "val_mask", "test_mask")}
    return Graph.from_edge_index(edges, NODES, x=graph.x, y=graph.y, **masks, num_classes=CLASSES, name=case)


def make_graph(case: str) -> Graph:
    if case in LANES:
        return make_lane(case)
    graph = block_model(NODES, EDGES, FEATURES, CLASSES, seed=3, multi_label=case == "multi-label")
    if case == "sparse":
        # Few enough to stay sparse: fuller rows are multiplied as a dense matrix.
        rows, cols = (graph.x > graph.x.quantile(0.85)).nonzero(as_tuple=True)
        x = Csr.from_edges(rows, cols, NODES, FEATURES, graph.x[rows, cols])
        graph = Graph.from_edge_index(
            graph.edge_index(),
            NODES,
            x=x,
            y=graph.y,
            train_mask=graph.train_mask,
            val_mask=graph.val_mask,
            test_mask=graph.test_mask,
            num_classes=CLASSES,
            name="sparse",
        )
    if case in ("directed-weighted", "directed"):
        kept = torch.rand(graph.num_edges, generator=torch.Generator().manual_seed(1)) < 0.6
        edge_index = graph.edge_index()[:, kept]
        edge_index = torch.cat([edge_index, torch.tensor([[0, 5, 7, 7], [0, 5, 8, 8]])], 1)  # self loops, duplicates
        weight = torch.rand(edge_index.shape[1], generator=torch.Generator().manual_seed(2)) + 0.1
        ids = torch.arange(NODES) * 7 + 1_000_000_007
        graph = Graph.from_edge_index(
            edge_index,
            NODES,
            x=graph.x,
            y=graph.y,
            train_mask=graph.train_mask,
            val_mask=graph.val_mask,
            test_mask=graph.test_mask,
            edge_weight=weight if case == "directed-weighted" else None,
            ids=ids,
            num_classes=CLASSES,
            name="directed",
        )
    return graph


def make_config(model: str, norm: str = "layer", layers: int = 3, hidden: int = 16) -> Config:
    return Config().replace(
        {
            "model.name": model,
            "model.hidden": hidden,
            "model.layers": layers,
            "model.norm": norm,
            "seed": 11,
            "epochs": 5,
        }
    )


def train_here(rank: int, case: str, method: str, config: Config) -> dict[str, object]:
    """One worker's part: the rows it owns, and loss, logits and gradients of every epoch."""
    graph = make_graph(case)
    transport = Transport()
    if method == "equal ranges":
        parts = Partition(torch.arange(NODES) * transport.size // NODES, transport.size)
    else:
        parts = partition(graph, transport.size, method=method, seed=4)
    shard = cut(graph, parts)[rank]
    view = GraphParallel(shard, shard, config, transport)
    trainer = Trainer(view, config, transport, Path(tempfile.mkdtemp()))
    trainer.flat = FlatGradients(trainer.parameters, EXTRAS, transport, smallest=64)  # many pieces, launched early
    names = [name for name, _ in trainer.model.named_parameters()]
    record: dict[str, object] = {"rows": shard.rows.numpy(), "head": view.boundary, "epochs": []}
    for epoch in range(config.epochs):
        loss = trainer.forward_backward(epoch)
        total = trainer.flat.reduce([float(loss)] + [0.0] * (EXTRAS - 1))[0]
        grads = {name: p.grad.numpy().copy() for name, p in zip(names, trainer.parameters, strict=True)}
        trainer.optimiser.step()
        record["epochs"].append((total, grads, trainer.logits().numpy().copy()))
    transport.settle()  # a worker that only sends may be done before its last message has left
    return record


def assert_close(name: str, got: np.ndarray, want: np.ndarray) -> None:
    worst, limit = float(np.abs(got - want).max()), 1e-4 * float(np.abs(want).max())
    assert worst <= limit, f"{name}: differs by {worst}, allowed {limit}"


def compare(results: list[dict[str, object]], case: str, config: Config) -> None:
    graph = make_graph(case)
    model = build_model(config.model, FEATURES, CLASSES, config.seed)
    reference = (GatReference if config.model.name == "gat" else Reference)(
        graph, config.model.name, model.state_dict(), config.model.dropout, config.seed, config.optim.lr
    )
    rows = np.concatenate([result["rows"] for result in results])
    assert np.array_equal(np.sort(rows), np.arange(NODES))
    for epoch in range(config.epochs):
        loss, grads, _ = reference.epoch(epoch)
        with torch.no_grad():
            want = reference.logits(epoch, training=False).numpy()
        got = np.empty_like(want)
        got[rows] = np.concatenate([result["epochs"][epoch][2] for result in results])
        assert_close(f"logits after epoch {epoch}", got, want)
        for result in results:
            assert_close(f"loss of epoch {epoch}", np.array([result["epochs"][epoch][0]]), np.array([loss]))
            for name, grad in grads.items():
                assert_close(f"gradient of {name} in epoch {epoch}", result["epochs"][epoch][1][name], grad.numpy())


@pytest.mark.parametrize("method", ["metis", "random"])
@pytest.mark.parametrize("model", ["gcn", "sage", "gat"])
@pytest.mark.parametrize("workers", [1, 2, 3, 4])
def test_workers_equal_the_dense_reference(on_workers, workers, model, method):
    config = make_config(model)
    compare(on_workers(workers, train_here, "plain", method, config), "plain", config)


@pytest.mark.parametrize(
    ("case", "model"),
    [
        *((case, model) for case in ("multi-label", "sparse", "directed-weighted") for model in ("gcn", "sage")),
        *((case, "gat") for case in ("multi-label", "sparse", "directed")),
    ],
)
@pytest.mark.parametrize("workers", [1, 3])
def test_every_kind_of_graph(on_workers, workers, case, model):
    config = make_config(model)
    compare(on_workers(workers, train_here, case, "random", config), case, config)


@pytest.mark.parametrize("method", ["metis", "random"])
@pytest.mark.parametrize("model", ["gcn", "sage"])
@pytest.mark.parametrize("workers", [2, 4])
def test_several_labels_per_node(on_workers, workers, model, method):
    config = make_config(model)
    compare(on_workers(workers, train_here, "multi-label", method, config), "multi-label", config)


@pytest.mark.parametrize("layers", [1, 2])
def test_shallow_models_without_norm(on_workers, layers):
    config = make_config("sage", norm="none", layers=layers)
    compare(on_workers(2, train_here, "plain", "random", config), "plain", config)


@pytest.mark.parametrize("out", ["narrowing", "widening"])
@pytest.mark.parametrize("model", ["gcn", "sage", "gat"])
@pytest.mark.parametrize("case", LANES)
def test_large_interiors(on_workers, case, model, out):
    config = make_config(model, hidden=16 if out == "narrowing" else 4)
    results = on_workers(3, train_here, case, "equal ranges", config)
    heads = [result["head"] for result in results]
    assert max(heads) < NODES // 6, "most rows must be interior here"
    assert (min(heads) == 0) == (case == "islands")
    compare(results, case, config)
