"""Messages between stages are posted in one order at both ends, as NCCL needs it, in every mesh and with every code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from halowire.schedules import Border
from halowire.training import Config
from tests.support.order_watch import NotedTransport, Post, wrong_meetings
from tests.support.recipe_case import config_of, recipe_trainer


def _posted(rank: int, config: Config, fault: bool = False) -> list[Post]:
    """What this worker posts in two epochs and an evaluation; ``fault``: receives are posted link by link."""
    transport = NotedTransport()
    trainer = recipe_trainer(rank, "", config, transport)
    before = Border.expect
    if fault:
        Border.expect = _link_by_link  # type: ignore[method-assign]
    try:
        for epoch in range(2):
            trainer.forward_backward(epoch)
        trainer.logits()
        transport.drain()
    finally:
        Border.expect = before  # type: ignore[method-assign]
    return transport.log


def _link_by_link(border: Any, places: list[slice], direction: str, epoch: int | None) -> None:
    """Post the receives of all chunks of one link, then those of the next."""
    forward = direction == "forward"
    into = (border._arrived, border._initial) if forward else (border._left, border._initial_grad)
    for link, matrix in zip(border._before if forward else border._after, into, strict=False):
        for number, at in enumerate(places):
            link.expect(number, at, matrix, direction, epoch)


MESHES: list[tuple[int, str, dict[str, Any]]] = [
    (4, "gnnpipe", {"mesh__chunks": 3}),
    (4, "hybrid", {"mesh__chunks": 2}),
    (2, "gnnpipe-1bit", {}),
]


@pytest.mark.parametrize(("workers", "recipe", "more"), MESHES, ids=[f"{w} {r}" for w, r, _ in MESHES])
def test_every_message_meets_its_receive(
    on_workers: Callable[..., list[Any]], workers: int, recipe: str, more: dict[str, Any]
) -> None:
    logs = on_workers(workers, _posted, config_of(recipe, **more))
    assert sum(map(len, logs)) > 40
    assert not wrong_meetings(logs)


def test_receives_in_another_order_are_found(on_workers: Callable[..., list[Any]]) -> None:
    wrong = wrong_meetings(on_workers(2, _posted, config_of("gnnpipe", mesh__chunks=4), True))
    # With two kinds of rows, all chunks but the first and the last meet the other kind or another chunk.
    assert len(wrong) >= 12 and "tag" in wrong[0]
