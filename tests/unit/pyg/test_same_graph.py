"""Workers that hold different graphs are refused on all of them, with the names of what differs."""

from __future__ import annotations

import pytest
import torch

import halowire
from halowire.errors import InputError
from halowire.graph import Graph
from halowire.pyg.same_graph import require_same_graph
from halowire.wire import run_threads
from tests.support.pyg_case import make_graph
from tests.support.worker_counts import three_and_two

SAME = make_graph()
MASK = torch.arange(90) % 3 == 0
CHANGES = {
    "train_mask": lambda rank: SAME | {"train_mask": MASK.roll(rank)},
    "edge_index": lambda rank: SAME | {"edge_index": SAME["edge_index"].roll(rank, 1)},
    "x": lambda rank: SAME | {"x": SAME["x"] + rank},
    "the set of tensors": lambda rank: SAME | ({"pos": SAME["x"]} if rank else {}),
    "edge_label": lambda rank: SAME | {"edge_label": torch.ones(4 + rank)},
}


@three_and_two
@pytest.mark.parametrize("name", CHANGES)
def test_a_difference_is_refused_by_its_name(name, workers):
    def here(transport):
        with pytest.raises(InputError, match=f"{name} differs.*seed"):
            require_same_graph(CHANGES[name](transport.rank), 90, transport)

    run_threads(workers, here)


def test_the_same_graph_passes():
    sparse = torch.eye(5).to_sparse_csr()
    run_threads(2, lambda transport: require_same_graph(SAME | {"adj": sparse, "one": torch.tensor(1)}, 90, transport))


def test_the_number_of_nodes_is_compared():
    def here(transport):
        with pytest.raises(InputError, match="number of nodes"):
            require_same_graph(SAME, 90 + transport.rank, transport)

    run_threads(2, here)


def test_shard_compares():
    def here(transport):
        graph = Graph.from_edge_index((SAME["edge_index"] + transport.rank) % 90, 90)
        with pytest.raises(InputError, match="different graphs"):
            halowire.shard(graph, transport=transport)

    run_threads(2, here)
