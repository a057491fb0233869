"""Every row has one carrier among the workers that need it, and all carry about as many."""

from __future__ import annotations

import itertools

import torch
from hypothesis import given
from hypothesis import strategies as st

from halowire.wire import Machines
from halowire.wire.carriers import choose_carriers, even_shares

WANTED = st.lists(st.sets(st.integers(0, 60)), min_size=1, max_size=4)


@given(WANTED)
def test_a_row_has_one_carrier_that_needs_it(wanted):
    found = choose_carriers([torch.tensor(sorted(ids), dtype=torch.int64) for ids in wanted])
    carrier: dict[int, int] = {}
    for ids, numbers in zip(wanted, found, strict=True):
        for row, number in zip(sorted(ids), numbers.tolist(), strict=True):
            assert carrier.setdefault(row, number) == number
            assert row in wanted[number]


@given(WANTED)
def test_the_order_of_a_list_changes_no_carrier(wanted):
    up = choose_carriers([torch.tensor(sorted(ids), dtype=torch.int64) for ids in wanted])
    down = choose_carriers([torch.tensor(sorted(ids, reverse=True), dtype=torch.int64) for ids in wanted])
    assert all(torch.equal(a, b.flip(0)) for a, b in zip(up, down, strict=True))


def test_who_has_rows_of_its_own_carries_fewer_shared_ones():
    shared = torch.arange(100)
    found = choose_carriers([torch.cat([shared, torch.arange(200, 260)]), shared, shared])
    assert torch.bincount(found[0], minlength=3).tolist() == [60, 50, 50]
    assert torch.bincount(found[1], minlength=3).tolist() == [0, 50, 50]


@given(st.lists(st.integers(0, 9), min_size=1, max_size=4), st.integers(0, 20))
def test_shares_are_as_even_as_any(loads, count):
    shares = even_shares(loads, count)
    assert sum(shares) == count and min(shares) >= 0
    ways = (way for way in itertools.product(range(count + 1), repeat=len(loads) - 1) if sum(way) <= count)
    best = min(max(a + b for a, b in zip(loads, (*way, count - sum(way)), strict=True)) for way in ways)
    assert max(a + b for a, b in zip(loads, shares, strict=True)) == best


def test_machines_are_split_evenly():
    assert Machines.split(5, 2).of == (0, 0, 0, 1, 1)
    machines = Machines((0, 1, 0, 2))
    assert machines.shared and machines.beside(2) == [0, 2] and machines.others(0) == [[1], [3]]
    assert machines.among([1, 3]).of == (1, 2)
    assert not Machines.split(4, 1).together(0, 1), "one machine stands for a network"
    assert not Machines.split(4, 4).shared and not Machines.split(4, 1).shared
