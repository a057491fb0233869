"""Rates over time: VARCO's own figures, short runs, steps, a budget that is met, and Sylvie's base bit."""

from __future__ import annotations

import math
import random
import re
from contextlib import nullcontext

import pytest
import torch

from halowire.errors import InputError
from halowire.training import Config, Situation, policy_of, recipe_config, refuse
from halowire.training.rate_plan import epoch_bytes
from halowire.wire import BaseBit, Budget, Rate, column_subset, exponential, linear, parse_steps, row_subset, stepped
from tests.support.wire_reference import base_bits


@pytest.mark.parametrize(
    ("slope", "smallest", "share"),
    [(1, 1, 0.041), (2, 1, 0.520), (5, 1, 0.807), (7, 1, 0.861), (1, 1.5, 0.037), (5, 1.5, 0.538)],
)
def test_varcos_share_of_the_bytes(slope, smallest, share):
    columns = [Rate(ratio=linear(epoch, 300, 128, smallest, slope)).columns(256) for epoch in range(300)]
    assert sum(columns) / (300 * 256) == pytest.approx(share, abs=0.0006)


@pytest.mark.parametrize("epochs", [1, 2, 3])
def test_short_runs_are_safe(epochs):
    for epoch in range(epochs):
        assert 1 <= linear(epoch, epochs, 128, 1, 5) <= 128
        assert 1 <= exponential(epoch, epochs, 128, 1) <= 128


def test_exponential_ends():
    assert exponential(0, 100, 64, 2) == 64
    assert exponential(98, 100, 64, 2) == pytest.approx(2)
    assert exponential(49, 100, 64, 1) == pytest.approx(8)


def test_steps():
    steps = parse_steps("0:64,50:8,100:1")
    assert [stepped(epoch, steps) for epoch in (0, 49, 50, 99, 100, 999)] == [64, 64, 8, 8, 1, 1]
    for wrong in ("5:3", "0:1,0:2", "a:b", "", "0:4,3"):
        with pytest.raises(InputError, match=r"rate\.steps"):
            parse_steps(wrong)


@pytest.mark.parametrize("share", [0.02, 0.1, 0.35, 0.8, 1.0])
@pytest.mark.parametrize("epochs", [5, 60, 300])
def test_a_budget_is_met_and_rises(epochs, share):
    def cost(s: float) -> int:
        return epoch_bytes(lambda *_: Rate(ratio=1 / max(s, 1e-9)), {1: 256, 2: 47}, 1000)

    total = share * epochs * cost(1.0)
    if total < epochs * cost(0.0):
        pytest.fail("the case asks for less than one column")
    budget = Budget.plan(total, epochs, cost)
    spent = sum(cost(s) for s in budget.shares)
    assert spent == pytest.approx(total, rel=0.02)
    assert spent <= total
    assert list(budget.shares) == sorted(budget.shares)


