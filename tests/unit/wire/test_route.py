"""Pieces of a message: both ends agree, every row travels once, and a piece leaves as soon as its rows are there."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from halowire.graph import block_model
from halowire.kernels import Csr
from halowire.partitioning import cut, partition
from halowire.wire import HaloExchange, Policy, run_threads
from halowire.wire.route import PIECES, Pieces, list_pieces


@given(st.lists(st.integers(0, 50), min_size=1, max_size=5), st.integers(1, 60))
def test_a_list_is_cut_into_all_its_places(counts, least):
    pieces = list_pieces(counts, least)
    places = sorted(place for piece in pieces for place in range(piece.start, piece.stop))
    assert places == list(range(sum(counts)))
    starts = [sum(counts[:peer]) for peer in range(len(counts))]
    for piece in pieces:
        assert starts[piece.peer] <= piece.start <= piece.stop <= starts[piece.peer] + counts[piece.peer]
    for peer, count in enumerate(counts):
        numbers = [piece.number for piece in pieces if piece.peer == peer]
        assert numbers == list(range(PIECES if count >= max(least, PIECES) else min(count, 1)))


@given(st.data(), st.integers(1, 40), st.integers(1, 30), st.integers(1, 3))
def test_a_piece_leaves_at_the_first_cut_that_completes_it(data, boundary, least, peers):
    chosen = [sorted(data.draw(st.sets(st.integers(0, boundary - 1)))) for _ in range(peers)]
    index = torch.tensor([row for rows in chosen for row in rows], dtype=torch.int64)
    pieces = Pieces.of(index, [len(rows) for rows in chosen], [0] * peers, boundary, least)
    assert pieces.cuts[-1] == boundary and list(pieces.cuts) == sorted(set(pieces.cuts))
    assert len(pieces.cuts) <= PIECES and pieces.ready[-1] == len(pieces.leaving)
    assert sorted(pieces.leaving) == sorted(list_pieces([len(rows) for rows in chosen], least))
    for place, piece in enumerate(pieces.leaving):
        needed = int(index[piece.start : piece.stop].max()) + 1
        left = next(cut for cut, ready in zip(pieces.cuts, pieces.ready, strict=True) if place < ready)
        assert needed <= left
        assert all(needed > cut for cut in pieces.cuts if cut < left), "it could have left before"


def test_rows_leave_before_the_others_are_computed():
    """Rows that are not computed yet hold NaN; what has arrived by then is right already."""
    graph = block_model(80, 900, 4, 3, seed=1)
    shards = cut(graph, partition(graph, 2, "random", 0))

    def work(transport):
        shard = shards[transport.rank]
        exchange = HaloExchange(shard, transport, torch.device("cpu"), Policy(piece_rows=8))
        exchange.begin(0)
        want = shard.ids[:, None].float().repeat(1, 3)
        rows = torch.full_like(want, torch.nan)
        loading = exchange.load(1, 3)
        early = []
        for stop in exchange.cuts:
            rows[:stop] = want[:stop]
            loading.add(rows, stop)
            rows[:stop] = torch.nan  # what has left is not read again
            early.append(len(transport._hub._messages))
        flight = exchange.launch(loading, want)
        out = torch.zeros(shard.num_halo, 3)
        places = torch.arange(shard.num_halo)
        exchange.finish(flight, Csr.from_edges(places, places, shard.num_halo, shard.num_halo), out)
        assert torch.equal(out, shard.halo_ids[:, None].float().repeat(1, 3))
        return early

    for early in run_threads(2, work):
        assert len(early) == PIECES and early[0] >= 1
