"""Bytes of stage links and halos by their formulas; evaluation stays exact over coded links; errors are booked."""

from __future__ import annotations

import pytest
import torch

from halowire.events import EVAL, STAGE, TRAIN
from halowire.training import EXTRAS, Config
from halowire.wire import HEADER_BYTES
from tests.support.deep_reference import DeepReference
from tests.support.epochs import assert_close
from tests.support.parity_graphs import CLASSES, NODES, make_graph
from tests.support.stage_case import HIDDEN, LAYERS, make_config, trainer_of


def bytes_here(rank: int, config: Config) -> tuple[int, int, int, int, int, int]:
    """(stage bytes, halo bytes, evaluation bytes) of this worker in one epoch, its halo rows, the messages of one of
    its exchanges, chunk by chunk, and the peers that it sends to."""
    trainer = trainer_of(rank, config)
    ledger = trainer.transport.ledger
    with ledger.account(TRAIN):
        trainer.forward_backward(0)
    stage, halo = ledger.totals[STAGE], ledger.totals[TRAIN]
    trainer.logits()
    trainer.settle()
    shard, chunks = trainer.runner.shard, trainer.runner.pipeline.train.chunks.numbers()
    lists = torch.split(chunks[shard.send_index], list(shard.send_counts))
    messages = sum(len(rows.unique()) for rows in lists)
    peers = sum(count > 0 for count in shard.send_counts)
    return stage, halo, ledger.totals[EVAL], shard.num_halo, messages, peers


@pytest.mark.parametrize("chunks", [1, 3])
@pytest.mark.parametrize("model", ["gcn", "sage", "gcnii", "resgcn"])
def test_bytes_follow_the_formulas(on_workers, model, chunks):
    for workers, stages in ((2, 2), (4, 4), (4, 2), (2, 1)):
        found = on_workers(workers, bytes_here, make_config(model, stages, mesh__chunks=chunks))
        kinds = 2 if model == "gcnii" else 1
        borders = (stages - 1) * kinds * workers // stages
        crossing = 2 * (stages - 1) * NODES * HIDDEN * 4 * kinds
        assert sum(f[0] for f in found) == crossing + 2 * borders * chunks * HEADER_BYTES
        halo_rows = sum(f[3] for f in found) // stages
        deep = model in ("gcnii", "resgcn")
        columns = LAYERS * HIDDEN if deep else (LAYERS - 2) * HIDDEN + CLASSES
        exchanges = LAYERS if deep else LAYERS - 1
        headers = exchanges * HEADER_BYTES * sum(f[4] for f in found) // stages
        assert sum(f[1] for f in found) == 2 * (columns * 4 * halo_rows + headers)
        assert (halo_rows > 0) == (workers > stages)
        headers = HEADER_BYTES * (exchanges * sum(f[5] for f in found) // stages + borders)
        assert sum(f[2] for f in found) == columns * 4 * halo_rows + crossing // 2 + headers


@pytest.mark.parametrize("chunks", [1, 3])
def test_bytes_of_one_bit(on_workers, chunks):
    config = make_config("gcnii", 2, mesh__chunks=chunks, rate__bits=1, rate__backward_bits=4)
    found = on_workers(4, bytes_here, config)
    row = (HIDDEN // 8 + 4) + (HIDDEN // 2 + 4)
    assert sum(f[0] for f in found) == row * NODES * 2 + 2 * 2 * 2 * chunks * HEADER_BYTES
    headers = 2 * LAYERS * HEADER_BYTES * sum(f[4] for f in found) // 2
    assert sum(f[1] for f in found) == row * LAYERS * sum(f[3] for f in found) // 2 + headers


def evaluated_here(rank: int, config: Config) -> dict[str, object]:
    """Train one epoch over coded links, then evaluate: rows, logits, trained parameters, bytes of the evaluation."""
    trainer = trainer_of(rank, config)
    with trainer.transport.ledger.account(TRAIN):
        trainer.forward_backward(0)
        trainer.flat.reduce([0.0] * EXTRAS)
        trainer.optimiser.step()
    logits = trainer.logits().numpy().copy()
    found = {"rows": trainer.runner.shard.rows.numpy(), "logits": logits}
    found["weights"] = {name: p.detach().numpy().copy() for name, p in trainer.runner.parameters.items()}
    found["bytes"] = trainer.transport.ledger.totals[EVAL]
    found["errors"] = list(trainer.transport.ledger.now.errors.values())
    trainer.settle()
    return found | {"under way": len(trainer.runner.peers._outgoing)}


def test_evaluation_is_exact_under_coded_links(on_workers):
    config = make_config("gcnii", 2, mesh__chunks=3, rate__bits=1, rate__code="levels", rate__decay=0.8)
    results = on_workers(2, evaluated_here, config)
    weights = {name: torch.from_numpy(w) for result in results for name, w in result["weights"].items()}
    with torch.no_grad():
        want = DeepReference(make_graph("plain"), config, weights).logits(None).numpy()
    last = results[-1]
    assert_close("logits", last["logits"], want[last["rows"]])
    assert sum(result["bytes"] for result in results) == 2 * (NODES * HIDDEN * 4 + HEADER_BYTES)


@pytest.mark.parametrize("ratio", [1.0, 2.0])
def test_the_error_of_halos_and_links_is_booked(on_workers, ratio):
    settings = {"mesh.chunks": 2, "rate.bits": 8, "rate.ratio": ratio, "rate.rescale": ratio > 1}
    results = on_workers(4, evaluated_here, make_config("resgcn", 2).replace(settings))
    for result in results:
        assert result["under way"] == 0 and len(result["errors"]) >= LAYERS
        # 8 bits alone lose little; half of the columns, the rest doubled, lose about as much as the rows hold.
        assert all(0 < error < 1e-3 if ratio == 1 else 0.3 < error < 3 for error in result["errors"])
