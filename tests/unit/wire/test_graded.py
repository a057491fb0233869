"""Bits by in-degree: shares of every list, bytes by the row formula, each row coded in the bits of its grade."""

from __future__ import annotations

import math

import pytest
import torch

from halowire.errors import InputError
from halowire.events import TRAIN
from halowire.graph import block_model
from halowire.kernels import Csr
from halowire.partitioning import cut, partition
from halowire.training import Config, policy_of
from halowire.wire import (
    HEADER_BYTES,
    HaloExchange,
    Policy,
    Rate,
    Source,
    Transport,
    by_base,
    codec_of,
    grade_bits,
    grade_counts,
)
from halowire.wire.graded import Graded, grades_of, halo_degree, sent_degree

COLUMNS = 37


def row_formula(bits: int, columns: int) -> int:
    return math.ceil(bits * columns / 8) + 4


def shards_of(parts: int):
    graph = block_model(150, 1500, 4, 3, seed=1)
    return graph, cut(graph, partition(graph, parts, method="random", seed=2))


@pytest.mark.parametrize(("base", "bits"), [(1, (1, 2, 4, 8)), (2, (2, 4, 8)), (4, (4, 8)), (8, (8,))])
def test_the_grades_of_a_base(base, bits):
    assert grade_bits(base) == bits


def test_a_list_falls_into_equal_shares_by_degree():
    degree = torch.tensor([5.0, 1, 9, 7, 3, 3, 8, 2, 50, 40, 60])
    assert grades_of(degree, (8, 0, 3), 1).tolist() == [2, 0, 3, 2, 1, 1, 3, 0, 1, 0, 2]
    assert grades_of(degree, (8, 0, 3), 4).tolist() == [1, 0, 1, 1, 0, 0, 1, 0, 0, 0, 1]
    assert grades_of(torch.ones(4), (4,), 1).tolist() == [0, 1, 2, 3], "equals keep the order of the list"
    assert grades_of(torch.ones(3), (1, 2), 8).tolist() == [0, 0, 0]


def test_both_ends_know_the_whole_graphs_degrees():
    graph, shards = shards_of(3)
    source, target = graph.edge_index()
    want = torch.bincount(target[source != target], minlength=150).float() + 1
    for shard in shards:
        assert torch.equal(halo_degree(shard), want[shard.halo_ids])
        assert torch.equal(sent_degree(shard), want[shard.ids[shard.send_index]])


@pytest.mark.parametrize("base", [1, 2, 4])
@pytest.mark.parametrize("chosen", [None, torch.tensor([0, 5, 6, 30])])
def test_every_row_is_coded_in_the_bits_of_its_grade(base, chosen):
    generator = torch.Generator().manual_seed(0)
    degree, counts = torch.rand(41, generator=generator), (17, 0, 3, 21)
    rows, ids = torch.randn(41, COLUMNS, generator=generator), torch.arange(41) * 3
    codec, source = Graded(degree, counts, Rate(base, graded=True)), Source(ids, None, None, chosen, 99)
    columns = COLUMNS if chosen is None else len(chosen)
    grades, bits = grades_of(degree, counts, base), grade_bits(base)
    sizes = codec.sizes(counts, columns)
    peers = torch.split(grades, list(counts))
    assert sizes == [sum(row_formula(bits[int(grade)], columns) for grade in peer) for peer in peers]
    data = torch.full((sum(sizes),), 255, dtype=torch.uint8)
    codec.encode(rows, source, data)
    seen = codec.decode(data, columns)
    for number, one in enumerate(bits):
        plain = codec_of(Rate(one))
        packed = torch.empty(41 * plain.row_bytes(columns), dtype=torch.uint8)
        plain.encode(rows, source, packed)
        assert torch.equal(seen[grades == number], plain.decode(packed, columns)[grades == number])
    matrix = Csr.from_edges(torch.arange(82) % 5, torch.arange(82) % 41, 5, 41, torch.rand(82, generator=generator))
    out = torch.ones(5, columns)
    codec.aggregate(matrix, data, columns, out)
    torch.testing.assert_close(out, 1 + matrix.to_dense() @ seen)


