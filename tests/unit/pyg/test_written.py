"""A refusal of an operation on edges says what the user wrote, and where."""

from __future__ import annotations

import pytest
import torch
from torch_geometric.utils import negative_sampling, to_undirected

from halowire.errors import InputError
from halowire.pyg.shard_data import cut_data
from halowire.wire import run_threads
from tests.support.pyg_case import make_graph, make_owner
from tests.support.worker_counts import two_and_three


def maximum(edge_index):
    return edge_index.max()


def turned(edge_index):
    return edge_index.T


def learnt(edge_index):
    edge_index.requires_grad = True


def doubled(edge_index):
    return edge_index * 2


def symmetric(edge_index):
    return to_undirected(edge_index)


def drawn(edge_index):
    return negative_sampling(edge_index)


WORDS = {
    maximum: r"`max\(edge_index, \.\.\.\)` \(test_written\.py, line \d+: return edge_index\.max\(\)\) depends",
    turned: r"`edge_index\.T` \(test_written",
    learnt: r"`edge_index\.requires_grad = \.\.\.` \(test_written",
    symmetric: r"`to_undirected\(edge_index, \.\.\.\)` \(test_written.*return to_undirected\(edge_index\)\) depends",
    drawn: r"`negative_sampling\(edge_index, \.\.\.\)` \(test_written.*data\.negative_sampling\(count\)",
    doubled: r"`edge_index \* \.\.\.` \(test_written.*edge_index \* 2\)",
}


@two_and_three
@pytest.mark.parametrize("wrong", WORDS, ids=lambda function: function.__name__)
def test_a_refusal_names_the_line_of_the_script(wrong, workers):
    def here(transport):
        data = cut_data(make_graph(), make_owner(transport.size), transport)
        with pytest.raises(InputError, match=WORDS[wrong]):
            wrong(data.edge_index)
        assert torch.is_tensor(data.edge_index)

    run_threads(workers, here)
