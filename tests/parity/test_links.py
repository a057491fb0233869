"""Link prediction on many workers equals one process: loss, gradients of every row, metrics; its bytes are counted."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F

from halowire.errors import InputError
from halowire.events import EVAL, TRAIN
from halowire.graph import Graph, LinkSplit, draw_negatives, pair_keys, split_links
from halowire.partitioning import Partition, cut, cut_links
from halowire.training import Config, LinkTask, dot_product
from halowire.wire import HEADER_BYTES, Transport, run_threads

NODES, WIDTH, SEED, NEGATIVES = 60, 7, 3, 20
SETTINGS = {"task.kind": "link", "seed": SEED, "task.train_negatives": 2, "task.negatives": NEGATIVES}


def bilinear(sources: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """A decoder that tells the two ends apart."""
    return (sources * targets.roll(1, 1)).sum(1) - targets.square().mean(1)


DECODERS = {"dot product": dot_product, "own": bilinear}


def make_edges() -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    edges = torch.randint(NODES, (2, 220), generator=generator)
    return torch.cat([edges, edges[:, :100].flip(0)], 1)


def make_split() -> LinkSplit:
    return split_links(make_edges(), NODES, 0.1, 0.15, NEGATIVES, SEED)


def make_rows() -> torch.Tensor:
    return torch.randn(NODES, WIDTH, generator=torch.Generator().manual_seed(1))


def plain_loss(rows: torch.Tensor, decoder, epoch: int) -> torch.Tensor:
    """By hand, pair by pair."""
    pairs = make_split().train
    known = pair_keys(pairs[0], pairs[1], NODES)
    negatives = draw_negatives(pairs, 2, known, NODES, SEED, epoch)
    values = []
    for (u, v), drawn in zip(pairs.t().tolist(), negatives.tolist(), strict=True):
        values.append(F.softplus(-decoder(rows[u : u + 1], rows[v : v + 1])))
        values += [F.softplus(decoder(rows[u : u + 1], rows[w : w + 1])) for w in drawn]
    return torch.cat(values).mean()


def plain_metrics(rows: torch.Tensor, decoder, split: str) -> dict[str, float]:
    found = make_split()
    ranks = []
    for (u, v), drawn in zip(found.ranked[split].t().tolist(), found.negatives[split].tolist(), strict=True):
        score = float(decoder(rows[u : u + 1], rows[v : v + 1]))
        others = [float(decoder(rows[u : u + 1], rows[w : w + 1])) for w in drawn]
        ranks.append(1 + sum(o > score for o in others) + sum(o == score for o in others) / 2)
    hits = {f"hits@{k}": sum(rank <= k for rank in ranks) / len(ranks) for k in (1, 10)}
    return {"mrr": sum(1 / rank for rank in ranks) / len(ranks)} | hits


def run_part(transport: Transport, parts: int, name: str, epoch: int) -> dict[str, object]:
    """Loss, gradients, metrics and bytes of one part; the last part owns two nodes only."""
    owner = torch.randint(max(1, parts - 1), (NODES,), generator=torch.Generator().manual_seed(2))
    owner[-2:] = parts - 1
    split = make_split()
    graph = Graph.from_edge_index(make_edges()[:, split.message], NODES)
    shard = cut(graph, Partition(owner, parts))[transport.rank]
    place = torch.empty(NODES, dtype=torch.int32)
    for part in range(parts):
        rows = cut(graph, Partition(owner, parts))[part].rows
        place[rows] = torch.arange(rows.numel(), dtype=torch.int32)
    links = cut_links(split, owner.int(), place, transport.rank)
    task = LinkTask(links, shard, Config().replace(SETTINGS), transport, torch.device("cpu"), DECODERS[name])
    rows = make_rows()[shard.rows].requires_grad_()
    before = dict(transport.ledger.totals)
    with transport.ledger.account(TRAIN):
        share = task.loss(rows, epoch)
        share.backward()
    sent = transport.ledger.totals[TRAIN] - before[TRAIN]
    with transport.ledger.account(EVAL):
        metrics = task.evaluate(rows.detach(), transport)
    transport.settle()
    needed = _needed(links, owner, transport.rank, epoch)
    return {"rows": shard.rows, "loss": share.detach(), "grad": rows.grad, "metrics": metrics, "sent": sent,
            "needed": needed}  # fmt: skip


def _needed(links, owner: torch.Tensor, rank: int, epoch: int) -> list[int]:
    """How many rows of every other worker the training pairs of this one need."""
    pairs = links.train
    drawn = draw_negatives(pairs, 2, pair_keys(pairs[0], pairs[1], NODES), NODES, SEED, epoch)
    nodes = {int(node) for node in torch.cat([pairs[1], drawn.reshape(-1)])}
    return [sum(int(owner[n]) == peer for n in nodes) if peer != rank else 0 for peer in range(int(owner.max()) + 1)]


def compare(parts: list[dict[str, object]], name: str, epoch: int) -> None:
    decoder, rows = DECODERS[name], make_rows().requires_grad_()
    want = plain_loss(rows, decoder, epoch)
    want.backward()
    assert float(sum(part["loss"] for part in parts)) == pytest.approx(float(want.detach()), rel=1e-5)
    grad = torch.full_like(rows, torch.nan)
    for part in parts:
        grad[part["rows"]] = part["grad"]
    worst = float((grad - rows.grad).abs().max())
    assert worst <= 1e-4 * float(rows.grad.abs().max())
    for split in ("train", "val", "test"):
        for metric, value in plain_metrics(make_rows(), decoder, split).items():
            for part in parts:
                found = part["metrics"]
                key = split if metric == "mrr" else f"{split}_{metric}"
                assert "test_hits@50" not in found, "among 20 negatives it would always be 1"
                if split != "train" or metric == "mrr":
                    assert found[key] == pytest.approx(value, rel=1e-9), (split, metric)


@pytest.mark.parametrize("name", DECODERS)
@pytest.mark.parametrize("parts", [1, 2, 3, 4])
def test_parts_equal_the_whole(parts, name):
    found = run_threads(parts, lambda transport: run_part(transport, parts, name, 5))
    compare(found, name, 5)


def on_rank(rank: int, parts: int) -> list[dict[str, object]]:
    transport = Transport()
    return [run_part(transport, parts, "own", epoch) for epoch in (0, 1)]


@pytest.mark.parametrize("parts", [2, 3])
def test_real_workers_equal_the_whole_in_every_epoch(on_workers, parts):
    found = on_workers(parts, on_rank, parts)
    for epoch in (0, 1):
        compare([each[epoch] for each in found], "own", epoch)


@pytest.mark.parametrize("parts", [2, 3])
def test_bytes_are_requests_rows_and_gradients(on_workers, parts):
    """Who needs m rows sends 4 bytes for each request and 4 k for its gradient; the owner sends 4 k for the row."""
    found = [each[0] for each in on_workers(parts, on_rank, parts)]
    needed = torch.tensor([part["needed"] for part in found])
    counts = 2 * (parts - 1) * (8 * parts * parts) // parts
    for rank, part in enumerate(found):
        mine, asked = int(needed[rank].sum()), int(needed[:, rank].sum())
        messages = int(2 * (needed[rank] > 0).sum() + (needed[:, rank] > 0).sum())  # requests, gradients; rows
        assert part["sent"] == counts + mine * 4 + (mine + asked) * 4 * WIDTH + messages * HEADER_BYTES


def test_scores_that_are_no_numbers_are_not_the_best():
    def broken(sources, targets):
        return (sources * targets).sum(1) * torch.nan

    DECODERS["broken"] = broken
    (found,) = run_threads(1, lambda transport: run_part(transport, 1, "broken", 0))
    del DECODERS["broken"]
    assert found["metrics"]["val"] == pytest.approx(1 / (1 + NEGATIVES))
    assert math.isnan(float(found["loss"]))


def test_a_decoder_gives_one_score_per_pair():
    DECODERS["wide"] = lambda sources, targets: sources * targets
    with pytest.raises(InputError, match="one score per pair"):
        run_threads(1, lambda transport: run_part(transport, 1, "wide", 0))
    del DECODERS["wide"]
