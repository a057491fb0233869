"""Bytes of the wire by their formulas: bits, sampled columns and rows, a budget, the input that is sent again."""

from __future__ import annotations

import pytest

from halowire.wire import HEADER_BYTES
from tests.support.parity_graphs import cut_graph
from tests.support.wire_case import CLASSES, EPOCHS, HIDDEN, bytes_sent, make_config, make_graph, train_here


def halo_rows(workers: int) -> int:
    return sum(shard.num_halo for shard in cut_graph(make_graph(), workers))


def headers(workers: int, exchanges: int) -> int:
    """Bytes of the headers of so many exchanges: one for every worker and every peer that it needs rows of."""
    shards = cut_graph(make_graph(), workers)
    return exchanges * HEADER_BYTES * sum(count > 0 for shard in shards for count in shard.recv_counts)


@pytest.mark.parametrize(("bits", "back"), [(32, 32), (16, 16), (8, 8), (4, 4), (2, 2), (1, 1), (8, 1)])
def test_bytes_follow_the_formula(on_workers, bits, back):
    """A row of k columns takes 4 k bytes, 2 k, or ceil(b k / 8) and four for its two numbers."""

    def row(columns: int, number: int) -> int:
        return columns * number // 8 if number >= 16 else -(-columns * number // 8) + 4

    results = on_workers(2, train_here, make_config({"rate.bits": bits, "rate.backward_bits": back}))
    want = halo_rows(2) * sum(row(columns, number) for columns in (HIDDEN, CLASSES) for number in (bits, back))
    for epoch in range(EPOCHS):
        assert bytes_sent(results, epoch) == want + headers(2, 4)


THINNED = {
    # One column in three: 6 of 20 and 1 of 4; with bits, ceil(b k / 8) and four for the row's two numbers.
    "columns": ({"rate.ratio": 3.0}, 1.0, (4 * 6 + 4 * 1) * 2),
    "columns x 1 bit": ({"rate.ratio": 3.0, "rate.bits": 1}, 1.0, ((1 + 4) + (1 + 4)) * 2),
    "columns x 4 bits": ({"rate.ratio": 3.0, "rate.bits": 4}, 1.0, ((3 + 4) + (1 + 4)) * 2),
    "rows": ({"rate.rows": 0.3}, 0.3, 4 * (20 + 4) * 2),
    "rows x 1 bit": ({"rate.rows": 0.3, "rate.bits": 1}, 0.3, ((3 + 4) + (1 + 4)) * 2),
    "rows x columns x 1 bit": ({"rate.rows": 0.01, "rate.ratio": 3.0, "rate.bits": 1}, 0.01, ((1 + 4) + (1 + 4)) * 2),
}


def travelling(workers: int, share: float) -> int:
    """Halo rows of all workers of which a ``share`` is sampled: of ``m`` rows from one peer, ``max(1, round(p m))``."""
    shards = cut_graph(make_graph(), workers)
    return sum(max(1, round(share * count)) for shard in shards for count in shard.recv_counts if count)


@pytest.mark.parametrize("case", THINNED)
def test_bytes_of_sampled_columns_and_rows_follow_the_formula(on_workers, case):
    settings, share, row = THINNED[case]
    results = on_workers(3, train_here, make_config(settings))
    for epoch in range(EPOCHS):
        assert bytes_sent(results, epoch) == travelling(3, share) * row + headers(3, 4)


@pytest.mark.parametrize("rows", [1.0, 0.3, 0.01])
@pytest.mark.parametrize("bits", [32, 4])
def test_a_budget_is_spent_within_two_per_cent(on_workers, rows, bits):
    """Of what the run may send in all: the bytes that were counted, not those of a plan."""
    full = sum(columns * bits // 8 + 4 * (bits < 16) for columns in (HIDDEN, CLASSES)) * 2 * travelling(2, rows)
    fixed = headers(2, 4)
    settings = {"epochs": 12, "rate.schedule": "budget", "rate.rows": rows, "rate.bits": bits}
    settings |= {"rate.budget": 12 * (0.6 * full + fixed)}
    results = on_workers(2, train_here, make_config(settings))
    spent = [bytes_sent(results, epoch) for epoch in range(12)]
    assert sum(spent) == pytest.approx(settings["rate.budget"], rel=0.02)
    assert spent == sorted(spent) and spent[0] < spent[-1], "the rate rises"


COLUMNS = {
    "all": ({}, lambda epoch: (8 + 20 + 4) + (20 + 4)),
    # one column in three of the input and of layer 1, none dropped in layer 2
    "a third": ({"rate.ratio": 3.0, "rate.spare_last": True}, lambda epoch: (2 + 6 + 4) + (6 + 4)),
    # c(t) = max(4 - 3 t / 2, 1): 4, 2.5, 1, 1
    "varco": (
        {"rate.schedule": "linear", "rate.max_ratio": 4.0, "rate.slope": 1.0, "rate.spare_last": True},
        lambda epoch: [2 + 5 + 4 + 5 + 4, 3 + 8 + 4 + 8 + 4, 56, 56][epoch],
    ),
}


@pytest.mark.parametrize("case", COLUMNS)
def test_the_input_is_sent_forward_only_in_every_epoch(on_workers, case):
    settings, columns = COLUMNS[case]
    results = on_workers(2, train_here, make_config(settings | {"rate.resend_input": True}))
    for epoch in range(EPOCHS):
        assert bytes_sent(results, epoch) == 4 * halo_rows(2) * columns(epoch) + headers(2, 5)
