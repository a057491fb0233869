"""Every check of a graph raises one readable line for the mistake it is for."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from halowire.errors import InputError
from halowire.graph import check
from halowire.kernels import Csr
from tests.support.small_graphs import triangle

NONE = torch.zeros(3, dtype=torch.bool)
ALL = torch.ones(3, dtype=torch.bool)
NAN = torch.tensor([[1.0, 0.0], [0.5, torch.nan], [0.0, torch.inf]])


def csr(rows: list[int], cols: list[int], shape: tuple[int, int], weight: list[float] | None = None) -> Csr:
    values = None if weight is None else torch.tensor(weight)
    return Csr.from_edges(torch.tensor(rows), torch.tensor(cols), *shape, values)


def test_a_good_graph_passes() -> None:
    graph = triangle()
    assert check(graph) is graph
    bare = replace(graph, x=None, y=None, train_mask=None, val_mask=None, test_mask=None, num_classes=0)
    assert check(bare) is bare


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"x": NAN}, r"2 values that are NaN or infinite \(the first at node 1, column 1\)"),
        ({"x": csr([0, 2], [1, 0], (3, 2), [1.0, torch.nan])}, r"NaN or infinite \(the first at node 2, column 0\)"),
        ({"x": torch.ones(2, 2)}, "x has 2 rows, expected 3"),
        ({"x": torch.ones(3, 0)}, "x has no columns"),
        ({"y": torch.tensor([0, 5, 1])}, r"label 5 of node 1 is outside the classes, expected 0\.\.1"),
        ({"y": torch.tensor([0, -2, 1])}, "label -2 of node 1"),
        ({"y": torch.tensor([0, 1])}, "y has 2 rows, expected 3"),
        ({"y": torch.full((3, 2), 0.5)}, "values other than 0 and 1"),
        ({"y": torch.zeros(3, 4)}, "y has 4 columns, expected num_classes = 2"),
        ({"y": None}, "train_mask is given but the graph has no labels"),
        ({"y": torch.tensor([-1, 1, 1])}, r"train_mask holds 1 unlabelled nodes \(the first is 0\)"),
        ({"val_mask": ALL}, r"train_mask and val_mask share 1 nodes \(the first is 0\)"),
        ({"test_mask": torch.tensor([False, True, True])}, "val_mask and test_mask share 1 nodes"),
        ({"train_mask": NONE}, "train_mask is empty"),
        ({"test_mask": NONE}, "test_mask is empty"),
        ({"train_mask": ALL[:2]}, r"train_mask has shape \[2\]"),
        ({"train_mask": ALL.long()}, r"expected torch.bool \[3\]"),
        ({"ids": torch.tensor([0, 1])}, r"ids have shape \[2\]"),
        ({"ids": torch.tensor([0, 7, 7])}, "node id 7 occurs more than once"),
        ({"ids": torch.tensor([0, -7, 7])}, "node id -7 is negative"),
        ({"adj": csr([0], [1], (3, 4))}, r"the adjacency is \[3, 4\]"),
        ({"adj": csr([0, 1], [1, 0], (3, 3), [1.0, -2.0])}, r"1 edge weights are negative .*first is -2.0"),
        ({"adj": csr([0, 1], [1, 0], (3, 3), [1.0, torch.nan])}, "negative or not finite"),
        ({"adj": Csr(torch.tensor([0, 1, 1, 1]), torch.tensor([9], dtype=torch.int32), None, 3)}, r"expected 0\.\.2"),
        ({"adj": Csr(torch.tensor([0]), torch.tensor([], dtype=torch.int32), None, 0)}, "has no nodes"),
    ],
)
def test_a_bad_graph_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        check(replace(triangle(), **change))
    assert "\n" not in str(caught.value)


def test_unlabelled_nodes_outside_the_masks_are_fine() -> None:
    graph = triangle()
    check(replace(graph, y=torch.tensor([0, -1, 1]), val_mask=None))
