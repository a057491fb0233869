"""Models: shapes, seeds, and settings that cannot be."""

from __future__ import annotations

import pytest
import torch

from halowire.errors import InputError
from halowire.layers import GAT, GCN, GCNII, SAGE, Shape


def test_weights_come_from_the_seed_alone():
    torch.manual_seed(1)
    first = SAGE(Shape(5, 8, 3), seed=2).state_dict()
    torch.manual_seed(9)
    again, other = SAGE(Shape(5, 8, 3), seed=2).state_dict(), SAGE(Shape(5, 8, 3), seed=3).state_dict()
    assert all(torch.equal(first[key], again[key]) for key in first)
    assert not torch.equal(first["blocks.0.conv.weight"], other["blocks.0.conv.weight"])


def test_parameters_of_gcn_and_sage():
    assert {key.split(".", 2)[2] for key in GCN(Shape(5, 8, 3)).state_dict()} == {
        "conv.weight",
        "conv.bias",
        "gamma",
        "beta",
    }
    assert "blocks.1.conv.weight_self" in SAGE(Shape(5, 8, 3)).state_dict()
    assert "blocks.2.gamma" not in SAGE(Shape(5, 8, 3)).state_dict(), "nothing follows the last layer"


def test_heads_are_concatenated_but_in_the_last_layer():
    shapes = {key: list(value.shape) for key, value in GAT(Shape(5, 8, 3, num_layers=2, heads=4)).state_dict().items()}
    assert shapes["blocks.0.conv.weight"] == [8, 5]
    assert shapes["blocks.0.conv.att_src"] == shapes["blocks.0.conv.att_dst"] == [4, 2]
    assert shapes["blocks.1.conv.weight"] == [12, 8]
    assert shapes["blocks.1.conv.att_src"] == [4, 3]
    assert shapes["blocks.1.conv.bias"] == [3]
    with pytest.raises(InputError, match="divide"):
        GAT(Shape(5, 8, 3, heads=3))


def test_the_narrower_side_travels():
    assert GAT.sent_widths(Shape(1000, 256, 47, 3, heads=4)) == [256, 188]
    assert GAT.sent_widths(Shape(1000, 64, 47, 3, heads=4)) == [64, 64]
    assert SAGE.sent_widths(Shape(1000, 256, 47, 3, heads=4)) == [256, 47]
    assert GCN.sent_widths(Shape(10, 64, 5, 1)) == []
    assert GCN.sent_widths(Shape(10, 8, 50, 2)) == [8]
    assert GCNII.sent_widths(Shape(10, 8, 50, 2)) == [8, 8]


@pytest.mark.parametrize("wrong", [{"norm": "batch"}, {"num_layers": 0}, {"dropout": 1.0}, {"hidden_channels": 0}])
def test_impossible_models_are_refused(wrong):
    with pytest.raises(InputError):
        SAGE(Shape(**{"in_channels": 4, "hidden_channels": 8, "out_channels": 2, **wrong}))
