"""A cover: both ends agree on it, its matrices multiply to the edges, and what it sends leaves as soon as it can."""

from __future__ import annotations

from itertools import compress

import pytest
import torch

from halowire.events import SETUP
from halowire.graph import block_model
from halowire.partitioning import cut, partition
from halowire.wire import Cover, HaloExchange, Machines, Policy, run_threads
from halowire.wire.cover import SUM_ID
from halowire.wire.route import PIECES
from tests.support.awkward_graphs import awkward

WIDTH = 5


def exchange_here(shards, transport, piece_rows=8192):
    """The exchange under a cover, and its matrix of what arrives."""
    shard = shards[transport.rank]
    exchange = HaloExchange(shard, transport, torch.device("cpu"), Policy(piece_rows=piece_rows, cover=True))
    cover = Cover.agree(shard, shard.mean()[1], transport, once=False)
    exchange.cover(cover)
    return shard, exchange, cover.halo


@pytest.mark.parametrize("piece_rows", [4, 8192])
@pytest.mark.parametrize("parts", [1, 2, 3])
def test_sums_and_gradients_are_those_of_all_halo_rows(parts, piece_rows):
    graph = awkward(90, 700)
    shards = cut(graph, partition(graph, parts, "random", 1))
    values = torch.randn(90, WIDTH, generator=torch.Generator().manual_seed(1))

    def work(transport):
        shard, exchange, matrix = exchange_here(shards, transport, piece_rows)
        halo, rows = shard.mean()[1], values[shard.rows]
        exchange.begin(0)
        out = torch.zeros(shard.num_owned, WIDTH)
        exchange.finish(exchange.start(rows, 1), matrix, out)
        where = {int(node): row for row, node in enumerate(graph.ids)}
        others = values[torch.tensor([where[int(node)] for node in shard.halo_ids], dtype=torch.int64)]
        torch.testing.assert_close(out, halo.matmul(others))
        back = torch.zeros(shard.num_owned, WIDTH)
        exchange.finish_back(exchange.start_back(matrix.transpose().matmul(rows), 1), back)
        return shard.rows, back, exchange.num_halo, exchange._routes.counts

    results = run_threads(parts, work)
    assert [count for *_, count, _ in results] == [sum(shard.cover_counts()) for shard in shards]
    sent, received = zip(*(counts for *_, counts in results), strict=True)
    assert [list(one) for one in zip(*sent, strict=True)] == [list(one) for one in received]
    want = torch.zeros(90, WIDTH)
    for shard in shards:
        halo, at = shard.mean()[1], [int((graph.ids == node).nonzero()) for node in shard.halo_ids]
        want[at] += halo.transpose().matmul(values[shard.rows])
    got = torch.zeros(90, WIDTH)
    for rows, back, *_ in results:
        got[rows] = back
    torch.testing.assert_close(got, want)


@pytest.mark.parametrize(("parts", "hosts"), [(3, 1), (4, 2)])
@pytest.mark.parametrize("kind", ["numbers", "words", "few"])
def test_features_travel_as_rows_where_these_are_smaller_than_partial_sums(kind, parts, hosts):
    """Ones need two bytes as rows and four as sums; of few values only those travel that are not zero."""
    graph = awkward(90, 700)
    shards = cut(graph, partition(graph, parts, "random", 1))
    numbers = torch.randn(90, WIDTH, generator=torch.Generator().manual_seed(1))
    values = {"numbers": numbers, "words": (numbers > 0).float(), "few": numbers * (numbers > 1.8)}[kind]

    def work(transport):
        transport.machines = Machines.split(transport.size, hosts)
        shard, exchange, matrix = exchange_here(shards, transport)
        before = transport.ledger.totals[SETUP]
        found, themselves = exchange.fetch_fewest(values[shard.rows])
        spent = transport.ledger.totals[SETUP] - before
        torch.testing.assert_close(
            (shard.mean()[1] if themselves else matrix).matmul(found),
            shard.mean()[1].matmul(
                values[torch.tensor([int((graph.ids == node).nonzero()) for node in shard.halo_ids])]
            ),
        )
        across = transport.machines.elsewhere(transport.rank)
        return themselves, spent, sum(compress(shard.cover_counts(), across))

    results = run_threads(parts, work)
    assert {themselves for themselves, *_ in results} == {kind != "numbers"}
    if kind != "numbers":
        assert sum(spent for _, spent, _ in results) < 4 * WIDTH * sum(sums for *_, sums in results)


def test_rows_for_several_peers_are_there_once_and_sums_have_ids_of_their_own():
    graph = block_model(80, 900, 4, 3, seed=1)
    shards = cut(graph, partition(graph, 3, "random", 0))

    def work(transport):
        shard, exchange, matrix = exchange_here(shards, transport)
        cover = exchange._cover
        assert cover.lists.ids.unique().numel() == cover.sums.num_rows == cover.lists.num_boundary
        rows = cover.lists.ids < SUM_ID
        assert torch.equal(cover.sums.indptr.diff()[rows], torch.ones(int(rows.sum()), dtype=torch.int64))
        assert bool((cover.computed.diff() >= 0).all())
        assert bool((exchange.halo_ids >= SUM_ID).any()), "some sums arrive"
        assert matrix.num_cols == exchange.num_halo < shard.num_halo
        return cover.lists.ids[cover.lists.send_index].split(cover.lists.send_counts), exchange.halo_ids

    results = run_threads(3, work)
    for rank, (_, arriving) in enumerate(results):
        assert torch.equal(arriving, torch.cat([sent[rank] for sent, _ in results]))


def test_sums_leave_before_the_last_rows_are_computed():
    """Rows that are not computed yet hold NaN; what has left by then is right already."""
    graph = block_model(80, 900, 4, 3, seed=1)
    shards = cut(graph, partition(graph, 2, "random", 0))

    def work(transport):
        shard, exchange, matrix = exchange_here(shards, transport, 8)
        exchange.begin(0)
        want = shard.ids[:, None].float().repeat(1, 3)
        rows = torch.full_like(want, torch.nan)
        message = exchange.load(1, 3)
        early = []
        for stop in exchange.cuts:
            rows[:stop] = want[:stop]
            exchange.add(message, rows, stop)
            rows[:stop] = torch.nan
            early.append(len(transport._hub._messages))
        out = torch.zeros(shard.num_owned, 3)
        exchange.finish(exchange.launch(message, want), matrix, out)
        others = shard.halo_ids[:, None].float().repeat(1, 3)
        torch.testing.assert_close(out, shard.mean()[1].matmul(others))
        return early

    for early in run_threads(2, work):
        assert len(early) == PIECES and early[0] >= 1
