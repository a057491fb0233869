"""The loss of the whole graph: penalties count once, means add up, bits follow losses, wrong sums are refused."""

from __future__ import annotations

import pytest
import torch
import torch_geometric.nn as pyg
from torch import Tensor

from halowire.errors import InputError
from halowire.pyg.distribute import state_of
from halowire.wire import run_threads
from tests.support.pyg_case import assert_close, make_graph, place, plain_gradients, seeded
from tests.support.pyg_models import two


def penalty(model) -> Tensor:
    return 0.1 * sum(value.square().sum() for value in model.parameters())


def test_a_penalty_counts_once():
    model = seeded(lambda: two(pyg.SAGEConv))
    want = plain_gradients(model, lambda own, out: out.square().mean() + penalty(own))
    graph = make_graph()
    value = model(graph["x"], graph["edge_index"]).square().mean() + penalty(model)

    def here(transport):
        data, own = place(transport, model)
        loss = data.mean(own(data.x, data.edge_index).square(), penalty=penalty(own))
        loss.backward()
        return loss.detach(), {name: each.grad for name, each in own.named_parameters()}

    for loss, grads in run_threads(3, here):
        assert_close("loss", loss, value.detach())
        for name, grad in want.items():
            assert_close(name, grads[name], grad)


def test_what_is_added_to_the_mean_is_refused():
    def here(transport):
        data, own = place(transport, two(pyg.SAGEConv))
        out = own(data.x, data.edge_index)
        loss = data.mean(out.square())
        for add in (
            lambda: loss + penalty(own),
            lambda: penalty(own) + loss,
            lambda: loss - out.mean(),
            lambda: torch.stack([loss, out.mean()]),
            lambda: sum([loss, penalty(own)]),
            lambda: loss * out.mean(),
        ):
            with pytest.raises(InputError, match="penalty="):
                add()

    run_threads(2, here)


def test_means_add_up_and_scale():
    model = seeded(lambda: two(pyg.SAGEConv))
    want = plain_gradients(model, lambda own, out: 2 * out.square().mean() + out.abs().mean() / 3 + 1)

    def here(transport):
        data, own = place(transport, model)
        out = own(data.x, data.edge_index)
        loss = 2 * data.mean(out.square()) + data.mean(out.abs()) / 3 + 1
        assert f"{float(loss):.4f}" == f"{loss.item():.4f}" and not loss.isnan()
        loss.backward()
        return {name: each.grad for name, each in own.named_parameters()}

    for grads in run_threads(2, here):
        for name, grad in want.items():
            assert_close(name, grads[name], grad)


def test_gradients_that_are_not_summed_are_refused():
    def here(transport):
        data, own = place(transport, two(pyg.SAGEConv))
        loss = data.mean(own(data.x, data.edge_index).square())
        with pytest.raises(InputError, match=r"loss\.backward"):
            torch.autograd.grad(loss, list(own.parameters()))

    run_threads(2, here)


def test_second_derivatives_are_refused():
    def here(transport):
        data, own = place(transport, two(pyg.SAGEConv))
        loss = data.mean(own(data.x, data.edge_index).square())
        with pytest.raises(InputError, match="create_graph"):
            loss.backward(create_graph=True)

    run_threads(2, here)


@pytest.mark.parametrize("base", ["loss", "loss-per-second"])
def test_bits_follow_the_loss_in_a_loop_of_ones_own(base):
    """A loss that falls ever more slowly doubles the bits, on all workers in the same pass."""
    model, passes = seeded(lambda: two(pyg.SAGEConv)), 40

    def here(transport):
        data, own = place(transport, model, "sylvie-3d", {"rate.base": base})
        optimiser = torch.optim.SGD(own.parameters(), lr=0.05)
        for _ in range(passes):
            optimiser.zero_grad()
            data.mean(own(data.x, data.edge_index).square()).backward()
            optimiser.step()
        [exchange] = state_of(own).exchanges
        return exchange.policy.base.history

    first, second = run_threads(2, here)
    assert first == second and len(first) == passes
    assert base != "loss" or max(first) > 1


def test_passes_without_a_loss_keep_the_bits():
    def here(transport):
        data, own = place(transport, two(pyg.SAGEConv), "sylvie-3d")
        for _ in range(3):
            own(data.x, data.edge_index)
        [exchange] = state_of(own).exchanges
        return exchange.policy.base.history

    assert run_threads(2, here) == [[1, 1, 1]] * 2


@pytest.mark.parametrize("kind", ["register_hook", "register_post_accumulate_grad_hook"])
def test_hooks_on_weights_are_refused_and_the_way_out_is_right(kind):
    """A clamp of one worker's gradients is not that of their sum."""
    model = seeded(lambda: two(pyg.SAGEConv))
    want = plain_gradients(model, lambda _, out: out.square().mean())

    def here(transport):
        data, own = place(transport, model)
        hooks = [getattr(value, kind)(lambda given: None) for value in own.parameters()]
        with pytest.raises(InputError, match=r"after loss\.backward\(\)"):
            data.mean(own(data.x, data.edge_index).square()).backward()
        for hook in hooks:
            hook.remove()
        data.mean(own(data.x, data.edge_index).square()).backward()
        return {name: value.grad.clamp(-0.01, 0.01) for name, value in own.named_parameters()}

    for found in run_threads(2, here):
        for name, grad in found.items():
            assert_close(name, grad, want[name].clamp(-0.01, 0.01))
