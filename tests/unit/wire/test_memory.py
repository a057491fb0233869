"""Delta coding: both ends' memory takes the same step, and rows that stand still are learnt."""

from __future__ import annotations

import pytest
import torch

from halowire.wire.memory import Delta, Memory


@pytest.mark.parametrize("columns", [None, torch.tensor([0, 3])])
@pytest.mark.parametrize("gain", [1.0, 0.25])
def test_a_step_follows_the_formula(gain, columns):
    rule, draw = Delta(0.8, gain), torch.Generator().manual_seed(1)
    rows, before = torch.randn(5, 6, generator=draw), torch.randn(5, 6, generator=draw)
    chosen = torch.arange(6) if columns is None else columns
    coded = rule.change(rows, before)[:, chosen].round()
    torch.testing.assert_close(rule.change(rows, before), rows - 0.8 * before)
    kept = before.clone()
    rule.step(kept, coded, columns)
    want = before.clone()
    want[:, chosen] = 0.8 * before[:, chosen] + gain * coded
    torch.testing.assert_close(kept, want)
    used = rule.rows(kept, coded, columns)
    torch.testing.assert_close(used[:, chosen], 0.8 * before[:, chosen] + coded)
    rest = [column for column in range(6) if column not in chosen]
    assert torch.equal(used[:, rest], before[:, rest]) and torch.equal(kept[:, rest], before[:, rest])


def test_rows_that_stand_still_are_learnt():
    rule, row, kept = Delta(1.0, 0.5), torch.tensor([[3.0, -1.0]]), torch.zeros(1, 2)
    for _ in range(40):
        rule.step(kept, rule.change(row, kept), None)
    torch.testing.assert_close(kept, row)


def test_a_message_is_applied_once():
    memory = Memory(torch.device("cpu"))
    assert memory.is_new("delta.forward.1", 3) and not memory.is_new("delta.forward.1", 3)
    assert memory.is_new("delta.forward.1", 4) and memory.is_new("delta.forward.2", 3)
