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
from tests.support.worker_counts import two_and_three


@two_and_three
def test_an_explainer_is_refused_with_what_to_do(workers):
    def here(transport):
        data, model = place(transport, seeded(lambda: two(pyg.GCNConv)))
        explainer = Explainer(
            model, GNNExplainer(epochs=2), "model", node_mask_type="attributes", edge_mask_type="object",
            model_config={"mode": "multiclass_classification", "task_level": "node", "return_type": "raw"},
        )  # fmt: skip
        with pytest.raises(InputError, match="explain a plain model"):
            explainer(data.x, data.edge_index)

    run_threads(workers, here)


@two_and_three
@pytest.mark.parametrize("layer", [pyg.GCNConv, pyg.GATConv], ids=["GCNConv", "GATConv"])
def test_double_after_distribute(layer, workers):
    """Outputs and gradients are those of plain PyG, after a pass in float32."""
    graph = make_graph()
    plain = seeded(lambda: two(layer))
    twin = copy.deepcopy(plain).double()
    want = twin(graph["x"].double(), graph["edge_index"])
    want.square().mean().backward()

    def here(transport):
        data = cut_data(graph, make_owner(workers), transport)
        model = halowire.distribute(copy.deepcopy(plain), data)
        model(data.x, data.edge_index)
        model.double()
        out = model(data.x.double(), data.edge_index)
        data.mean(out.square()).backward()
        return data.gather(out), [value.grad for value in model.parameters()]

    for out, grads in run_threads(workers, here):
        assert out.dtype == torch.float64
        assert_close("output", out, want.detach())
        for got, value in zip(grads, twin.parameters(), strict=True):
            assert_close("gradient", got, value.grad)


class WithNorm(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = pyg.GCNConv(6, 6)
        self.norm = torch.nn.BatchNorm1d(6)
        self.out = pyg.GCNConv(6, 4)

    def forward(self, x, edge_index):
        return self.out(self.norm(self.conv(x, edge_index)).relu(), edge_index)


@two_and_three
def test_a_layer_that_was_put_in_later_is_refused(workers):
    """A new norm of the same shape would take the statistics of this worker's rows alone."""

    def here(transport):
        data, model = place(transport, seeded(WithNorm))
        model(data.x, data.edge_index)
        model.norm = torch.nn.BatchNorm1d(6)
        with pytest.raises(InputError, match="'norm', BatchNorm1d, was put into the model after"):
            model(data.x, data.edge_index)
        twin = copy.deepcopy(model)
        twin.norm = torch.nn.BatchNorm1d(6)
        with pytest.raises(InputError, match=r"load model\.state_dict"):
            twin(data.x, data.edge_index)

    run_threads(workers, here)


@two_and_three
def test_a_later_hook_may_look_and_not_change(workers):
    plain = seeded(WithNorm)
    graph = make_graph()
    want = plain(graph["x"], graph["edge_index"]).detach()

    def here(transport):
        data, model = place(transport, copy.deepcopy(plain))
        seen = []
        model.norm.register_forward_hook(lambda module, args, out: seen.append(out.shape))
        model.norm.register_forward_hook(lambda module, args, kwargs, out: seen.append(out.shape), with_kwargs=True)
        out = model(data.x, data.edge_index)
        assert seen == [(data.num_nodes, 6)] * 2
        handle = model.norm.register_forward_hook(lambda module, args, out: out - out.mean(0))
        with pytest.raises(InputError, match=r"a hook of layer .norm. .*add it before"):
            model(data.x, data.edge_index)
        handle.remove()
        model.conv.register_forward_pre_hook(lambda module, args: (args[0] * workers, args[1]))
        with pytest.raises(InputError, match="a hook of layer 'conv'"):
            model(data.x, data.edge_index)
        return data.gather(out.detach())

    for out in run_threads(workers, here):
        assert_close("output", out, want)


def test_backward_hooks_of_layers_see_the_gradients():
    """They pass the edges on as a view of themselves, and the gradients of the weights stay those of plain PyG."""
    graph, plain = make_graph(), seeded(WithNorm)
    plain(graph["x"], graph["edge_index"]).square().mean().backward()

    def here(transport):
        data, model = place(transport, copy.deepcopy(plain))
        model.zero_grad()
        seen = []
        model.out.register_full_backward_hook(lambda module, given, back: seen.append(back[0].shape))
        data.mean(model(data.x, data.edge_index).square()).backward()
        assert seen == [(data.num_nodes, 4)]
        return [value.grad for value in model.parameters()]

    for grads in run_threads(2, here):
        for got, (name, value) in zip(grads, plain.named_parameters(), strict=True):
            if name != "conv.bias":  # nothing but rounding before a norm
                assert_close(name, got, value.grad)
