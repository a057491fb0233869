"""Held-out edges: no leak, nothing lost, whatever the graph; negatives are no edges and follow from the pair alone."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from halowire.errors import InputError
from halowire.graph import draw_negatives, pair_keys, split_links

NODES = 24


@st.composite
def graphs(draw):
    """A ring and other directed edges, loops and duplicates; some graphs have every edge in both directions."""
    pairs = draw(st.lists(st.tuples(st.integers(0, NODES - 1), st.integers(0, NODES - 1)), max_size=60))
    ring = [(node, (node + 1) % NODES) for node in range(NODES)]
    edges = torch.tensor(ring + pairs).t()
    if draw(st.booleans()):
        edges = torch.cat([edges, edges.flip(0)], 1)
    return edges


def as_set(pairs: torch.Tensor) -> set[tuple[int, int]]:
    return set(map(tuple, pairs.t().tolist()))


@settings(max_examples=60, deadline=None)
@given(graphs(), st.integers(0, 5))
def test_edges_are_held_out_without_a_leak(edges, seed):
    split = split_links(edges, NODES, 0.15, 0.2, 5, seed)
    whole = as_set(edges)
    message, train, val, test = as_set(edges[:, split.message]), *map(as_set, (split.train, *held(split)))
    loops = {(u, v) for u, v in whole if u == v}
    assert loops <= message and not loops & (train | val | test)
    assert train == message - loops
    assert train | val | test | loops == whole
    assert val and test and train
    for one, others in ((val, train | test), (test, train | val)):
        assert not one & others and not {(v, u) for u, v in one} & (others | message)
    for name, pairs in split.ranked.items():
        assert pairs.shape[1] == len(as_set(pairs)), "every pair once"
        for (u, v), drawn in zip(pairs.t().tolist(), split.negatives[name].tolist(), strict=True):
            assert len(drawn) == 5 and all(w not in (u, v) and (u, w) not in whole for w in drawn)
    assert as_set(split.ranked["train"]) <= train


def held(split):
    return split.ranked["val"], split.ranked["test"]


@settings(max_examples=20, deadline=None)
@given(graphs(), st.integers(0, 3))
def test_the_order_of_the_edges_does_not_matter(edges, seed):
    order = torch.randperm(edges.shape[1], generator=torch.Generator().manual_seed(seed))
    one, other = (split_links(given, NODES, 0.15, 0.2, 3, seed) for given in (edges, edges[:, order]))
    assert torch.equal(one.message[order], other.message)
    assert torch.equal(one.train, other.train)
    for name in one.ranked:
        assert torch.equal(one.ranked[name], other.ranked[name])
        assert torch.equal(one.negatives[name], other.negatives[name])


@settings(max_examples=30, deadline=None)
@given(graphs(), st.integers(1, 4), st.integers(0, 9))
def test_negatives_depend_on_the_pair_and_its_source_alone(edges, parts, epoch):
    pairs = split_links(edges, NODES, 0.15, 0.2, 3, 0).train
    known = pair_keys(pairs[0], pairs[1], NODES)
    whole = draw_negatives(pairs, 4, known, NODES, 7, epoch)
    owner = torch.arange(NODES) % parts
    for part in range(parts):
        mine = owner[pairs[0]] == part
        own = pairs[:, mine]
        keys = pair_keys(own[0], own[1], NODES)
        assert torch.equal(draw_negatives(own, 4, keys, NODES, 7, epoch), whole[mine])
    other = draw_negatives(pairs, 4, known, NODES, 7, epoch + 1)
    assert not torch.equal(whole, other), "every epoch draws anew"


def test_negatives_are_uniform():
    pairs = torch.stack([torch.zeros(20_000).long(), torch.arange(20_000)])
    drawn = draw_negatives(pairs, 2, torch.tensor([1, 2, 3]), 50, 3)
    counts = torch.bincount(drawn.reshape(-1), minlength=50)
    assert not counts[:4].any(), "the source itself and its edges"
    assert float(counts[4:].min()) > 0.8 * 40_000 / 46 and float(counts[4:].max()) < 1.2 * 40_000 / 46


def test_a_crowded_source_gets_the_only_free_node_and_a_full_one_is_refused():
    known = torch.tensor([w for w in range(200) if w != 77])
    pairs = torch.tensor([[0], [1]])
    assert draw_negatives(pairs, 3, known, 200, 0).tolist() == [[77, 77, 77]]
    with pytest.raises(InputError, match="node 0 has edges to all other nodes"):
        draw_negatives(pairs, 1, torch.arange(200), 200, 0)


def test_shares_that_leave_nothing_are_refused():
    with pytest.raises(InputError, match=r"--task\.val-share"):
        split_links(torch.tensor([[0, 1], [1, 2]]), 3, 0.05, 0.1, 5, 0)
