"""One model on several graphs of the same nodes: cut alike, they share rows; cut otherwise, mixing them is refused."""

from __future__ import annotations

import copy

import pytest
import torch
import torch_geometric.nn as pyg
from torch import Tensor, nn
from torch_geometric.data import Data, HeteroData
from torch_geometric.transforms import RandomLinkSplit
from torch_geometric.utils import to_undirected

import halowire
from halowire.errors import InputError
from halowire.pyg.kept_cuts import KeptCut
from halowire.pyg.shard_data import cut_data
from halowire.wire import run_threads
from tests.support.pyg_case import NODES, assert_close, make_graph, make_owner, seeded
from tests.support.pyg_models import HIDDEN, two

COUNT = 200


class Rows(nn.Module):
    """A model with a row of weights for each node, that scores pairs."""

    def __init__(self, nodes: int) -> None:
        super().__init__()
        self.rows, self.conv = nn.Embedding(nodes, HIDDEN), pyg.SAGEConv(HIDDEN, HIDDEN)

    def encode(self, edge_index: Tensor) -> Tensor:
        return self.conv(self.rows.weight, edge_index)

    forward = encode

    def decode(self, z: Tensor, pairs: Tensor) -> Tensor:
        return (z[pairs[0]] * z[pairs[1]]).sum(-1)


def clustered() -> list[Data]:
    """What ``RandomLinkSplit`` makes of a graph of ten clusters."""
    torch.manual_seed(3)
    cluster = torch.arange(COUNT) // 20
    ends = torch.randint(COUNT, (2, 3000))
    kept = (cluster[ends[0]] == cluster[ends[1]]) | (torch.rand(3000) < 0.05)
    return RandomLinkSplit(0.1, 0.2, is_undirected=True)(Data(edge_index=to_undirected(ends[:, kept]), num_nodes=COUNT))


@pytest.mark.parametrize("workers", [2, 3])
def test_a_split_of_links_is_cut_alike(workers):
    """Trained on one graph, scored on the others: rows of weights, and rows of the training graph by pairs of tests."""
    plain, splits = seeded(lambda: Rows(COUNT)), clustered()
    optimiser = torch.optim.SGD(plain.parameters(), lr=0.5)
    model = copy.deepcopy(plain)
    plain.encode(splits[0].edge_index).square().mean().backward()
    optimiser.step()

    def scores(own, train, test, gather):
        with torch.no_grad():
            pairs = test.edge_label_index
            found = [own.decode(own.encode(graph.edge_index), pairs) for graph in (test, train)]
        return [gather(value).sort().values for value in found]

    want = scores(plain, splits[0], splits[2], lambda value: value)

    def here(transport):
        train, _, test = (halowire.shard(part, transport=transport) for part in splits)
        assert torch.equal(train.rows, test.rows)
        own = halowire.distribute(copy.deepcopy(model), train)
        steps = torch.optim.SGD(own.parameters(), lr=0.5)
        train.mean(own.encode(train.edge_index).square()).backward()
        steps.step()
        return scores(own, train, test, test.gather)

    for found in run_threads(workers, here):
        for got, value in zip(found, want, strict=True):
            assert_close("scores", got, value)


def test_a_graph_that_is_cut_badly_by_the_last_partition_is_cut_anew_unless_told():
    """Clusters of other nodes get a partition of their own; ``like`` keeps that of the other graph."""
    split = clustered()[0]
    order = torch.randperm(COUNT, generator=torch.Generator().manual_seed(1))
    other = Data(edge_index=order[split.edge_index], num_nodes=COUNT)
    model = seeded(lambda: Rows(COUNT))
    want = model(other.edge_index)

    def here(transport):
        first, anew = (halowire.shard(data, transport=transport) for data in (split, other))
        told = halowire.shard(other, like=first, transport=transport)
        assert not torch.equal(first.rows, anew.rows)
        assert torch.equal(first.rows, told.rows)
        own = halowire.distribute(copy.deepcopy(model), first)
        with pytest.raises(InputError, match="like=train_data"):
            own(anew.edge_index)
        for wrong in (Data(edge_index=other.edge_index, num_nodes=COUNT + 1), HeteroData()):
            with pytest.raises(InputError, match="like="):
                halowire.shard(wrong, like=first, transport=transport)
        with torch.no_grad():
            return told.gather(own(told.edge_index))

    for found in run_threads(2, here):
        assert_close("output", found, want)


def test_rows_with_what_is_of_other_nodes_are_refused_on_all_workers():
    """Worker 2 has the same nodes in both parts, and refuses as the others do."""
    graph = make_graph() | {"y": torch.arange(NODES) % 3, "test_mask": torch.arange(NODES) % 2 == 0}
    graph["edge_label_index"] = torch.randint(NODES, (2, 50), generator=torch.Generator().manual_seed(1))

    def here(transport):
        owner = make_owner(3)
        other = torch.where(owner == 2, 2, 1 - owner)
        data, test = (cut_data(graph, owners, transport) for owners in (owner, other))
        own = halowire.distribute(seeded(lambda: two(pyg.SAGEConv)), data)
        out = own(data.x, data.edge_index)
        for wrong in (
            lambda: out[test.test_mask],
            lambda: out[test.test_mask.nonzero()[:, 0]],
            lambda: out.argmax(1) == test.y,
            lambda: test.cross_entropy(out, test.y),
            lambda: out[test.edge_label_index[0]],
            lambda: own(data.x, test.edge_index),
        ):
            with pytest.raises(InputError, match="like=train_data"):
                wrong()
        alike = cut_data(graph, owner, transport, like=KeptCut(owner, data.rows))
        return out[alike.test_mask], out[data.test_mask]

    for found, want in run_threads(3, here):
        assert torch.equal(found, want)
