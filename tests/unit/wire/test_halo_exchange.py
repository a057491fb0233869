"""The halo exchange: every halo row is its owner's row, every returned gradient reaches its owner, bytes as formula."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from halowire.events import TRAIN
from halowire.graph import Graph, block_model
from halowire.kernels import Csr
from halowire.partitioning import Shard, cut, partition
from halowire.wire import HEADER_BYTES, Freshness, HaloExchange, Policy, Rate, Transport

COLUMNS = 7


def shard_of(rank: int, size: int, graph: Graph | None = None) -> tuple[Graph, list[Shard], Shard]:
    graph = graph or block_model(120, 700, 4, 3, seed=1)
    shards = cut(graph, partition(graph, size, method="random", seed=2))
    return graph, shards, shards[rank]


def row_of(ids: torch.Tensor) -> torch.Tensor:
    """A row that can only belong to its node."""
    return ids[:, None].float() * 10 + torch.arange(COLUMNS)


def arrived(exchange: HaloExchange, flight: object) -> torch.Tensor:
    """The halo rows themselves: an identity matrix picks them up."""
    size = exchange.num_halo
    identity = Csr.from_edges(torch.arange(size), torch.arange(size), size, size)
    out = torch.zeros(size, COLUMNS)
    exchange.finish(flight, identity, out)
    return out


def forward_here(rank: int) -> tuple[bool, int, int, int]:
    transport = Transport()
    _, _, shard = shard_of(rank, transport.size)
    exchange = HaloExchange(shard, transport, torch.device("cpu"))
    with transport.ledger.account(TRAIN):
        flights = [exchange.start(row_of(shard.ids) + layer, layer) for layer in range(2)]
        halos = [arrived(exchange, flight) for flight in flights]
    good = all(torch.equal(halo, row_of(shard.halo_ids) + layer) for layer, halo in enumerate(halos))
    peers = sum(count > 0 for count in shard.send_counts)
    return good, transport.ledger.totals["train"], sum(shard.send_counts), peers


@pytest.mark.parametrize("workers", [2, 3, 4])
def test_halo_rows_are_their_owners_rows(on_workers, workers):
    for good, sent, rows, peers in on_workers(workers, forward_here):
        assert good
        assert sent == 2 * (rows * 4 * COLUMNS + peers * HEADER_BYTES)


def errors_here(rank: int, rate: Rate, decay: float | None, rescale: bool = False) -> list[dict[str, object]]:
    transport = Transport()
    _, _, shard = shard_of(rank, transport.size)
    policy = Policy(lambda *_: rate, decay=decay, rescale=rescale)
    exchange = HaloExchange(shard, transport, torch.device("cpu"), policy)
    rows = torch.randn(shard.num_owned, 32, generator=torch.Generator().manual_seed(rank))
    transport.ledger.take()
    for epoch in range(12):
        exchange.begin(epoch)
        exchange.finish(exchange.start(rows, 1, delta=decay is not None), shard.halo, torch.zeros(shard.num_owned, 32))
        exchange.finish_back(exchange.start_back(torch.randn(shard.num_halo, 32), 1), torch.zeros(shard.num_owned, 32))
        if epoch in (0, 10):
            records = transport.ledger.take().exchange_list()
    return records


def test_the_ledger_knows_the_error_of_a_code(on_workers):
    def forward(rate: Rate, decay: float | None = None) -> float | None:
        return on_workers(2, errors_here, rate, decay)[0][1].get("error")

    assert forward(Rate(32)) is None
    minmax, levels, eight = forward(Rate(1)), forward(Rate(1, "levels")), forward(Rate(8))
    assert 0 < eight < 0.001 < levels < minmax
    assert forward(Rate(32, ratio=2.0)) == pytest.approx(0.5, abs=0.15), "half of the columns, half of the norm"
    scaled = on_workers(2, errors_here, Rate(32, ratio=4.0), None, True)[0][1]["error"]
    assert scaled == pytest.approx(3.0, abs=0.7), "a quarter of the columns, four times as large"
    sampled = on_workers(2, errors_here, Rate(8, rows=0.5), None)[0][1]["error"]
    assert sampled == pytest.approx(eight, rel=0.2), "of the rows that travel"
    assert forward(Rate(1, "levels"), 0.8) < levels, "rows that stand still are learnt change by change"


def late_errors_here(rank: int, rate: Rate, sync_every: int) -> list[list[float | None]]:
    """Forward and backward errors of epochs 0 to 20, of rows that are (epoch + 1) times the same."""
    transport = Transport()
    _, _, shard = shard_of(rank, transport.size)
    policy = Policy(lambda *_: rate, Freshness(delayed=True, sync_every=sync_every))
    exchange = HaloExchange(shard, transport, torch.device("cpu"), policy)
    generator = torch.Generator().manual_seed(rank)
    rows, grads = (torch.randn(n, 32, generator=generator) for n in (shard.num_owned, shard.num_halo))
    found = []
    for epoch in range(21):
        transport.ledger.take()
        exchange.begin(epoch)
        out = torch.zeros(shard.num_owned, 32)
        exchange.finish(exchange.start((epoch + 1) * rows, 1), shard.halo, out)
        exchange.finish_back(exchange.start_back((epoch + 1) * grads, 1), out)
        found.append([record.get("error") for record in transport.ledger.take().exchange_list()])
    transport.settle()
    return found


def test_the_ledger_knows_the_error_of_a_delay(on_workers):
    for found in on_workers(2, late_errors_here, Rate(32), 0):
        assert all(error is None for epoch in range(21) if epoch not in (10, 20) for error in found[epoch])
        assert found[10] == pytest.approx([(1 / 11) ** 2] * 2) and found[20] == pytest.approx([(1 / 21) ** 2] * 2)
    for found in on_workers(2, late_errors_here, Rate(32), 11):
        assert found[10] == [0.0] * 2, "a synchronous epoch uses its own rows"
    for coded, late in zip(*(on_workers(2, late_errors_here, Rate(1), sync) for sync in (11, 0)), strict=True):
        # Without bias the error of the code, of rows 10/11 as large, adds to that of the delay.
        assert late[10] == pytest.approx([(100 * error + 1) / 121 for error in coded[10]], rel=0.1)


def backward_here(rank: int) -> tuple[np.ndarray, np.ndarray]:
    transport = Transport()
    _, _, shard = shard_of(rank, transport.size)
    exchange = HaloExchange(shard, transport, torch.device("cpu"))
    out = torch.ones(shard.num_owned, COLUMNS)
    exchange.finish_back(exchange.start_back(row_of(shard.halo_ids) * (rank + 1), layer=1), out)
    return shard.rows.numpy(), out.numpy()


@pytest.mark.parametrize("workers", [2, 4])
def test_gradients_return_to_their_owners_and_are_added(on_workers, workers):
    graph, shards, _ = shard_of(0, workers)
    want = np.ones((graph.num_nodes, COLUMNS), dtype=np.float32)
    for shard in shards:
        row = {int(i): r for r, i in enumerate(graph.ids)}
        for node, grad in zip(shard.halo_ids, row_of(shard.halo_ids) * (shard.rank + 1), strict=True):
            want[row[int(node)]] += grad.numpy()
    for rows, out in on_workers(workers, backward_here):
        np.testing.assert_allclose(out, want[rows], rtol=1e-6)


def features_here(rank: int, sparse: bool) -> bool:
    transport = Transport()
    graph = block_model(120, 700, 4, 3, seed=1)
    x = torch.relu(graph.x)
    if sparse:
        rows, cols = x.nonzero(as_tuple=True)
        features = Csr.from_edges(rows, cols, *x.shape, x[rows, cols])
    graph = Graph.from_edge_index(graph.edge_index(), 120, x=features if sparse else x)
    _, _, shard = shard_of(rank, transport.size, graph)
    exchange = HaloExchange(shard, transport, torch.device("cpu"))
    halo = exchange.fetch_once(shard.x).to_dense() if sparse else exchange.fetch(shard.x)
    return torch.equal(halo, x[shard.halo_ids])


@pytest.mark.parametrize("sparse", [False, True])
def test_features_of_the_halo(on_workers, sparse):
    assert all(on_workers(3, features_here, sparse))


def test_one_worker_needs_no_network():
    _, _, shard = shard_of(0, 1)
    transport = Transport()
    exchange = HaloExchange(shard, transport, torch.device("cpu"))
    out = torch.ones(120, 3)
    exchange.finish(exchange.start(torch.ones(120, 3), 1), shard.halo, out)
    exchange.finish_back(exchange.start_back(torch.empty(0, 3), 1), out)
    assert torch.equal(out, torch.ones(120, 3))
    assert sum(transport.ledger.totals.values()) == 0
