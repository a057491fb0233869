"""LayerNorm, ReLU and dropout in one: against torch's own, values and gradients; the mask depends on the node alone."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from halowire.kernels import Drop
from halowire.layers import Activation
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

    activation = Activation(gamma, beta, Drop(p, 3, 4, 1, ids) if p else None)
    got = torch.empty_like(x)
    stats = [activation.forward(x, got, rows) for rows in PARTS[parts]]
    torch.testing.assert_close(got, want.detach(), rtol=1e-5, atol=1e-5)
    sums = [activation.backward(grad, x, s, grad, rows) for s, rows in zip(stats, PARTS[parts], strict=True)]
    torch.testing.assert_close(grad, want_grads[0], rtol=1e-4, atol=1e-5)
    if norm:
        for column, want_grad in enumerate(want_grads[1:]):
            torch.testing.assert_close(sum(part[column] for part in sums), want_grad, rtol=1e-4, atol=1e-5)
    else:
        assert sums == [(None, None)] * len(sums)


def masked(x, drop):
    out = torch.empty_like(x)
    Activation(None, None, drop).forward(x, out, slice(0, len(x)))
    return out


def test_the_mask_belongs_to_the_node_not_to_its_place():
    ids = torch.tensor([5, 900, 3])
    x = torch.ones(3, 64)
    out = masked(x, Drop(0.5, 1, 2, 0, ids))
    assert torch.equal(out, masked(x, Drop(0.5, 1, 2, 0, ids.flip(0))).flip(0))
    for other in (Drop(0.5, 2, 2, 0, ids), Drop(0.5, 1, 3, 0, ids), Drop(0.5, 1, 2, 1, ids)):
        assert not torch.equal(out, masked(x, other))
