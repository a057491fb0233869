"""Synthetic graphs: right sizes, repeatable, and of the kind they claim to be."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from halowire.errors import InputError
from halowire.graph import Graph, block_model, check, mean, rmat

MAKERS = pytest.mark.parametrize("make", [rmat, block_model])


@MAKERS
@pytest.mark.parametrize(("num_nodes", "num_edges"), [(4, 4), (37, 201), (1000, 20001), (1025, 8), (64, 0)])
def test_sizes_are_exact_and_the_graph_is_simple(make: Callable[..., Graph], num_nodes: int, num_edges: int) -> None:
    graph = make(num_nodes, num_edges, 3, 2, 5)
    assert check(graph).num_nodes == num_nodes
    assert graph.num_edges == num_edges // 2 * 2
    dense = graph.adj.to_dense()
    assert torch.equal(dense, dense.T)
    assert float(dense.max()) <= 1
    assert float(dense.diag().sum()) == 0


@MAKERS
def test_the_same_seed_gives_the_same_graph(make: Callable[..., Graph]) -> None:
    one, same, other = (make(300, 3000, 8, 4, seed) for seed in (1, 1, 2))
    for key in ("x", "y", "train_mask"):
        assert torch.equal(getattr(one, key), getattr(same, key))
        assert not torch.equal(getattr(one, key), getattr(other, key))
    assert torch.equal(one.adj.indices, same.adj.indices)
    assert not torch.equal(one.adj.indices, other.adj.indices)


@MAKERS
def test_masks_are_a_half_and_two_quarters(make: Callable[..., Graph]) -> None:
    graph = make(400, 800, 2, 2, 0)
    masks = [graph.train_mask, graph.val_mask, graph.test_mask]
    assert [int(mask.sum()) for mask in masks if mask is not None] == [200, 100, 100]


@MAKERS
def test_seeds_are_whole_numbers_of_63_bits(make: Callable[..., Graph]) -> None:
    assert make(20, 40, 2, 2, 2**63 - 1).num_nodes == 20
    for seed in (-1, 2**63, 0.5, None):
        with pytest.raises(InputError, match="seed is"):
            make(20, 40, 2, 2, seed)


def test_rmat_has_hubs() -> None:
    degree = rmat(5000, 100_000, 1, 2, 0).adj.degree()
    assert float(degree.max()) > 15 * float(degree.mean())
    assert float(degree.median()) < 0.7 * float(degree.mean())
    # hubs are everywhere, not at the low ids
    assert float(degree[:2500].sum()) == pytest.approx(float(degree[2500:].sum()), rel=0.3)


def test_no_features_on_request() -> None:
    assert rmat(100, 200, 0, 2).x is None
    assert block_model(100, 200, 0, 2).x is None


@pytest.mark.parametrize("homophily", [0.0, 0.5, 1.0])
def test_blocks_are_as_homophilous_as_asked(homophily: float) -> None:
    graph = block_model(2000, 20_000, 2, 5, 0, homophily=homophily)
    source, target = graph.edge_index()
    assert graph.y is not None
    share = float((graph.y[source] == graph.y[target]).float().mean())
    assert share == pytest.approx(homophily + (1 - homophily) / 5, abs=0.02)


def nearest_centre_accuracy(x: Tensor, graph: Graph) -> float:
    """Test accuracy of the best linear classifier for these features: nearest class mean of the training nodes."""
    assert graph.y is not None
    assert graph.train_mask is not None
    assert graph.test_mask is not None
    train, test = graph.train_mask, graph.test_mask
    centres = torch.stack([x[train & (graph.y == label)].mean(0) for label in range(graph.num_classes)])
    guess = torch.cdist(x[test], centres).argmin(1)
    return float((guess == graph.y[test]).float().mean())


def test_only_neighbourhoods_reveal_the_block() -> None:
    graph = block_model(4000, 80_000, 64, 8, 0)
    assert isinstance(graph.x, Tensor)
    assert nearest_centre_accuracy(graph.x, graph) < 0.3
    smooth = mean(graph.adj)
    assert nearest_centre_accuracy(smooth.matmul(smooth.matmul(graph.x)), graph) > 0.9


def test_label_sets_belong_to_blocks() -> None:
    graph = block_model(500, 2000, 4, 6, 3, multi_label=True)
    assert graph.multi_label
    assert graph.y is not None
    assert graph.y.shape == (500, 6)
    assert 1 < len(graph.y.unique(dim=0)) <= 6
    share = graph.y.mean(0)
    assert bool(((share > 0) & (share < 1)).all())