@pytest.mark.parametrize("widths", [(256, 47), (64, 7), (16, 4)])
@pytest.mark.parametrize("epochs", [1, 2, *(pytest.param(some, marks=pytest.mark.slow) for some in (3, 5))])
def test_a_budget_that_whole_columns_miss_is_refused_with_one_that_they_meet(epochs, widths):
    def cost(s: float) -> int:
        return epoch_bytes(lambda *_: Rate(ratio=1 / max(s, 1e-9)), dict(enumerate(widths, 1)), 100)

    refused = 0
    for asked in range(epochs * cost(0.0), epochs * cost(1.0), 1 + epochs * cost(1.0) // 40):
        total = asked
        try:
            budget = Budget.plan(total, epochs, cost)
        except InputError as error:
            refused += 1
            total = int(re.search(r"give --rate.budget (\d+)", str(error)).group(1))
            budget = Budget.plan(total, epochs, cost)
        spent = sum(cost(s) for s in budget.shares)
        assert 0.98 * total <= spent <= total
        assert list(budget.shares) == sorted(budget.shares)
    assert refused or (epochs, widths) not in [(1, (64, 7)), (1, (16, 4))]


def test_budgets_that_cannot_be_are_refused():
    for total in (10.0, 1e12):
        with pytest.raises(InputError, match=r"rate\.budget"):
            Budget.plan(total, 10, lambda share: 1000 + int(1e6 * share))


BUDGETS = {
    "last layer spared": ({"rate.budget": 3e6, "rate.spare_last": True}, (32, 32), (32, 32)),
    "backward bits": ({"rate.budget": 7e5, "rate.bits": 8, "rate.backward_bits": 1}, (8, 1), (8, 1)),
    "bits per layer": ({"rate.budget": 6e5, "rate.bits": 8, "rate.layers": "1:8/2,2:16"}, (8, 2), (16, 16)),
    "a layer's own ratio": ({"rate.budget": 1e6, "rate.layer_ratios": "2:4"}, (32, 32), (32, 32)),
}


@pytest.mark.parametrize("case", BUDGETS)
def test_the_budget_of_a_policy_counts_every_layer_and_direction(case):
    settings, *bits = BUDGETS[case]
    policy = policy_of(Config().replace({"epochs": 20, "rate.schedule": "budget"} | settings), [256, 47], 100)
    sent = 0
    for epoch in range(20):
        for layer, width in ((1, 256), (2, 47)):
            columns = policy.rates(epoch, layer, "forward").columns(width)
            for number in bits[layer - 1]:
                formula = math.ceil(number * columns / 8) + (4 if number < 16 else 0)
                sent += 100 * formula
    assert sent == pytest.approx(settings["rate.budget"], rel=0.02)
    first, last = (policy.rates(epoch, 1, "forward").ratio for epoch in (0, 19))
    assert first > last
    own = {"last layer spared": 1, "a layer's own ratio": 4}.get(case)
    assert own is None or {policy.rates(epoch, 2, "forward").ratio for epoch in range(20)} == {own}


def test_a_budget_counts_the_input_forward_only():
    settings = {"epochs": 20, "rate.schedule": "budget", "rate.budget": 2e6, "rate.resend_input": True}
    policy = policy_of(Config().replace(settings), [256, 47], 100, input_width=100)
    sent = 0
    for epoch in range(20):
        columns = [policy.rates(epoch, layer, "forward").columns(width) for layer, width in enumerate((100, 256, 47))]
        sent += 400 * (columns[0] + 2 * columns[1] + 2 * columns[2])
    assert sent == pytest.approx(2e6, rel=0.02)


def test_layers_and_directions_have_their_own_bits_and_ratios():
    settings = {"rate.bits": 16, "rate.backward_bits": 8, "rate.layers": "2:4/1, 3:2", "rate.layer_ratios": "1:4,3:1.5"}
    settings |= {"rate.schedule": "linear", "rate.max_ratio": 8.0, "epochs": 50, "rate.code": "levels"}
    policy = policy_of(Config().replace(settings), [64, 64, 64, 10], 5)
    rates = {(layer, way): policy.rates(0, layer, way) for layer in (1, 2, 3, 4) for way in ("forward", "backward")}
    assert [rates[layer, "forward"].bits for layer in (1, 2, 3, 4)] == [16, 4, 2, 16]
    assert [rates[layer, "backward"].bits for layer in (1, 2, 3, 4)] == [8, 1, 2, 8]
    assert [rates[layer, "forward"].ratio for layer in (1, 2, 3, 4)] == [4, 8, 1.5, 8]
    assert [policy.rates(49, layer, "forward").ratio for layer in (1, 2, 3, 4)] == [4, 1, 1.5, 1]
    assert [rates[layer, "backward"].code for layer in (1, 2, 3)] == ["minmax", "levels", "levels"]


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"rate.layers": "3:1"}, "layers 1 to 2"),
        ({"rate.layers": "1:5"}, "bits one of 32"),
        ({"rate.layers": "1:8/3"}, "bits one of 32"),
        ({"rate.layers": "1:8/"}, "bits one of 32"),
        ({"rate.layers": "1"}, "give LAYER:BITS or"),
        ({"rate.layers": "1:8,"}, "give LAYER:BITS or"),
        ({"rate.layers": "1:8,1:4"}, "twice"),
        ({"rate.layers": "0:8"}, "layers 1 to 2"),
        ({"rate.resend_input": True, "rate.layers": "0:8/4"}, "no gradient"),
        ({"rate.resend_input": True, "rate.layers": "3:8"}, "layers 0 to 2"),
        ({"freshness.mode": "never", "rate.resend_input": True}, "no effect with"),
        ({"rate.layer_ratios": "1:x"}, "give a number"),
        ({"rate.layer_ratios": "1:nan"}, "at least 1"),
        ({"rate.layer_ratios": "1:0.5"}, "at least 1"),
        ({"rate.layer_ratios": "4:2"}, "give LAYER:RATIO"),
        ({"rate.layer_ratios": "1:2,2:2", "rate.spare_last": True}, "layer 2; drop one"),
    ],
)
def test_mistakes_in_layers_are_told_in_one_line(settings, words):
    with pytest.raises(InputError, match=words) as told:
        policy_of(Config().replace(settings), [256, 47], 100)
    assert "\n" not in str(told.value)
    with pytest.raises(InputError, match="exchanges no rows"):
        policy_of(Config().replace({"rate.layers": "1:1"}), [], 0)


