"""A finding is good only within what is allowed."""

from __future__ import annotations

import pytest

from halowire.proving.finding import Finding


@pytest.mark.parametrize(
    ("apart", "allowed", "problem", "good"),
    [
        (0.0, 0.0, "", True),
        (1e-6, 1e-5, "", True),
        (1e-9, 0.0, "", False),
        (float("nan"), 1.0, "", False),
        (0.0, 0.0, "does not repeat", False),
    ],
)
def test_what_is_good(apart, allowed, problem, good):
    assert Finding("pack", apart, allowed, problem).good is good


def test_words():
    assert Finding("pack", 0.0, 0.0).words() == "pack: equal"
    assert Finding("sum", 2e-3, 1e-5, "does not repeat").words() == (
        "sum: 2.0e-03 apart (allowed: 1e-05), does not repeat"
    )
