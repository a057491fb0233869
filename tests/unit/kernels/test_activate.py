"""The fused LayerNorm, ReLU and dropout against torch's own layers and autograd."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import layer_norm

from halowire.errors import InputError
from halowire.kernels import Drop, activate, activate_backward
from halowire.kernels.counter_random import drop_factor
from tests.support.choices import CHOICES, use, use_threads


@pytest.mark.parametrize("choice", CHOICES)
@pytest.mark.parametrize("norm", [True, False])
@pytest.mark.parametrize("relu", [True, False])
@pytest.mark.parametrize("dropout", [0.0, 0.4])
def test_agrees_with_torch_and_its_autograd(choice: str, norm: bool, relu: bool, dropout: float) -> None:
    torch.manual_seed(0)
    n, k = 300, 37
    x = (torch.randn(n, k) * 2 + 1).requires_grad_()
    gamma, beta = (torch.randn(k) + 1).requires_grad_(), torch.randn(k).requires_grad_()
    drop = Drop(dropout, seed=3, epoch=5, layer=1, ids=torch.arange(n) * 11)
    y = layer_norm(x, (k,), gamma, beta) if norm else x
    near_zero = y.detach().abs() < 1e-5 if relu else torch.zeros(n, k, dtype=torch.bool)
    y = (y.relu() if relu else y) * drop_factor(drop, k)
    grad = torch.randn(n, k).masked_fill(near_zero, 0.0)
    y.backward(grad)
    with use(choice), torch.no_grad():
        scale, shift = (gamma, beta) if norm else (None, None)
        out, stats = activate(x, scale, shift, relu, drop)
        grad_x, grad_gamma, grad_beta = activate_backward(grad, x, stats, scale, shift, relu, drop)
    torch.testing.assert_close(out, y.detach(), atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(grad_x, x.grad, atol=2e-5, rtol=1e-4)
    if norm:
        torch.testing.assert_close(grad_gamma, gamma.grad, atol=1e-4, rtol=1e-4)
        torch.testing.assert_close(grad_beta, beta.grad, atol=1e-4, rtol=1e-4)
    else:
        assert (stats, grad_gamma, grad_beta) == (None, None, None)


def test_no_result_depends_on_the_number_of_threads() -> None:
    torch.manual_seed(0)
    x, grad = torch.randn(3000, 50), torch.randn(3000, 50)
    gamma, beta = torch.randn(50), torch.randn(50)
    drop = Drop(0.5, 0, 0, 0, torch.arange(3000))
    results = []
    for threads in (1, 2, 3):
        with use_threads(threads):
            out, stats = activate(x, gamma, beta, True, drop)
            results.append((out, *activate_backward(grad, x, stats, gamma, beta, True, drop)))
    for other in results[1:]:
        assert all(torch.equal(a, b) for a, b in zip(results[0], other, strict=True) if a is not None and b is not None)


@pytest.mark.parametrize("choice", CHOICES)
def test_backward_may_overwrite_the_gradient(choice: str) -> None:
    x, grad = torch.randn(40, 19), torch.randn(40, 19)
    gamma, beta = torch.ones(19), torch.zeros(19)
    with use(choice):
        _, stats = activate(x, gamma, beta, True, None)
        expected, *_ = activate_backward(grad, x, stats, gamma, beta, True, None)
        inplace, *_ = activate_backward(grad, x, stats, gamma, beta, True, None, out=grad)
    assert inplace is grad
    assert torch.equal(inplace, expected)


@pytest.mark.parametrize("choice", CHOICES)
def test_not_a_number_shows(choice: str) -> None:
    with use(choice):
        out, _ = activate(torch.full((2, 9), float("nan")), None, None, True, None)
    assert bool(out.isnan().all())


def test_a_scale_without_a_shift_has_no_gradient_of_the_shift() -> None:
    x, gamma = torch.randn(5, 6), torch.randn(6)
    out, stats = activate(x, gamma, None, False, None)
    torch.testing.assert_close(out, layer_norm(x, (6,), gamma))
    assert activate_backward(torch.ones(5, 6), x, stats, gamma, None, False, None)[2] is None


def test_what_does_not_fit_is_refused() -> None:
    x = torch.randn(4, 6)
    with pytest.raises(InputError, match="gamma"):
        activate(x, torch.ones(5), torch.ones(6), True, None)
    with pytest.raises(InputError, match="ids of dropout"):
        activate(x, None, None, True, Drop(0.5, 0, 0, 0, torch.arange(3)))
    with pytest.raises(InputError, match="stats and gamma"):
        activate_backward(x, x, None, torch.ones(6), None, True, None)
    with pytest.raises(InputError, match="below 1"):
        Drop(1.0, 0, 0, 0, torch.arange(3))
