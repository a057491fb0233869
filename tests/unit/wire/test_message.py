"""A message over a stage link: what arrives is what the sender knows that its receiver sees, in any code."""

from __future__ import annotations

import pytest
import torch

from halowire.events import STAGE
from halowire.wire import FORWARD, HEADER_BYTES, Policy, Rate, StageLink, run_threads

ROWS, WIDTH, EPOCHS = 20, 12, 3
PLACES = [slice(0, 8), slice(8, ROWS)]
CASES = {
    "float32": Policy(),
    "bf16": Policy(lambda *_: Rate(16)),
    "one bit": Policy(lambda *_: Rate(1)),
    "columns": Policy(lambda *_: Rate(8, ratio=3.0), rescale=True),
    "changes": Policy(lambda *_: Rate(1, "levels"), decay=0.8),
    "changes of columns": Policy(lambda *_: Rate(4, ratio=2.0), decay=0.9),
}


def rows_of(epoch: int) -> torch.Tensor:
    return torch.randn(ROWS, WIDTH, generator=torch.Generator().manual_seed(epoch))


@pytest.mark.parametrize("name", CASES)
def test_both_ends_hold_the_same_rows(name):
    policy = CASES[name]

    def sender(link: StageLink) -> list[torch.Tensor]:
        found = []
        for epoch in range(EPOCHS):
            rows = rows_of(epoch)
            for number, at in enumerate(PLACES):
                link.send(rows[at], number, at, FORWARD, epoch)
            every = torch.arange(8)
            first = link._outgoing[0]
            found.append(first.seen(rows[:8], every, first.terms.codec))
            link.settle()
        return found

    def receiver(link: StageLink) -> list[torch.Tensor]:
        found = []
        for epoch in range(EPOCHS):
            into = torch.full((ROWS, WIDTH), torch.nan)
            for number, at in enumerate(PLACES):
                link.expect(number, at, into, FORWARD, epoch)
            for number, at in enumerate(PLACES):
                link.take(number)
                link.unpack(at)
            found.append(into)
        return found

    def work(transport):
        link = StageLink(transport, 1 - transport.rank, 2, 0, torch.arange(100, 100 + ROWS), policy)
        rows = (receiver if transport.rank else sender)(link)
        return rows, transport.ledger.totals[STAGE], link.memory.matrices

    (seen, sent, kept), (arrived, nothing, also_kept) = run_threads(2, work)
    columns = policy.rates(0, 2, FORWARD).columns(WIDTH)
    bits = policy.rates(0, 2, FORWARD).bits
    row = -(-bits * columns // 8) + (0 if bits >= 16 else 4)
    assert sent == EPOCHS * (ROWS * row + len(PLACES) * HEADER_BYTES) and nothing == 0
    for epoch, (mine, theirs) in enumerate(zip(seen, arrived, strict=True)):
        assert torch.equal(mine, theirs[:8]) and torch.isfinite(theirs).all()
        if name == "float32":
            assert torch.equal(theirs, rows_of(epoch))
    assert kept.keys() == also_kept.keys() and bool(kept) == name.startswith("changes")
    assert all(torch.equal(kept[key], also_kept[key]) for key in kept)
