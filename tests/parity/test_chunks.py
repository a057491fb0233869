"""Several chunks: every gradient equals the slow reference of current and historical rows, over three epochs."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pytest
import torch

from halowire.partitioning import cut, partition
from halowire.schedules import Chunks
from halowire.training import Config, Staged, Trainer, mesh_of, policy_of, travelling_widths
from halowire.training.model_setup import build_model
from halowire.wire import Transport
from tests.parity.test_exact import CLASSES, FEATURES, assert_close, make_graph
from tests.parity.test_stages import EPOCHS, make_config, train_here
from tests.support.chunk_reference import ChunkReference


def steps_of(results: list[dict], config: Config, epoch: int, parts: int) -> list[torch.Tensor]:
    """Rows in work in every step, from what the first stage of every part says of its chunks."""
    orders = [Chunks((0,) * (config.mesh.chunks + 1), part, config.seed, config.mesh.shuffle) for part in range(parts)]
    found = []
    for step in range(config.mesh.chunks):
        rows = []
        for part in range(parts):
            chunk = orders[part].order(epoch)[step]
            rows.append(results[part]["rows"][results[part]["chunks"] == chunk])
        found.append(torch.from_numpy(np.concatenate(rows)))
    return found


def compare(results: list[dict], case: str, config: Config, parts: int) -> None:
    model = build_model(config.model, FEATURES, CLASSES, config.seed)
    reference = ChunkReference(make_graph(case), config, dict(model.named_parameters()))
    last = [result for result in results if result["last"]]
    rows = np.concatenate([result["rows"] for result in last])
    for result in results:
        assert len(np.unique(result["chunks"])) == config.mesh.chunks
    for epoch in range(EPOCHS):
        loss, grads = reference.chunked_epoch(epoch, steps_of(results, config, epoch, parts))
        with torch.no_grad():
            want = reference.logits(None).numpy()
        got = np.empty_like(want)
        got[rows] = np.concatenate([result["epochs"][epoch][2] for result in last])
        for result in results:
            assert_close(f"loss of epoch {epoch}", np.array([result["epochs"][epoch][0]]), np.array([loss]))
            for name, grad in result["epochs"][epoch][1].items():
                assert_close(f"gradient of {name} in epoch {epoch}", grad, grads[name].numpy())
        assert_close(f"logits after epoch {epoch}", got, want)


@pytest.mark.parametrize("rule", ["double", "position", "unbiased", "stale"])
@pytest.mark.parametrize("history", [2, 1])
@pytest.mark.parametrize("shuffle", [True, False])
@pytest.mark.parametrize("parts", [1, 2])
def test_every_switch(on_workers, parts, shuffle, history, rule):
    config = make_config(
        "gcnii", 2, mesh__chunks=4, mesh__shuffle=shuffle, mesh__history=history, mesh__gradient_rule=rule
    )
    compare(on_workers(2 * parts, train_here, "plain", config), "plain", config, parts)


@pytest.mark.parametrize("model", ["gcn", "sage", "gcnii", "resgcn"])
@pytest.mark.parametrize("case", ["plain", "directed-weighted", "sparse"])
@pytest.mark.parametrize("parts", [1, 2])
def test_every_model_and_graph(on_workers, parts, case, model):
    config = make_config(model, 2, mesh__chunks=3, mesh__history=2, model__layers=4)
    compare(on_workers(2 * parts, train_here, case, config), case, config, parts)


@pytest.mark.parametrize("model", ["gcn", "sage", "gcnii", "resgcn"])
def test_rows_that_do_not_fill_their_buffers(on_workers, model):
    """20 columns, in buffers whose rows begin at multiples of 16: where a row ends the next one does not begin."""
    config = make_config(model, 2, mesh__chunks=3, mesh__history=2, model__hidden=20)
    compare(on_workers(4, train_here, "plain", config), "plain", config, 2)


@pytest.mark.parametrize("keep", ["all", "aggregates"])
@pytest.mark.parametrize("model", ["gcn", "sage"])
def test_residual(on_workers, model, keep):
    config = make_config(model, 2, mesh__chunks=3, mesh__history=2, mesh__keep=keep, model__residual=0.3)
    compare(on_workers(2, train_here, "plain", config), "plain", config, 1)


@pytest.mark.parametrize(("workers", "stages"), [(1, 1), (4, 4), (2, 1), (4, 1)])
def test_other_meshes(on_workers, workers, stages):
    config = make_config("resgcn", stages, mesh__chunks=5, mesh__history=2)
    compare(on_workers(workers, train_here, "plain", config), "plain", config, workers // stages)


@pytest.mark.parametrize("model", ["gcn", "sage", "gcnii", "resgcn"])
@pytest.mark.parametrize(("layers", "chunks"), [(5, 3), (21, 1)])
def test_keeping_less_gives_the_same_bits(on_workers, model, layers, chunks):
    """Also where a stage has several segments of four blocks, and none at its end."""
    results = [
        on_workers(
            2, train_here, "plain", make_config(model, 2, mesh__chunks=chunks, mesh__keep=keep, model__layers=layers)
        )
        for keep in ("all", "aggregates")
    ]
    for all_kept, rows_kept in zip(*results, strict=True):
        for want, got in zip(all_kept["epochs"], rows_kept["epochs"], strict=True):
            assert want[0] == got[0]
            for name, grad in want[1].items():
                np.testing.assert_array_equal(got[1][name], grad, err_msg=name)


def kept_here(rank: int, config: Config) -> tuple[int, list[str]]:
    """Rows between blocks that wait for backward, and in which order chunks were sent and what was sent waited for."""
    graph, transport = make_graph("plain"), Transport()
    mesh = mesh_of(config, transport.size)
    shard = cut(graph, partition(graph, mesh.parts, method="random", seed=4))[rank % mesh.parts]
    runner = Staged(shard, shard, config, mesh, transport)
    engine, line, kept, told = runner.pipeline, runner.seat.line, [], []
    backward, dispatch, wait = engine._backward, line.dispatch, line.wait
    sent = {}

    def watched_backward(side, rows, trace, *place):
        kept.extend(matrix for one in trace.kept for matrix in (one.u, one.v) if matrix is not None)
        backward(side, rows, trace, *place)

    def watched_dispatch(pending, pieces):
        dispatch(pending, pieces)
        if pieces:
            found = line._outgoing[pending.sent.data_ptr()]
            sent[id(found)] = found
            told.append("sent")

    def watched_wait(pending):
        told.append("left" if id(pending) in sent else "arrived")
        return wait(pending)

    engine._backward, line.dispatch, line.wait = watched_backward, watched_dispatch, watched_wait
    trainer = Trainer(runner, config, transport, Path(tempfile.mkdtemp()))
    trainer.forward_backward(0)
    trainer.settle()
    return len(kept), told


def test_less_is_kept_and_no_chunk_waits_for_what_was_sent(on_workers):
    chunks = 3
    found = {
        keep: on_workers(2, kept_here, make_config("resgcn", 2, mesh__chunks=chunks, mesh__keep=keep))
        for keep in ("all", "aggregates")
    }
    for (all_kept, told), (rows_kept, _) in zip(found["all"], found["aggregates"], strict=True):
        assert 0 < rows_kept < all_kept / 2
        sent, left = ([place for place, word in enumerate(told) if word == kind] for kind in ("sent", "left"))
        assert len(sent) == len(left) == chunks and max(sent) < min(left)


HALOS = {
    "half": {"rate.bits": 16},
    "1 bit": {"rate.bits": 1, "rate.backward_bits": 4},
    "columns": {"rate.ratio": 2.0},
    "columns x bits": {"rate.ratio": 2.0, "rate.bits": 8},
    "columns, rescaled": {"rate.ratio": 2.0, "rate.rescale": True},
    "the first columns": {"rate.ratio": 2.0, "rate.columns": "first"},
}


@pytest.mark.parametrize("case", HALOS)
@pytest.mark.parametrize("model", ["gcnii", "sage"])
def test_coded_halos_of_chunks(on_workers, model, case):
    """One stage, two parts: halo rows in work travel in the code of the settings, own rows never."""
    config = make_config(model, 1, mesh__chunks=3, mesh__history=2, model__norm="none").replace(HALOS[case])
    results = on_workers(2, train_here, "plain", config)
    graph = make_graph("plain")
    owner = torch.empty(graph.num_nodes, dtype=torch.int64)
    for part, result in enumerate(results):
        owner[torch.from_numpy(result["rows"])] = part
    weights = dict(build_model(config.model, FEATURES, CLASSES, config.seed).named_parameters())
    policy = policy_of(config, travelling_widths(config.model, FEATURES, CLASSES), 0)
    reference = ChunkReference(graph, config, weights, owner, policy)
    for epoch in range(EPOCHS):
        _, grads = reference.chunked_epoch(epoch, steps_of(results, config, epoch, 2))
        for result in results:
            for name, got in result["epochs"][epoch][1].items():
                want = grads[name].numpy()
                worst, limit = np.abs(got - want).max(), 1e-3 * np.abs(want).max()
                assert worst <= limit, f"{name} in epoch {epoch}: differs by {worst}, allowed {limit}"
