"""Each relation of a part sends and receives exactly the rows that its readers need, told by sets of pairs."""

from __future__ import annotations

import pytest
import torch

from halowire.partitioning import cut_types
from tests.support.hetero_case import COUNTS, LINKS, make_hetero, make_owners


@pytest.mark.parametrize("parts", [1, 2, 5])
def test_a_relation_holds_the_edges_into_its_rows_and_the_sources_that_they_read(parts):
    data, owner = make_hetero(), make_owners(parts)
    edges = {kind: data[kind].edge_index for kind in LINKS}
    found = [cut_types(edges, owner, rank, parts) for rank in range(parts)]
    for name, count in COUNTS.items():
        assert torch.cat([part.rows[name] for part in found]).sort().values.equal(torch.arange(count))
    for kind, ends in edges.items():
        source, target = owner[kind[0]], owner[kind[2]]
        for part in found:
            relation = part.relations[kind]
            held = torch.cat([part.rows[kind[0]], relation.halo_ids])
            want = [pair for pair in ends.T.tolist() if target[pair[1]] == part.rank]
            local = torch.stack([held[relation.edge_index[0]], part.rows[kind[2]][relation.edge_index[1]]])
            assert local.T.tolist() == want, "the worker's edges, in the user's order"
            needed = {node for node, _ in want if source[node] != part.rank}
            assert set(relation.halo_ids.tolist()) == needed and len(needed) == relation.num_halo
            assert sum(relation.recv_counts) == len(needed)


@pytest.mark.parametrize("parts", [2, 3])
def test_what_one_part_sends_is_what_its_peer_receives(parts):
    data, owner = make_hetero(), make_owners(parts)
    edges = {kind: data[kind].edge_index for kind in LINKS}
    found = [cut_types(edges, owner, rank, parts) for rank in range(parts)]
    for kind in LINKS:
        sent = [torch.split(part.relations[kind].send_index, part.relations[kind].send_counts) for part in found]
        for receiver in found:
            relation = receiver.relations[kind]
            for peer, ids in enumerate(torch.split(relation.halo_ids, relation.recv_counts)):
                rows = sent[peer][receiver.rank]
                assert found[peer].rows[kind[0]][rows].equal(ids)
                assert not rows.numel() or int(rows.max()) < found[peer].relations[kind].num_boundary
