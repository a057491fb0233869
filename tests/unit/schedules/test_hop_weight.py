"""Mean weights of paths through several chunks: against all orders, and as the documentation has them."""

from __future__ import annotations

import itertools
import math
from pathlib import Path

import pytest
import torch

from halowire.schedules.hop_weight import hop_weight, mean_path_weight
from tests.support.chunk_gradients import K, N, gradient

RULES = ["double", "position", "unbiased"]


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("power", [1, 2])
def test_the_mean_is_that_of_all_orders(rule, power):
    for count, hops in ((2, 1), (4, 1), (4, 2), (4, 3), (5, 3)):
        total = 0.0
        for order in itertools.permutations(range(count)):
            places = [order.index(chunk) for chunk in range(hops + 1)]  # the path goes through chunks 0, 1, ... hops
            pairs = list(itertools.pairwise(places))
            if all(place < later for place, later in pairs):
                total += math.prod(hop_weight(rule, count, *pair) ** power for pair in pairs)
        assert mean_path_weight(rule, count, hops, power) == pytest.approx(total / math.factorial(count))


@pytest.mark.parametrize("count", [2, 3, 8, 32])
def test_unbiased_is_and_double_is_not(count):
    for hops in range(1, min(count, 7)):
        assert mean_path_weight("unbiased", count, hops) == pytest.approx(1.0)
        assert mean_path_weight("double", count, hops) == pytest.approx(2**hops / math.factorial(hops + 1))
        less = mean_path_weight("position", count, hops)
        assert mean_path_weight("double", count, hops) <= less + 1e-12 <= 1 + 1e-9


def test_an_edge_weighs_what_the_rule_says():
    """Through the spread itself: one edge from a row of one chunk to a row of another."""
    count, w = 4, torch.ones(N, K)
    rows = N // count
    for order in ((0, 1, 2, 3), (2, 0, 3, 1)):
        places = {chunk: count - 1 - step for step, chunk in enumerate(order)}
        for source, target in itertools.permutations(range(count), 2):
            a = torch.zeros(N, N)
            a[target * rows, source * rows] = 1.0  # the gradient passes from the target's chunk to the source's
            for rule in RULES:
                found = float(gradient(a, w, order, rule)[source * rows, 0])
                later = places[source] > places[target]
                want = hop_weight(rule, count, places[target], places[source]) if later else 0.0
                assert found == pytest.approx(want), (rule, order, source, target)


def test_the_documentation_has_these_numbers():
    text = Path("docs/stories/chunk.md").read_text()
    for rule, count in (("double", 32), ("position", 8), ("position", 32), ("unbiased", 32)):
        means = " | ".join(f"{mean_path_weight(rule, count, hops):.2f}" for hops in range(1, 6))
        noise = f"{mean_path_weight(rule, count, 1, power=2):.1f}"
        name = f"`{rule}`" if rule != "position" else f"`{rule}`, C = {count}"
        name += ", C = 32" if rule == "unbiased" else ""
        assert f"| {name} | {means} | {noise} |" in text
