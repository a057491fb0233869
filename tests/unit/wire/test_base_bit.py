"""The base bit: doubled and halved by Sylvie's rule, per epoch or per second, and its state."""

from __future__ import annotations

import math
import random

import pytest

from halowire.errors import InputError
from halowire.training import Config, policy_of, recipe_config
from halowire.wire import BaseBit
from tests.support.wire_reference import base_bits


def losses_of(speeds: list[float]) -> list[float]:
    """Losses whose running average falls by exactly ``speeds``."""
    average, losses = 100.0, [100.0]
    for speed in speeds:
        losses.append(average - 10 * speed)
        average -= speed
    return losses


def observed(speeds: list[float], start: int = 2, seconds: float = 1.0, per_second: bool = False) -> BaseBit:
    base = BaseBit(start, per_second)
    for loss in losses_of(speeds):
        base.observe(loss, seconds)
    return base


def test_nothing_changes_before_five_speeds_are_known():
    assert observed([5, 4, 3, 2]).history == [2] * 6


def test_a_loss_that_falls_ever_more_slowly_doubles_up_to_eight():
    base = observed([9, 8, 7, 6, 5, 4, 3, 2])
    assert base.history == [2, 2, 2, 2, 2, 2, 4, 8, 8, 8]
    assert base.synchronous
    assert [base.bits(epoch) for epoch in (5, 6, 7)] == [2, 4, 8]


def test_a_loss_that_falls_ever_faster_halves_down_to_one():
    base = observed([1, 2, 3, 4, 5, 6, 7], start=4)
    assert base.history == [4, 4, 4, 4, 4, 4, 2, 1, 1]
    assert not base.synchronous


def test_mixed_speeds_change_nothing_and_the_last_change_decides_the_execution():
    base = observed([5, 4, 3, 2, 1, 6, 7, 8, 9], start=2)
    assert base.history == [2] * 6 + [4, 4, 4, 4, 2]
    assert not base.synchronous
    assert observed([5, 4, 3, 2, 1, 6, 7, 8], start=2).synchronous


def test_a_rising_loss_counts_as_falling_by_less():
    assert observed([1, 0, -1, -2, -3]).history[-1] == 4


@pytest.mark.parametrize("seed", range(20))
def test_random_losses_follow_the_slow_rule(seed):
    draw = random.Random(seed)
    losses = [3 * math.exp(-draw.random() * epoch / 20) + 0.02 * draw.random() for epoch in range(60)]
    base = BaseBit(2, per_second=False)
    for epoch in range(60):
        base.observe(losses[epoch], 1.0)
        assert (base.history[-1], base.synchronous) == base_bits(losses[: epoch + 1], 2)


def test_seconds_count_only_per_second():
    for per_second, want in ((True, 4), (False, 2)):
        base = BaseBit(2, per_second)
        for loss, seconds in zip(losses_of([5.0, 5.1, 5.0, 5.1, 5.0]), range(1, 7), strict=True):
            base.observe(loss, seconds)
        assert base.history[-1] == want
    still = observed([5, 4, 3, 2, 1], seconds=0.0, per_second=True)
    assert still.history[-1] == 4


@pytest.mark.parametrize("epochs", [0, 1, 4, 8])
def test_the_state_goes_on(epochs):
    losses = losses_of([5, 4, 3, 2, 1, 6, 7, 8, 9, 10])
    straight, first, second = (BaseBit(2, False) for _ in range(3))
    for loss in losses:
        straight.observe(loss, 1.0)
    for loss in losses[:epochs]:
        first.observe(loss, 1.0)
    second.load_state(first.state())
    for loss in losses[epochs:]:
        second.observe(loss, 1.0)
    assert (second.history, second.synchronous) == (straight.history, straight.synchronous)


def test_the_rates_follow():
    policy = policy_of(recipe_config("sylvie-3d"), [64, 10], 100)
    for loss in losses_of([5, 4, 3, 2, 1]):
        policy.base.observe(loss, 1.0)
    assert [policy.rates(5, 1, "forward").bits, policy.rates(6, 2, "backward").bits] == [1, 2]
    assert policy.rates(6, 1, "forward").graded
    assert policy.freshness.delayed and policy.freshness.adaptive


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({}, "starts from 1, 2, 4 or 8 bits"),
        ({"rate.bits": 16}, "starts from 1, 2, 4 or 8 bits"),
        ({"rate.bits": 1, "rate.backward_bits": 4}, "backward-bits has no effect"),
        ({"rate.bits": 1, "rate.layers": "1:4"}, "layers has no effect"),
        ({"rate.bits": 1, "rate.schedule": "budget", "rate.budget": 1e5}, "cannot plan"),
        ({"rate.bits": 1, "rate.base": "constant", "freshness.mode": "adaptive"}, "follows the bits"),
    ],
)
def test_what_has_no_meaning_is_refused(settings, words):
    with pytest.raises(InputError, match=words):
        policy_of(Config().replace({"rate.base": "loss"} | settings), [64, 10], 100)
