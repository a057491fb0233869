"""Several chunks: every gradient equals the slow reference of current and historical rows, over three epochs."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest

from halowire.training import Config, policy_of, travelling_widths
from tests.support.chunk_reference import ChunkReference
from tests.support.epochs import EXACT, Epochs, compare, reference_epochs
from tests.support.parity_graphs import CLASSES, FEATURES, make_graph
from tests.support.stage_case import chunk_epochs, first_weights, make_config, steps_of, train_here, trainer_of
from tests.support.steady import steady


def check(on_workers: Callable, workers: int, config: Config, parts: int, case: str = "plain") -> None:
    config, want = steady(config, partial(chunk_epochs, case=case, parts=parts), EXACT)
    results = on_workers(workers, train_here, case, config)
    for result in results:
        assert len(np.unique(result["chunks"])) == config.mesh.chunks
    compare(results, want)


SWITCHES = [
    pytest.param(parts, shuffle, history, rule, marks=() if shuffle or rule == "double" else pytest.mark.slow)
    for parts in (1, 2)
    for shuffle in (True, False)
    for history in (2, 1)
    for rule in ("double", "position", "unbiased", "stale")
]


@pytest.mark.parametrize(("parts", "shuffle", "history", "rule"), SWITCHES)
def test_every_switch(on_workers, parts, shuffle, history, rule):
    config = make_config(
        "gcnii", 2, mesh__chunks=4, mesh__shuffle=shuffle, mesh__history=history, mesh__gradient_rule=rule
    )
    check(on_workers, 2 * parts, config, parts)


@pytest.mark.parametrize("model", ["gcn", "sage", "gcnii", "resgcn"])
@pytest.mark.parametrize("case", ["plain", "directed-weighted", "sparse"])
@pytest.mark.parametrize("parts", [1, 2])
def test_every_model_and_graph(on_workers, parts, case, model):
    config = make_config(model, 2, mesh__chunks=3, mesh__history=2, model__layers=4)
    check(on_workers, 2 * parts, config, parts, case)


@pytest.mark.parametrize("model", ["gcn", "sage", "gcnii", "resgcn"])
def test_rows_that_do_not_fill_their_buffers(on_workers, model):
    """20 columns, in buffers whose rows begin at multiples of 16: where a row ends the next one does not begin."""
    config = make_config(model, 2, mesh__chunks=3, mesh__history=2, model__hidden=20)
    check(on_workers, 4, config, 2)


@pytest.mark.parametrize("keep", ["all", "aggregates"])
@pytest.mark.parametrize("model", ["gcn", "sage"])
def test_residual(on_workers, model, keep):
    config = make_config(model, 2, mesh__chunks=3, mesh__history=2, mesh__keep=keep, model__residual=0.3)
    check(on_workers, 2, config, 1)


@pytest.mark.parametrize(("workers", "stages"), [(1, 1), (4, 4), (2, 1), (4, 1)])
def test_other_meshes(on_workers, workers, stages):
    config = make_config("resgcn", stages, mesh__chunks=5, mesh__history=2)
    check(on_workers, workers, config, workers // stages)


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
            for name, value in want.items():
                np.testing.assert_array_equal(got[name], value, err_msg=name)


def kept_here(rank: int, config: Config) -> tuple[int, list[str]]:
    """Rows between blocks that wait for backward, and in which order chunks were sent and what was sent waited for."""
    trainer = trainer_of(rank, config)
    runner = trainer.runner
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
    trainer.forward_backward(0)
    trainer.settle()
    return len(kept), told


def test_less_is_kept_and_no_chunk_waits_for_what_was_sent(on_workers):
    chunks = 3
    found = {
        keep: on_workers(2, kept_here, make_config("resgcn", 2, mesh__chunks=chunks, mesh__keep=keep, model__layers=7))
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


def coded_epochs(config: Config, nudge: int) -> Epochs:
    """Two parts whose halo rows in work travel in the code of the settings, own rows never."""
    graph = make_graph("plain")
    owner, steps = steps_of(config, "plain", 2)
    policy = policy_of(config, travelling_widths(config.model, FEATURES, CLASSES), 0)
    reference = ChunkReference(graph, config, first_weights(config, nudge), steps, owner, policy)
    return reference_epochs(reference, config.epochs)


@pytest.mark.parametrize("case", HALOS)
@pytest.mark.parametrize("model", ["gcnii", "sage"])
def test_coded_halos_of_chunks(on_workers, model, case):
    plain = make_config(model, 1, mesh__chunks=3, mesh__history=2, model__norm="none")
    config, want = steady(plain.replace(HALOS[case]), coded_epochs, 1e-3)
    compare(on_workers(2, train_here, "plain", config), want, 1e-3)
