"""The transport: sums, broadcasts, gathers, and what it books."""

from __future__ import annotations

import gc

import torch

from halowire.wire import HEADER_BYTES, Piece, Transport


def collectives_here(rank: int) -> tuple[list[float], bytes, list[int], object, dict[str, int]]:
    transport = Transport()
    total = transport.all_reduce(torch.full((8,), float(rank + 1)), "test").tolist()
    shared = transport.broadcast_bytes(b"from rank 0" if rank == 0 else b"", "test")
    nothing = transport.broadcast_bytes(b"", "test")
    value = transport.broadcast(torch.tensor([rank + 5]), "test").tolist()
    rows = torch.full((rank, 2), rank, dtype=torch.int64)
    gathered = transport.gather_rows(rows, list(range(transport.size)), "test")
    assert nothing == b""
    return total, shared, value, None if gathered is None else gathered.tolist(), transport.ledger.totals


def test_collectives(on_workers):
    results = on_workers(3, collectives_here)
    for total, shared, value, _, totals in results:
        assert total == [6.0] * 8
        assert shared == b"from rank 0"
        assert value == [5]
        assert totals["gradient"] == 2 * 2 * 32 // 3
    assert results[0][3] == [[1, 1], [2, 2], [2, 2]]
    assert results[1][3] is None
    # rank 0: lengths of two messages, eleven bytes and one int64, each to two workers; the others: what they gather
    assert results[0][4]["setup"] == 2 * (8 + 8 + 11 + 8)
    assert results[2][4]["setup"] == 2 * 2 * 8 + HEADER_BYTES


def swapped_here(rank: int) -> tuple[list[int], list[list[int]], int]:
    """Worker ``r`` sends ``p`` rows ``(r, p)`` to every other worker ``p``."""
    transport = Transport()
    counts = [peer if peer != rank else 0 for peer in range(transport.size)]
    rows = torch.tensor([[rank, peer] for peer, count in enumerate(counts) for _ in range(count)]).view(-1, 2)
    before = transport.ledger.totals["setup"]
    expected = transport.swap_counts(counts, "test")
    told = transport.ledger.totals["setup"]
    arrived = transport.swap(rows, counts, expected, "test")
    assert told > before and arrived.dtype == rows.dtype
    return expected, arrived.tolist(), transport.ledger.totals["setup"] - told


def test_rows_are_swapped(on_workers):
    results = on_workers(3, swapped_here)
    assert [expected for expected, _, _ in results] == [[0, 0, 0], [1, 0, 1], [2, 2, 0]]
    assert [arrived for _, arrived, _ in results] == [[], [[0, 1], [2, 1]], [[0, 2], [0, 2], [1, 2], [1, 2]]]
    assert [sent for _, _, sent in results] == [3 * 16 + 2 * HEADER_BYTES, 2 * 16 + HEADER_BYTES, 1 * 16 + HEADER_BYTES]


def forgotten_here(rank: int) -> tuple[list[int], int]:
    """Rank 0 expects a message of rank 1 and forgets it, with its transport; then both use another message."""
    first, size = Transport(deadline=20.0), 1 << 20
    piece = [Piece(1 - rank, 0, 0, size)]
    pending = first.open(torch.ones(size, dtype=torch.uint8), _empty(size), piece if rank == 0 else [], "forgotten")
    if rank == 0:
        del pending, first
        gc.collect()
    transport = Transport(deadline=20.0)
    transport.barrier("rank 0 has forgotten it")
    if rank == 1:
        first.dispatch(pending, piece)
    sizes = [[0, size], [size, 0]][rank]
    again = torch.full((size,), 7 + rank, dtype=torch.uint8)
    arrived = transport.wait(transport.all_to_all(again, sizes, _empty(size), sizes, "used"))
    transport.drain()
    return arrived.unique().tolist(), len(transport._expected) + len(transport._outgoing)


def _empty(size: int) -> torch.Tensor:
    return torch.empty(size, dtype=torch.uint8)


def test_a_message_that_nobody_waits_for_does_not_block_the_next(on_workers):
    assert on_workers(2, forgotten_here) == [([8], 0), ([7], 0)]
