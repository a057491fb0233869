"""A model that a script changes after it was distributed: followed where that is right, else refused."""

from __future__ import annotations

import copy

import pytest
import torch
import torch_geometric.nn as pyg
from torch_geometric.explain import Explainer, GNNExplainer

import halowire
from halowire.errors import InputError
from halowire.pyg.shard_data import cut_data
from halowire.wire import run_threads
from tests.support.pyg_case import assert_close, make_graph, make_owner, place, seeded
from tests.support.pyg_models import two


def test_an_explainer_is_refused_with_what_to_do():
    def here(transport):
        data, model = place(transport, seeded(lambda: two(pyg.GCNConv)))
        explainer = Explainer(
            model, GNNExplainer(epochs=2), "model", node_mask_type="attributes", edge_mask_type="object",
            model_config={"mode": "multiclass_classification", "task_level": "node", "return_type": "raw"},
        )  # fmt: skip
        with pytest.raises(InputError, match="explain a plain model"):
            explainer(data.x, data.edge_index)

    run_threads(2, here)


@pytest.mark.parametrize("layer", [pyg.GCNConv, pyg.GATConv], ids=["GCNConv", "GATConv"])
def test_double_after_distribute(layer):
    """Outputs and gradients are those of plain PyG, after a pass in float32."""
    graph = make_graph()
    plain = seeded(lambda: two(layer))
    twin = copy.deepcopy(plain).double()
    want = twin(graph["x"].double(), graph["edge_index"])
    want.square().mean().backward()

    def here(transport):
        data = cut_data(graph, make_owner(2), transport)
        model = halowire.distribute(copy.deepcopy(plain), data)
        model(data.x, data.edge_index)
        model.double()
        out = model(data.x.double(), data.edge_index)
        data.mean(out.square()).backward()
        return data.gather(out), [value.grad for value in model.parameters()]

    for out, grads in run_threads(2, here):
        assert out.dtype == torch.float64
        assert_close("output", out, want.detach())
        for got, value in zip(grads, twin.parameters(), strict=True):
            assert_close("gradient", got, value.grad)
