"""One choice of partial sums for a machine: sums and gradients stay right, and the fewest rows cross the network."""

from __future__ import annotations

import pytest
import torch
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import maximum_bipartite_matching

from halowire.partitioning import cut, machine_sums, partition
from halowire.wire import Cover, HaloExchange, Machines, Policy, run_threads
from tests.support.awkward_graphs import awkward

WIDTH = 3


def matched(shards, machines):
    """Slow and obvious: the sizes of maximum matchings between each worker and each other machine, added up."""
    edges: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for shard in shards:
        owner = torch.repeat_interleave(torch.arange(len(shards)), torch.tensor(shard.recv_counts))
        for row, column in zip(shard.halo.row_index().tolist(), shard.halo.indices.tolist(), strict=True):
            key = int(owner[column]), machines.of[shard.rank]
            if machines.of[key[0]] != key[1]:
                edges.setdefault(key, []).append((int(shard.halo_ids[column]), int(shard.ids[row])))
    total = 0
    for pairs in edges.values():
        source, target = (torch.tensor(ends) for ends in zip(*pairs, strict=True))
        size = int(torch.cat([source, target]).max()) + 1
        matrix = coo_matrix(([1] * len(pairs), (source, target)), shape=(size, size)).tocsr()
        total += int((maximum_bipartite_matching(matrix) >= 0).sum())
    return total


@pytest.mark.parametrize(("parts", "hosts"), [(4, 2), (3, 2), (2, 2)])
def test_sums_and_gradients_are_right_and_the_fewest_rows_cross(parts, hosts):
    graph, machines = awkward(90, 700), Machines.split(parts, hosts)
    shards = cut(graph, partition(graph, parts, "random", 1))
    values = torch.randn(90, WIDTH, generator=torch.Generator().manual_seed(1))
    where = {int(node): row for row, node in enumerate(graph.ids)}

    def work(transport):
        transport.machines = machines
        shard, found = shards[transport.rank], []
        halo, rows = shard.mean()[1], values[shard.rows]
        for once in (True, False):
            cover = Cover.agree(shard, halo, transport, once=once)
            exchange = HaloExchange(shard, transport, torch.device("cpu"), Policy(cover=True, once_per_machine=True))
            exchange.cover(cover)
            exchange.begin(0)
            out = torch.zeros(shard.num_owned, WIDTH)
            exchange.finish(exchange.start(rows, 1), cover.halo, out)
            others = values[torch.tensor([where[int(node)] for node in shard.halo_ids], dtype=torch.int64)]
            torch.testing.assert_close(out, halo.matmul(others))
            back = torch.zeros(shard.num_owned, WIDTH)
            exchange.finish_back(exchange.start_back(cover.halo.transpose().matmul(rows), 1), back)
            crossing = sum(
                count
                for peer, count in enumerate(exchange._routes.counts[1])
                if machines.of[peer] != machines.of[transport.rank]
            )
            found.append((crossing, back))
        transport.settle()
        return shard.rows, found

    results = run_threads(parts, work)
    want = torch.zeros(90, WIDTH)
    for shard in shards:
        at = [where[int(node)] for node in shard.halo_ids]
        want[at] += shard.mean()[1].transpose().matmul(values[shard.rows])
    for choice in range(2):
        got = torch.zeros(90, WIDTH)
        for rows, found in results:
            got[rows] = found[choice][1]
        torch.testing.assert_close(got, want)
    together, apart = (sum(found[choice][0] for _, found in results) for choice in range(2))
    assert together == matched(shards, machines) == machine_sums(shards, machines.of)
    assert together < apart if machines.shared else together == apart
