"""The terms of a message: what is random in it is drawn from numbers that never change, and that no two kinds share."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

import pytest

from halowire.wire import BACKWARD, FORWARD, Policy, Rate
from halowire.wire.terms import Draw, Terms


def numbers(draws: Iterable[Draw]) -> list[tuple[int, int]]:
    """The key of the columns and the stream of the bits of each."""
    return [(draw.columns, draw.bits) for draw in draws]


def test_random_numbers_are_those_of_all_earlier_runs():
    """Other numbers would change every coded run, and break the resumption of a run that is under way."""
    ways = (FORWARD, BACKWARD)
    assert numbers(Draw.halo(3, way, rank=2) for way in ways) == [(3, 200), (3, 1002)]
    assert numbers(Draw.chunk(3, way) for way in ways) == [(3, 500), (3, 1500)]
    assert numbers(Draw.stage(3, way, kind=0) for way in ways) == [(-7, 300), (-7, 301)]
    assert numbers(Draw.stage(3, way, kind=1) for way in ways) == [(-8, 302), (-8, 303)]


def test_messages_of_a_layer_share_no_stream():
    halos = [Draw.halo(1, FORWARD, 0), *(Draw.halo(1, BACKWARD, rank) for rank in range(400))]
    chunks = [Draw.chunk(1, way) for way in (FORWARD, BACKWARD)]
    links = [Draw.stage(1, way, kind) for way, kind in itertools.product((FORWARD, BACKWARD), range(2))]
    streams = [draw.bits for draw in (*halos, *chunks, *links)]
    assert len(set(streams)) == len(streams)


@pytest.mark.parametrize("direction", [FORWARD, BACKWARD])
def test_columns_are_scaled_unless_they_are_changes(direction):
    policy = Policy(lambda *_: Rate(8, ratio=4.0), rescale=True, decay=0.9)
    terms = Terms.of(policy, Draw.chunk(1, direction), 2, 16, share=0.5, delta=True)
    assert terms.sent_columns == 4 and terms.row_bytes == 4 + 4
    assert (terms.delta is not None) == (direction == FORWARD)
    assert terms.factor == (2.0 if direction == FORWARD else 8.0)
    assert not terms.plain and Terms.exact(1, direction, 16).plain
