"""Blocks of rows side by side: every source keeps its node, whatever blocks are joined, and halos lie behind them."""

from __future__ import annotations

import pytest
import torch

from halowire.errors import InputError
from halowire.pyg.edges import Edges, unmarked
from halowire.pyg.hetero_data import cut_hetero
from halowire.wire import run_threads
from tests.support.hetero_case import COUNTS, LINKS, make_hetero, make_owners


def on_parts(work):
    owner = make_owners(2)
    run_threads(2, lambda transport: work(cut_hetero(make_hetero(), owner, transport)))


def test_joined_edges_read_the_rows_of_their_own_nodes():
    """Every node has a number of its own, so that what is read tells which node it is."""
    whole = make_hetero()

    def here(data):
        first, tables, rows = {}, [], 0
        for place, name in enumerate(COUNTS):
            first[name], rows = rows, rows + data[name].num_nodes
            tables.append(data[name].rows.float() + 1000 * place)
        kinds = list(LINKS)
        joined = torch.cat([data[kind].edge_index + torch.tensor([[first[kind[0]]], [0]]) for kind in kinds], 1)
        found = torch.cat(tables)[joined[0]]
        want = []
        for kind in kinds:
            sources = whole[kind].edge_index[0][data.shard.relations[kind].edges]
            want.append(sources.float() + 1000 * list(COUNTS).index(kind[0]))
        assert torch.equal(found, torch.cat(want))

    on_parts(here)


def test_sums_at_sources_reach_every_owner_once():
    whole = make_hetero()
    kinds = [("paper", "cites", "paper"), ("paper", "about", "field")]
    degree = sum(torch.bincount(whole[kind].edge_index[0], minlength=COUNTS["paper"]) for kind in kinds)

    def here(data):
        count = data["paper"].num_nodes + 3
        joined = torch.cat([data[kind].edge_index[0] + 3 for kind in kinds])
        found = torch.zeros(count + 2).index_add(0, joined, torch.ones(joined.numel()))
        assert torch.equal(found[3:count], degree[data["paper"].rows].float())
        assert not found[:3].any() and not found[count:].any()

    on_parts(here)


def test_shifts_in_place_and_by_nothing():
    def here(data):
        edges = data["author", "writes", "paper"].edge_index
        assert (edges + 0).bridge is edges.bridge
        moved = edges.clone()
        moved[0] += 5
        moved[1] += 7
        assert torch.equal(unmarked(moved), unmarked(edges) + torch.tensor([[5], [7]]))
        assert isinstance(moved, Edges) and moved.bridge.num_owned == edges.bridge.num_owned + 5
        assert torch.equal(unmarked(edges), data.shard.relations["author", "writes", "paper"].edge_index)
        for change in (lambda: edges + -1, lambda: edges * 2, lambda: edges + edges, lambda: edges + 0.5):
            with pytest.raises(InputError):
                change()

    on_parts(here)
