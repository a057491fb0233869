"""PyG's transforms, loaders and conversions take whole graphs, and a part is refused in one sentence."""

from __future__ import annotations

import pytest
import torch
import torch_geometric.transforms as T
from torch_geometric import loader, utils
from torch_geometric.data import Batch

from halowire.errors import InputError
from halowire.pyg.shard_data import cut_data
from halowire.wire import run_threads
from tests.support.hetero_case import cut_hetero, make_hetero, make_owners
from tests.support.pyg_case import NODES, make_graph, make_owner

TRANSFORMS = (T.NormalizeFeatures, T.ToSparseTensor, T.RandomNodeSplit, T.RandomLinkSplit, T.AddSelfLoops)
USES = {kind.__name__: lambda data, kind=kind: kind()(data) for kind in TRANSFORMS} | {
    "NeighborLoader": lambda data: loader.NeighborLoader(data, [5], batch_size=4),
    "LinkNeighborLoader": lambda data: loader.LinkNeighborLoader(data, [5]),
    "Collater": lambda data: next(iter(loader.DataLoader([data], batch_size=1))),
    "from_data_list": lambda data: Batch.from_data_list([data]),
    "to_networkx": utils.to_networkx,
}
TYPED = ("NormalizeFeatures", "ToSparseTensor", "RandomNodeSplit", "RandomLinkSplit", "NeighborLoader")


@pytest.mark.parametrize("name", USES)
def test_what_takes_a_whole_graph_refuses_a_part(name):
    def here(transport):
        data = cut_data(make_graph() | {"y": torch.arange(NODES) % 3}, make_owner(2), transport)
        with pytest.raises(InputError, match=f"^{name} of PyG takes a whole graph.* before halowire.shard cuts"):
            USES[name](data)

    run_threads(2, here)


@pytest.mark.parametrize("name", TYPED)
def test_what_takes_a_whole_graph_refuses_a_part_of_several_types(name):
    def here(transport):
        data = cut_hetero(make_hetero(), make_owners(2), transport)
        with pytest.raises(InputError, match=f"^{name} of PyG takes a whole graph.* before halowire.shard cuts"):
            USES[name](data)

    run_threads(2, here)


def test_a_part_has_its_own_class_and_says_what_it_lacks():
    def here(transport):
        data = cut_data(make_graph(), make_owner(2), transport)
        assert isinstance(data, type(data))
        assert not isinstance(data, dict) and not hasattr(data, "stores")

    run_threads(2, here)


def test_negative_sampling_outside_of_a_model_names_the_way_for_all_workers():
    def here(transport):
        data = cut_data(make_graph(), make_owner(2), transport)
        with pytest.raises(InputError, match=r"data\.negative_sampling\(count\) draws pairs"):
            utils.negative_sampling(data.edge_index, data.num_nodes)

    run_threads(2, here)
