"""LayerNorm, ReLU and dropout in one: against torch's own, values and gradients; the mask depends on the node alone."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from halowire.layers import Activation, Rows
from tests.support.reference import dropout_factor

PARTS = {"whole": [slice(0, 40)], "cut": [slice(0, 13), slice(13, 40)]}


@pytest.mark.parametrize("parts", PARTS)
@pytest.mark.parametrize("norm", [True, False])
@pytest.mark.parametrize("p", [0.0, 0.3])
def test_equals_torch(norm, p, parts):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(40, 33, generator=generator)
    gamma, beta = (torch.randn(33, generator=generator) for _ in range(2)) if norm else (None, None)
    ids = torch.randperm(1000, generator=generator)[:40]
    grad = torch.randn(40, 33, generator=generator)
    copies = [t.clone().requires_grad_() for t in (x, gamma, beta) if t is not None]
    want = F.layer_norm(copies[0], (33,), *copies[1:]) if norm else copies[0]
    want = want.relu() * dropout_factor(p, 3, 4, 1, ids, 33)
    want_grads = torch.autograd.grad(want, copies, grad)

    weights = [None if value is None else torch.nn.Parameter(value) for value in (gamma, beta)]
    activation = Activation(*weights, p, layer=1)
    whole = Rows.whole(ids, seed=3, epoch=4, training=True)
    got, found = torch.empty_like(x), activation.stats_for(x)
    for at in PARTS[parts]:
        activation.forward(x[at], whole.range(at.start, at.stop), got[at], None if found is None else found[at])
    torch.testing.assert_close(got, want.detach(), rtol=1e-5, atol=1e-5)
    for at in PARTS[parts]:
        stats = None if found is None else found[at]
        activation.backward(grad[at], x[at], stats, whole.range(at.start, at.stop))
    torch.testing.assert_close(grad, want_grads[0], rtol=1e-4, atol=1e-5)
    for parameter, want_grad in zip(activation.parameters, want_grads[1:], strict=True):
        torch.testing.assert_close(parameter.grad, want_grad, rtol=1e-4, atol=1e-5)


def masked(x, ids, seed=1, epoch=2, layer=0):
    out = torch.empty_like(x)
    Activation(None, None, 0.5, layer).forward(x, Rows.whole(ids, seed, epoch, training=True), out, None)
    return out


def test_the_mask_belongs_to_the_node_not_to_its_place():
    ids = torch.tensor([5, 900, 3])
    x = torch.ones(3, 64)
    out = masked(x, ids)
    assert torch.equal(out, masked(x, ids.flip(0)).flip(0))
    for other in ({"seed": 2}, {"epoch": 3}, {"layer": 1}):
        assert not torch.equal(out, masked(x, ids, **other))
