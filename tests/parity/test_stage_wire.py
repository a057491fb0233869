"""Bytes of stage links and halos by their formulas; coded links against a reference; exact resume."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from halowire.events import EVAL, STAGE, TRAIN, read_events
from halowire.kernels import stream_key
from halowire.partitioning import cut, partition
from halowire.training import Config, Hooks, Silent, Staged, Trainer, mesh_of, policy_of
from halowire.training.model_setup import build_model
from halowire.wire import BACKWARD, FORWARD, Transport, column_subset
from tests.parity.test_exact import CLASSES, FEATURES, NODES, make_graph
from tests.parity.test_resume import assert_same
from tests.parity.test_resume import outcome as whole_outcome
from tests.parity.test_stages import EPOCHS, make_config, train_here
from tests.support.deep_reference import DeepReference
from tests.support.wire_reference import quantise

HIDDEN, LAYERS = 16, 5


def trainer_of(rank: int, run: str, config: Config) -> Trainer:
    graph, transport = make_graph("plain"), Transport()
    mesh = mesh_of(config, transport.size)
    shard = cut(graph, partition(graph, mesh.parts, method="random", seed=4))[rank % mesh.parts]
    return Trainer(Staged(shard, shard, config, mesh, transport), config, transport, Path(run))


def bytes_here(rank: int, config: Config) -> tuple[int, int, int, int]:
    """(stage bytes, halo bytes, evaluation bytes) of this worker in one epoch, and its halo rows."""
    trainer = trainer_of(rank, ".", config)
    ledger = trainer.transport.ledger
    with ledger.account(TRAIN):
        trainer.forward_backward(0)
    stage, halo = ledger.totals[STAGE], ledger.totals[TRAIN]
    trainer.logits()
    trainer.transport.settle()
    trainer.runner.peers.settle()
    return stage, halo, ledger.totals[EVAL], trainer.runner.shard.num_halo


@pytest.mark.parametrize("chunks", [1, 3])
@pytest.mark.parametrize("model", ["gcn", "sage", "gcnii", "resgcn"])
def test_bytes_follow_the_formulas(on_workers, model, chunks):
    for workers, stages in ((2, 2), (4, 4), (4, 2), (2, 1)):
        found = on_workers(workers, bytes_here, make_config(model, stages, mesh__chunks=chunks))
        kinds = 2 if model == "gcnii" else 1
        assert sum(f[0] for f in found) == 2 * (stages - 1) * NODES * HIDDEN * 4 * kinds
        halo_rows = sum(f[3] for f in found) // stages
        deep = model in ("gcnii", "resgcn")
        columns = LAYERS * HIDDEN if deep else (LAYERS - 2) * HIDDEN + CLASSES
        assert sum(f[1] for f in found) == 2 * columns * 4 * halo_rows
        assert (halo_rows > 0) == (workers > stages)
        assert sum(f[2] for f in found) == columns * 4 * halo_rows + (stages - 1) * NODES * HIDDEN * 4 * kinds


@pytest.mark.parametrize("chunks", [1, 3])
def test_bytes_of_one_bit(on_workers, chunks):
    config = make_config("gcnii", 2, mesh__chunks=chunks, rate__bits=1, rate__backward_bits=4)
    found = on_workers(4, bytes_here, config)
    row = (HIDDEN // 8 + 4) + (HIDDEN // 2 + 4)
    assert sum(f[0] for f in found) == row * NODES * 2
    assert sum(f[1] for f in found) == row * LAYERS * sum(f[3] for f in found) // 2


class _Link(torch.autograd.Function):
    """The wire between two stages: coded forward, coded backward."""

    @staticmethod
    def forward(ctx, rows: Tensor, code, kind: int) -> Tensor:
        ctx.code, ctx.kind = code, kind
        return code(rows, FORWARD, kind)

    @staticmethod
    def backward(ctx, grad: Tensor) -> tuple[Tensor | None, ...]:
        return ctx.code(grad, BACKWARD, ctx.kind), None, None


class LinkReference(DeepReference):
    """One part, one chunk, two stages with a coded link before block ``border``."""

    def __init__(self, graph, config: Config, weights, border: int) -> None:
        super().__init__(graph, config, weights)
        self.border, self.kept = border, {}
        self.policy = policy_of(config, [HIDDEN] * LAYERS, 0)

    def code(self, epoch: int):
        layer, p = self.border + (self.name in ("gcnii", "resgcn")), self.policy

        def apply(rows: Tensor, direction: str, kind: int) -> Tensor:
            rate, forward = p.rates(epoch, layer, direction), p.rates(epoch, layer, FORWARD)
            count = forward.columns(HIDDEN)
            columns = column_subset(HIDDEN, count, p.seed, epoch, -1 - 2 * layer - kind)
            columns = torch.arange(count) if p.first_columns else columns
            stream = stream_key(p.seed, epoch, layer, 300 + 2 * kind + (direction == BACKWARD))
            rows = rows.detach()
            if p.decay is None or direction == BACKWARD:
                seen = quantise(rows, rate.bits, rate.code, stream, self.graph.ids, columns)
                return seen * (HIDDEN / count) if p.rescale else seen
            kept = self.kept.get(kind, torch.zeros_like(rows))
            change = quantise(rows - p.decay * kept, rate.bits, rate.code, stream, self.graph.ids, columns)
            sent = torch.ones(HIDDEN, dtype=torch.bool) if columns is None else torch.zeros(HIDDEN, dtype=torch.bool)
            sent[slice(None) if columns is None else columns] = True
            self.kept[kind] = torch.where(sent, p.decay * kept + change, kept)
            return self.kept[kind]

        return apply

    def logits(self, epoch: int | None) -> Tensor:
        u, ids = self.enter(slice(None)), self.graph.ids
        h0 = u.relu()
        for block in self.blocks:
            if block == self.border and epoch is not None:
                code = self.code(epoch)
                u = _Link.apply(u, code, 0)
                h0 = _Link.apply(h0, code, 1) if self.name == "gcnii" else h0
            v, a = self.before(u, block, epoch, ids)
            u = self.after(self.a @ a, v, u, h0, block)
        return self.leave(u, epoch, ids)


LINKS = {
    "half": {"rate.bits": 16},
    "1 bit": {"rate.bits": 1},
    "two levels": {"rate.bits": 1, "rate.code": "levels"},
    "both": {"rate.bits": 8, "rate.backward_bits": 1},
    "columns": {"rate.ratio": 3.0},
    "columns x bits": {"rate.ratio": 2.0, "rate.bits": 4},
    "columns, rescaled": {"rate.ratio": 3.0, "rate.rescale": True},
    "the first columns": {"rate.ratio": 2.0, "rate.columns": "first"},
    "delta": {"rate.bits": 4, "rate.decay": 0.8},
    "delta, columns": {"rate.bits": 4, "rate.decay": 0.8, "rate.ratio": 2.0},
}
SEEDS, NUDGE, STEADY = 30, 2e-7, 1e-5


def link_reference(config: Config, nudge: int = 0) -> list[dict[str, Tensor]]:
    """Weight gradients of every epoch; ``nudge``: from weights moved by a rounding error, in one of many ways."""
    weights = dict(build_model(config.model, FEATURES, CLASSES, config.seed).named_parameters())
    if nudge:
        generator = torch.Generator().manual_seed(nudge)
        move = {name: 1 + NUDGE * torch.randn(value.shape, generator=generator) for name, value in weights.items()}
        weights = {name: value.detach() * move[name] for name, value in weights.items()}
    reference = LinkReference(make_graph("plain"), config, weights, border=2)
    return [reference.epoch(epoch)[1] for epoch in range(EPOCHS)]


def distance(got: list[dict], want: list[dict[str, Tensor]]) -> float:
    """The largest difference, of the largest value of its matrix; ``got`` may hold only some of the weights."""
    return max(
        float(np.abs(np.asarray(value) - want[epoch][name].numpy()).max() / want[epoch][name].abs().max())
        for epoch in range(EPOCHS)
        for name, value in got[epoch].items()
    )


def steady(config: Config) -> tuple[Config, list[dict[str, Tensor]]]:
    """The first seed at which rounding carries no value across a step of the code, in the reference itself.

    A code jumps. Where a value lies on a step, the reference moves as far from itself when its weights move by a
    rounding error as any other correct program is from it, and a comparison says nothing.
    """
    for seed in range(SEEDS):
        tried = config.replace({"seed": seed})
        want = link_reference(tried)
        if all(distance(link_reference(tried, nudge), want) <= STEADY for nudge in (1, 2, 3)):
            return tried, want
    raise AssertionError(f"no steady seed below {SEEDS}")


# With LayerNorm rounding decides in places that no seed avoids:
# - GCNII's first block takes the decoded rows themselves. They lie on equally spaced levels, and in some rows so does
#   the mean: LayerNorm makes that value zero, but for rounding, and ReLU lets it pass or not.
# - Backward through LayerNorm and ReLU gives a row of two values gradients of mean zero that are zero, but for
#   rounding, at all its low entries: just where the code of two levels parts low from high.
# - bfloat16 has so many steps that some value always lies on one.
NORMED = [case for case in LINKS if case not in ("two levels", "half")]


@pytest.mark.parametrize(
    ("model", "norm", "case"),
    [(model, "none", case) for model in ("sage", "gcnii") for case in LINKS]
    + [("sage", "layer", case) for case in NORMED]
    + [("gcnii", "layer", "columns")],
)
def test_coded_links_equal_the_reference(on_workers, model, norm, case):
    plain = make_config(model, 2, mesh__split="2,3", model__norm=norm)
    config, want = steady(plain.replace(LINKS[case]))
    results = on_workers(2, train_here, "plain", config)
    for result in results:
        assert distance([epoch[1] for epoch in result["epochs"]], want) <= 2 * STEADY
    exact = on_workers(2, train_here, "plain", plain.replace({"seed": config.seed}))
    first = next(iter(results[0]["epochs"][0][1]))
    assert not np.array_equal(results[0]["epochs"][0][1][first], exact[0]["epochs"][0][1][first])


def outcome(trainer: Trainer, summary: dict) -> dict:
    """What a worker is left with: of the weights those that its stage trains."""
    found, own = whole_outcome(trainer, summary), trainer.runner.parameters
    return found | {kind: {n: v for n, v in found[kind].items() if n in own} for kind in ("weights", "best")}


def resumed_here(rank: int, run: str, config: Config) -> tuple[dict, dict]:
    straight = trainer_of(rank, f"{run}/a", config)
    want = outcome(straight, straight.run())
    first = trainer_of(rank, f"{run}/b", config)
    calls = iter(range(100))
    first.run(Hooks(Silent(), should_stop=lambda: rank == 0 and next(calls) >= 4))
    second = trainer_of(rank, f"{run}/b", config)
    second.resume()
    assert second.progress.epoch == 5
    return want, outcome(second, second.run())


RESUMES = {
    "snapshot": {"mesh.history": 3},
    "last epoch's rows": {"mesh.history": 1, "optim.clip": 0.5},
    "stale": {"mesh.gradient_rule": "stale", "mesh.history": 4, "mesh.keep": "aggregates"},
    "delta": {"rate.bits": 1, "rate.decay": 0.8, "mesh.parts": 1},
    "weights in 8 bits": {"rate.weights": 8},
    "one chunk, delta": {"rate.bits": 1, "rate.decay": 0.8, "mesh.chunks": 1},
}


@pytest.mark.parametrize("case", RESUMES)
def test_an_interrupted_run_ends_like_the_straight_one(on_workers, tmp_path, case):
    config = make_config("gcnii", 2, mesh__chunks=3, epochs=8, eval__every=2).replace(RESUMES[case])
    workers = 2 * (config.mesh.parts or 2)
    results = on_workers(workers, resumed_here, str(tmp_path), config)
    for want, got in results:
        assert_same(got, want, exact_bytes=False)
        for key in ("wire_bytes_per_epoch", "stage_bytes_per_epoch", "halo_bytes_per_epoch"):
            assert got["summary"][key] == want["summary"][key], key
    whole = results[0][1]["summary"]
    assert whole["mesh"]["stages"] == 2 and whole["stage_bytes_per_epoch"] > 0
    total = whole["stage_bytes_per_epoch"] + whole["halo_bytes_per_epoch"]
    assert whole["wire_bytes_per_epoch"] == total
    for rank in range(workers):
        events = read_events(tmp_path / "a" / f"events-{rank}.jsonl")
        timeline = next(event for event in events if event["event"] == "timeline")
        kinds = {span[0] for span in timeline["spans"]}
        assert {"forward", "backward", "wait", "transfer"} <= kinds
        assert all(start <= end for *_, start, end in timeline["spans"])