@pytest.mark.parametrize(
    "settings",
    [
        {"rate.rows": 0.5, "rate.decay": 0.8},
        {"rate.steps": "0:4"},
        {"rate.budget": 1e6},
        {"rate.schedule": "linear", "rate.ratio": 4.0},
        {"freshness.sync_every": 3},
        {"freshness.smoothing": 0.5},
        {"rate.bits": 8, "rate.code": "levels"},
        {"rate.share": 0.05},
        {"rate.share": 1.5, "rate.bits": 1},
        {"rate.share": 0.05, "rate.bits": 1, "rate.backward_bits": 8},
        {"rate.share": 0.05, "rate.bits": 1, "rate.layers": "1:8"},
        {"rate.share": 0.05, "rate.bits": 1, "rate.base": "loss"},
        {"rate.decay": 1.5},
        {"rate.code": "levels"},
        {"rate.code": "levels", "rate.layers": "1:16"},
        {"rate.slope": 2.0},
        {"rate.rescale": True},
        {"rate.spare_last": True},
        {"rate.columns": "first"},
        {"rate.columns": "first", "rate.ratio": 4.0, "rate.rescale": True},
        {"freshness.mode": "never", "rate.bits": 1},
        {"rate.share": 0.05, "rate.bits": 1, "rate.nodes": "degree"},
        {"rate.decay": 0.8, "rate.bits": 1, "rate.ratio": 2.0, "rate.rescale": True},
        {"rate.schedule": "linear", "rate.max_ratio": 1.0, "rate.min_ratio": 128.0},
        {"rate.schedule": "linear", "rate.min_ratio": 0.5},
        {"rate.schedule": "linear", "rate.slope": -1.0},
        {"rate.schedule": "linear", "rate.slope": 0.0},
        {"rate.schedule": "linear", "rate.max_ratio": math.inf},
        {"rate.schedule": "exponential", "rate.min_ratio": 0.0},
        {"rate.schedule": "exponential", "rate.max_ratio": 2.0, "rate.min_ratio": 4.0},
        {"rate.schedule": "steps", "rate.steps": "0:64,50:0.5"},
        {"rate.bits": 1, "rate.backward_bits": 8, "rate.backward_code": "levels"},
        {"rate.bits": 8, "rate.backward_bits": 1, "rate.code": "clipped", "rate.backward_code": "minmax"},
    ],
)
def test_settings_without_effect_or_meaning_are_refused(settings):
    with pytest.raises(InputError):
        policy_of(Config().replace(settings), [256, 47], 100)


@pytest.mark.parametrize(
    "settings",
    [
        {"rate.bits": 8, "rate.backward_bits": 1, "rate.backward_code": "clipped"},
        {"rate.bits": 8, "rate.layers": "2:8/1", "rate.backward_code": "levels"},
        {"rate.bits": 1, "rate.share": 0.2, "rate.code": "levels", "rate.backward_code": "clipped"},
        {"rate.schedule": "linear", "rate.max_ratio": 4.0, "rate.min_ratio": 4.0},
    ],
)
def test_settings_with_an_effect_pass(settings):
    policy_of(Config().replace(settings), [256, 47], 100)


def test_the_last_layer_is_not_spared_where_nothing_else_could_be_dropped():
    config = Config().replace({"rate.ratio": 2.0, "rate.spare_last": True})
    policy = policy_of(config, [256, 47], 100)
    assert [policy.rates(0, layer, "forward").ratio for layer in (1, 2)] == [2, 1]
    assert policy_of(config, [47], 100).rates(0, 1, "forward").ratio == 2


def test_subsets_are_uniform_and_shared():
    counts = torch.zeros(16)
    for epoch in range(400):
        subset = column_subset(16, 4, seed=1, epoch=epoch, layer=2)
        assert len(subset.unique()) == 4
        counts[subset] += 1
    assert counts.min() > 60 and counts.max() < 140
    ids = torch.arange(100, 150)
    kept, sizes = row_subset(ids, (20, 0, 30), 0.1, seed=3, epoch=5)
    assert sizes == (2, 0, 3)
    again, _ = row_subset(ids[20:], (30,), 0.1, seed=3, epoch=5)
    assert torch.equal(kept[2:] - 20, again), "the receiver of a group draws it alone"


@pytest.mark.parametrize(
    ("recipe", "settings", "idle"),
    [
        ("delta", {"model.layers": 2}, True),
        ("exact", {"model.layers": 2, "rate.bits": 1, "rate.decay": 0.8}, True),
        ("halowire", {"model.layers": 2}, False),
        ("halowire-classic", {"model.layers": 2}, False),
        ("halowire-classic", {"model.layers": 2, "rate.decay": 0.8}, True),
        ("delta", {"model.layers": 2, "wire.rows": "hidden"}, False),
        ("two-levels", {"model.layers": 2}, False),
        ("delta", {"model.layers": 3}, False),
        ("delta", {"model.layers": 2, "model.hidden": 10}, False),
        ("gnnpipe-1bit", {"model.layers": 2}, False),
    ],
)
def test_changes_are_refused_where_all_rows_are_products(recipe, settings, idle):
    config = recipe_config(recipe).replace(settings)
    with pytest.raises(InputError, match="has no effect: of 2 layers") if idle else nullcontext():
        refuse(config, Situation(outputs=10))


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