def bytes_here(rank: int, base: int) -> tuple[int, int, list[float]]:
    transport = Transport()
    _, shards = shards_of(transport.size)
    shard, rate = shards[rank], Rate(base, graded=True)
    exchange = HaloExchange(shard, transport, torch.device("cpu"), Policy(lambda *_: rate))
    exchange.begin(0)
    out = torch.zeros(shard.num_owned, COLUMNS)
    sent = []
    with transport.ledger.account(TRAIN):
        exchange.finish(exchange.start(torch.randn(shard.num_owned, COLUMNS), 1), shard.halo, out)
        sent.append(transport.ledger.totals[TRAIN])
        exchange.finish_back(exchange.start_back(torch.randn(shard.num_halo, COLUMNS), 1), out)
    errors = [record["error"] for record in transport.ledger.take().exchange_list()]
    return sent[0], transport.ledger.totals[TRAIN] - sent[0], errors


@pytest.mark.parametrize("base", [1, 2])
def test_bytes_equal_the_row_formula(on_workers, base):
    _, shards = shards_of(3)
    bits = grade_bits(base)
    lists = {}
    for shard in shards:
        for owner, count in enumerate(shard.recv_counts):
            # a list of m rows has ceil or floor of m / G in each grade, by rank
            ranks = [rank * len(bits) // count for rank in range(count)]
            header = HEADER_BYTES if count else 0
            lists[owner, shard.rank] = header + sum(row_formula(bits[grade], COLUMNS) for grade in ranks)
    for rank, (forward, backward, errors) in enumerate(on_workers(3, bytes_here, base)):
        assert forward == sum(lists[rank, peer] for peer in range(3))
        assert backward == sum(lists[peer, rank] for peer in range(3))
        assert all(0 < error < 10 for error in errors)


def test_a_budget_counts_the_grades():
    _, shards = shards_of(3)
    grades = by_base(sum(grade_counts(shard) for shard in shards))
    rows = sum(shard.num_halo for shard in shards)
    assert all(sum(counts) == rows for counts in grades.values())
    settings = {"epochs": 30, "rate.schedule": "budget", "rate.nodes": "degree", "rate.bits": 1, "rate.layers": "2:4/2"}

    def message(base: int, columns: int) -> int:
        return sum(row_formula(b, columns) * n for b, n in zip(grade_bits(base), grades[base], strict=True))

    budget = 30 * 0.6 * (2 * message(1, 60) + message(4, 60) + message(2, 60))
    policy = policy_of(Config().replace(settings | {"rate.budget": budget}), [60, 60], rows, grades)
    spent = 0
    for epoch in range(30):
        for layer, base in ((1, 1), (1, 1), (2, 4), (2, 2)):
            columns = policy.rates(epoch, layer, "forward").columns(60)
            spent += message(base, columns)
    assert spent == pytest.approx(budget, rel=0.02)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({}, "base of 1, 2, 4 or 8"),
        ({"rate.bits": 16}, "base of 1, 2, 4 or 8"),
        ({"rate.bits": 1, "rate.layers": "2:1/32"}, "base of 1, 2, 4 or 8"),
        ({"rate.bits": 8}, "no effect on 8 bits"),
        ({"rate.bits": 1, "rate.rows": 0.5}, "sampled"),
        ({"rate.bits": 1, "rate.decay": 0.8}, "reconstruction"),
        ({"rate.bits": 8, "rate.code": "levels"}, "a rate of 1, 2 or 4 bits"),
    ],
)
def test_what_has_no_meaning_is_refused(settings, words):
    with pytest.raises(InputError, match=words):
        policy_of(Config().replace({"rate.nodes": "degree"} | settings), [64, 10], 100)
