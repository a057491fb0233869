"""Rows that are sent once arrive bit for bit, and in the smallest form."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from halowire.events import SETUP
from halowire.kernels import Csr
from halowire.wire import HEADER_BYTES, InProcessTransport, run_threads
from halowire.wire.once import swap_once

ROWS, COLUMNS = 6, 40


def make_rows(kind: str, rank: int) -> Tensor:
    draw = torch.Generator().manual_seed(rank)
    dense = torch.randn(ROWS, COLUMNS, generator=draw)
    kept = torch.rand(ROWS, COLUMNS, generator=draw) < 0.1
    return {"dense": dense, "counts": dense.mul(3).round(), "few": dense * kept, "few counts": (3 * kept).float(),
            "words": kept.float(), "nothing": torch.zeros(ROWS, COLUMNS)}[kind]  # fmt: skip


def expected_bytes(kind: str) -> int:
    """Bytes that both of two workers send together: all their rows, each to the other."""
    entries = sum(int((make_rows(kind, rank) != 0).sum()) for rank in range(2))
    cells = 2 * ROWS * COLUMNS
    sparse = {"few": 2 + 4, "few counts": 2 + 2, "words": 2, "nothing": 2}
    # Every step is a message to each: lengths, columns, and values unless all are 1; a message without bytes is none.
    messages = {"few": 3, "few counts": 3, "words": 2, "nothing": 1}.get(kind, 1)
    rows = 2 * ROWS * 4 + entries * sparse[kind] if kind in sparse else cells * (2 if kind == "counts" else 4)
    return rows + 2 * messages * HEADER_BYTES


KINDS = ["dense", "counts", "few", "few counts", "words", "nothing"]


def arrived(rows: Csr) -> list[Csr]:
    """What each of two workers has of the other's sparse ``rows``, which both have."""

    def swap(transport: InProcessTransport) -> Any:
        counts = [0, 0]
        counts[1 - transport.rank] = rows.num_rows
        return swap_once(rows, counts, counts, transport)

    return run_threads(2, swap)


def swapped(kind: str, sparse: bool, squeezed: bool) -> int:
    """Bytes that two workers sent; asserts that every row arrived as it was."""

    def swap(transport: InProcessTransport) -> tuple[Any, int]:
        rows = make_rows(kind, transport.rank)
        given: Tensor | Csr = rows
        if sparse:
            row, column = rows.nonzero(as_tuple=True)
            given = Csr.from_edges(row, column, ROWS, COLUMNS, None if kind == "words" else rows[row, column])
        counts = [0, 0]
        counts[1 - transport.rank] = ROWS
        with transport.ledger.account(SETUP):
            before = transport.ledger.totals[SETUP]
            found = swap_once(given, counts, counts, transport, squeezed=squeezed)
            return found, transport.ledger.totals[SETUP] - before

    results = run_threads(2, swap)
    for rank, (found, _) in enumerate(results):
        assert isinstance(found, Csr) == sparse
        dense = found.to_dense() if isinstance(found, Csr) else found
        assert torch.equal(dense, make_rows(kind, 1 - rank))
    return sum(sent for _, sent in results)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_rows_arrive_as_they_are_in_the_fewest_bytes(kind: str, sparse: bool) -> None:
    assert swapped(kind, sparse, squeezed=False) == expected_bytes(kind)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_squeezed_rows_arrive_as_they_are_and_never_take_more_than_the_sizes_more(kind: str, sparse: bool) -> None:
    steps = {"few": 3, "few counts": 3, "words": 2, "nothing": 1}.get(kind, 1)
    # Each step tells how many bytes follow to whom: a sum of a table of 2 x 2 numbers of 8 bytes.
    assert swapped(kind, sparse, squeezed=True) <= expected_bytes(kind) + steps * 2 * 2 * 4 * 8


@pytest.mark.parametrize("value", [1.0, 2.0])
def test_zeros_that_are_stored_arrive_as_zeros(value: float) -> None:
    """Only where all stored values are 1 they need not travel: a stored 0 is not one."""
    row, column = torch.tensor([0, 0, 1, 3, 3]), torch.tensor([4, 17, 4, 0, 39])
    rows = Csr.from_edges(row, column, ROWS, COLUMNS, torch.tensor([value, 0.0, 0.0, value, value]))
    assert not torch.equal(rows.to_dense(), rows.with_weight(None).to_dense())
    assert all(torch.equal(found.to_dense(), rows.to_dense()) for found in arrived(rows))


def test_values_of_the_same_place_are_added_before_their_form_is_chosen() -> None:
    """256 and 1 are small enough for bf16, their sum is not."""
    row = torch.arange(ROWS).repeat_interleave(COLUMNS + 1)
    column = torch.cat([torch.tensor([0]), torch.arange(COLUMNS)]).repeat(ROWS)
    rows = Csr.from_edges(row, column, ROWS, COLUMNS, torch.where(column == COLUMNS - 1, 1.0, 256.0))
    rows.weight[0] = 1.0  # type: ignore[index]
    assert all(torch.equal(found.to_dense(), rows.to_dense()) for found in arrived(rows))
