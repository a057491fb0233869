"""LayerNorm, ReLU and dropout in one: against torch's own, values and gradients; the mask depends on the node alone."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from halowire.kernels.random import Drop
from halowire.nn.activation import norm_relu_dropout
from tests.parity.reference import dropout_factor


@pytest.mark.parametrize("norm", [True, False])
@pytest.mark.parametrize("p", [0.0, 0.3])
def test_equals_torch(norm, p):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(40, 33, generator=generator)
    gamma, beta = (torch.randn(33, generator=generator) for _ in range(2)) if norm else (None, None)
    ids = torch.randperm(1000, generator=generator)[:40]
    grad = torch.randn(40, 33, generator=generator)
    inputs = [t.clone().requires_grad_() for t in (x, gamma, beta) if t is not None]
    drop = Drop(p, 3, 4, 1, ids) if p else None
    got = norm_relu_dropout(inputs[0], *(inputs[1:] or (None, None)), drop)
    got_grads = torch.autograd.grad(got, inputs, grad)
    copies = [t.detach().clone().requires_grad_() for t in inputs]
    want = F.layer_norm(copies[0], (33,), *copies[1:]) if norm else copies[0]
    want = want.relu() * dropout_factor(p, 3, 4, 1, ids, 33)
    want_grads = torch.autograd.grad(want, copies, grad)
    torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-5)
    for a, b in zip(got_grads, want_grads, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


def test_the_mask_belongs_to_the_node_not_to_its_place():
    ids = torch.tensor([5, 900, 3])
    x = torch.ones(3, 64)
    out = norm_relu_dropout(x, None, None, Drop(0.5, 1, 2, 0, ids))
    turned = norm_relu_dropout(x, None, None, Drop(0.5, 1, 2, 0, ids.flip(0)))
    assert torch.equal(out, turned.flip(0))
    for other in (Drop(0.5, 2, 2, 0, ids), Drop(0.5, 1, 3, 0, ids), Drop(0.5, 1, 2, 1, ids)):
        assert not torch.equal(out, norm_relu_dropout(x, None, None, other))
