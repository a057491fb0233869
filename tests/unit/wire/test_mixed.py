"""Partial sums in more bits than rows: each is coded in its own, both ends agree, and the bytes follow the formula."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from halowire.events import TRAIN
from halowire.graph import block_model
from halowire.partitioning import Shard, cut, partition
from halowire.training.rate_plan import epoch_bytes
from halowire.wire import (
    HEADER_BYTES,
    Cover,
    HaloExchange,
    InProcessTransport,
    Policy,
    Rate,
    Source,
    codec_of,
    run_threads,
)
from halowire.wire.cover import SUM_ID
from halowire.wire.mixed import Mixed

WIDTH, WORKERS, CPU = 21, 3, torch.device("cpu")


def row_formula(bits: int, columns: int) -> int:
    return math.ceil(bits * columns / 8) + 4


def shards_of() -> list[Shard]:
    graph = block_model(80, 900, 4, 3, seed=1)
    return list(cut(graph, partition(graph, WORKERS, "random", 0)))


def delivered(rate: Rate, shard: Shard, transport: InProcessTransport) -> dict[str, Any]:
    """What arrives of rows and of their gradients, which of it are sums, and the bytes that were sent."""
    policy = Policy(lambda epoch, layer, direction: rate, cover=True)
    exchange = HaloExchange(shard, transport, CPU, policy)
    cover = Cover.agree(shard, shard.mean()[1], transport, once=False)
    exchange.cover(cover)
    matrix = cover.halo
    values = torch.randn(80, WIDTH, generator=torch.Generator().manual_seed(5))
    exchange.begin(3)
    before = transport.ledger.totals[TRAIN]
    with transport.ledger.account(TRAIN):
        forward = exchange.start(values[shard.rows], 1)
        assert forward is not None
        rows = exchange.finish_rows(forward, WIDTH).clone()
        out = torch.zeros(shard.num_owned, WIDTH)
        exchange.finish(forward, matrix, out)
        returned = torch.randn(exchange.num_halo, WIDTH, generator=torch.Generator().manual_seed(transport.rank))
        backward = exchange.start_back(returned, 1)
        assert backward is not None
        backward.wait()
        gradients = backward.rows().clone()
        transport.barrier("all have arrived")
    sent = transport.ledger.totals[TRAIN] - before
    lists = exchange._cover.lists
    return {
        "rows": rows, "gradients": gradients, "out": out, "matrix": matrix, "bytes": sent,
        "summed": exchange.halo_ids >= SUM_ID, "summed back": lists.ids[lists.send_index] >= SUM_ID,
        "messages": sum(count > 0 for count in lists.recv_counts),
    }  # fmt: skip


@pytest.mark.parametrize(("rate", "bits"), [
    (Rate(1, sums=4), 4), (Rate(2, sums=8), 8), (Rate(1, "levels", sums=2), 2), (Rate(1, "clipped", sums=2), 2),
])  # fmt: skip
def test_rows_and_sums_are_those_of_two_uniform_codes(rate: Rate, bits: int) -> None:
    """Random numbers belong to row, column and epoch, so that a mixed message has the values of two uniform ones."""
    shards = shards_of()

    def work(transport: InProcessTransport) -> list[dict[str, Any]]:
        coarse = Rate(rate.bits, rate.code)
        return [delivered(one, shards[transport.rank], transport) for one in (rate, coarse, rate.of_sums())]

    results = run_threads(WORKERS, work)
    for mixed, coarse, fine in results:
        assert bool(mixed["summed"].any()) and bool((~mixed["summed"]).any())
        for name, mask in (("rows", "summed"), ("gradients", "summed back")):
            want = torch.where(mixed[mask][:, None], fine[name], coarse[name])
            assert torch.equal(mixed[name], want)
        torch.testing.assert_close(mixed["out"], mixed["matrix"].matmul(mixed["rows"]))
    counts = [(int((~one["summed"]).sum()), int(one["summed"].sum())) for one, *_ in results]
    rows, sums = (sum(column) for column in zip(*counts, strict=True))
    headers = 2 * HEADER_BYTES * sum(one["messages"] for one, *_ in results)
    want = 2 * (rows * row_formula(rate.bits, WIDTH) + sums * row_formula(bits, WIDTH))
    assert sum(one["bytes"] for one, *_ in results) == want + headers
    assert epoch_bytes(lambda layer, direction: rate, {1: WIDTH}, rows + sums, sums=sums) == want


def test_without_partial_sums_the_bits_of_sums_do_nothing() -> None:
    shards = shards_of()

    def work(transport: InProcessTransport) -> list[Tensor]:
        found = []
        for rate in (Rate(1), Rate(1, sums=8)):
            exchange = HaloExchange(shards[transport.rank], transport, CPU, Policy(lambda *at, rate=rate: rate))
            exchange.begin(0)
            message = exchange.start(torch.arange(float(shards[transport.rank].num_owned * 4)).view(-1, 4), 1)
            found.append(exchange.finish_rows(message, 4).clone())
        return found

    for plain, finer in run_threads(WORKERS, work):
        assert torch.equal(plain, finer)


def test_a_message_holds_one_group_after_another_for_every_peer() -> None:
    rows, ids = torch.randn(7, WIDTH, generator=torch.Generator().manual_seed(0)), torch.arange(7)
    codecs = [codec_of(Rate(1)), codec_of(Rate(4))]
    kinds, counts = torch.tensor([1, 0, 0, 1, 0, 1, 1]), (4, 0, 3)
    codec, source = Mixed(kinds, codecs, counts, "1-bit and more minmax"), Source(ids, None, None, None, 9)
    sizes = codec.sizes(counts, WIDTH)
    one, four = row_formula(1, WIDTH), row_formula(4, WIDTH)
    assert sizes == [2 * one + 2 * four, 0, one + 2 * four]
    data = torch.empty(sum(sizes), dtype=torch.uint8)
    codec.encode(rows, source, data)
    alone = torch.empty(one, dtype=torch.uint8)
    codecs[0].encode(rows, Source(ids, torch.tensor([1]), None, None, 9), alone)
    assert torch.equal(data[:one], alone), "the first row of the first kind leads"
    found = codec.decode(data, WIDTH)
    assert bool(((found - rows).abs().amax(1) < rows.amax(1) - rows.amin(1) + 0.1).all())
