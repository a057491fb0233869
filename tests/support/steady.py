"""Seeds at which rounding decides nothing, so that a comparison with a reference says something.

A code jumps where a value crosses one of its steps, and a gradient where a value crosses the kink of ReLU. Where the
reference, started from weights that differ by a few roundings, differs from itself, no program can be held against it:
such seeds are passed over, whatever the program under test does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from halowire.training import Config
from tests.support.epochs import Epochs, difference

SEEDS, NUDGES, ROUNDINGS = 50, 3, 5e-7


def nudged(weights: Mapping[str, Tensor], nudge: int, size: float = ROUNDINGS, zeros: bool = True) -> dict[str, Tensor]:
    """The first weights moved by about ``size`` of them, in one of many ways; unmoved where ``nudge`` is 0.

    Zeros, which biases and the shifts of norms begin with, are moved by ``size`` itself: rows that a code has put on
    equally spaced levels can have a mean that is one of them, and a norm puts that level on the kink of ReLU. Not so
    where ``zeros`` is False: a node without any feature has zeros before its first ReLU, in every program.
    """
    draw = torch.Generator().manual_seed(nudge)
    moved = {}
    for name, value in weights.items():
        step = size * torch.randn(value.shape, generator=draw) if nudge else torch.zeros(value.shape)
        least = 1.0 if zeros else 0.0
        moved[name] = value.detach() + step * torch.where(value == 0, least, value.detach())
    return moved


def steady(config: Config, reference: Callable[[Config, int], Epochs], tolerance: float) -> tuple[Config, Epochs]:
    """``config`` with the first seed at which nudges move the reference by at most half of the tolerance.

    ``reference(config, nudge)`` starts from the weights of :func:`nudged`; its epochs at that seed are returned too.
    """
    for seed in range(config.seed, config.seed + SEEDS):
        tried = config.replace({"seed": seed})
        want = reference(tried, 0)
        others = (reference(tried, nudge) for nudge in range(1, NUDGES + 1))
        if all(not difference(other, want, tolerance / 2) for other in others):
            return tried, want
    raise AssertionError(f"the reference is steady at none of {SEEDS} seeds")
