"""The transport: sums, broadcasts, gathers, and what it books."""

from __future__ import annotations

import torch

from halowire.exchange import Transport


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
    assert results[2][4]["setup"] == 2 * 2 * 8
