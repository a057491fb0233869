"""Where the rows of a tensor are once it has another shape, against the entries themselves."""

from __future__ import annotations

import pytest
import torch

from halowire.pyg.view_dims import picked, reshaped, squeezed, turned, without

MASK = torch.tensor([True, False, True, True, False])
PLACES = torch.tensor([3, 0])


def row_dims(marked):
    """The dimensions along which ``marked``, whose entries are the numbers of their rows, has different ones."""
    return {dim for dim in range(marked.dim()) if (marked.amax(dim) > marked.amin(dim)).any()}


def numbered(*shape, dim=0):
    """A tensor of this shape whose entries are their places along ``dim``."""
    places = torch.arange(float(shape[dim]))
    return places.view([-1 if place == dim else 1 for place in range(len(shape))]).expand(shape).clone()


@pytest.mark.parametrize(
    ("before", "dim", "after"),
    [
        ((5, 4), 0, (20,)),
        ((5, 4), 0, (20, 1)),
        ((5, 4), 0, (5, 2, 2)),
        ((5, 1), 0, (5,)),
        ((5,), 0, (1, 5, 1)),
        ((6, 4), 0, (2, 3, 4)),
        ((6, 4), 0, (3, 8)),
        ((4, 5), 1, (2, 2, 5)),
        ((1, 5, 4), 1, (5, 4)),
        ((4, 6), 1, (4, 2, 3)),
    ],
)
def test_a_view_has_rows_where_its_entries_differ(before, dim, after):
    whole = numbered(*before, dim=dim)
    assert reshaped(before, after, frozenset({dim})) >= row_dims(whole.view(after))
    assert len(reshaped(before, after, frozenset({dim}))) == max(1, len(row_dims(whole.view(after))))


def test_a_view_of_no_rows_keeps_them_first():
    assert reshaped((0, 4), (0, 2, 2), frozenset({0})) == {0}


@pytest.mark.parametrize(
    "index",
    [
        MASK, PLACES, slice(None), ..., None, (None, MASK), (slice(None), 1), (slice(None), None), (..., 0, slice(1)),
        (MASK, slice(None), 2), (slice(None), PLACES), (PLACES, PLACES), (slice(None), slice(1, 3)), [0, 2],
        (slice(None), MASK[:4]), PLACES.view(2, 1).expand(2, 3),
    ],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("dim", [0, 1])
def test_picked_entries_have_rows_where_they_differ(index, dim):
    whole = numbered(5, 4, 3, dim=dim)
    found = picked(whole, index, lambda value: frozenset({dim} if value is whole else ()))
    assert found <= set(range(whole[index].dim()))
    if index not in ([0, 2],) and not isinstance(index, torch.Tensor):
        assert found >= row_dims(whole[index]) or len(row_dims(whole[index])) > 1


def test_entries_that_rows_pick_have_these_rows():
    table, labels = torch.zeros(7, 2), torch.tensor([1, 2, 1])
    along = {id(labels): frozenset({0})}
    assert picked(table, labels, lambda value: along.get(id(value), frozenset())) == {0}
    assert picked(table.t(), (slice(None), labels), lambda value: along.get(id(value), frozenset())) == {1}


@pytest.mark.parametrize(
    ("func", "args"),
    [
        (torch.transpose, (0, 2)), (torch.permute, ((2, 0, 1),)), (torch.movedim, (0, -1)), (torch.unsqueeze, (0,)),
        (torch.unsqueeze, (-1,)), (torch.swapaxes, (1, 2)),
    ],
)  # fmt: skip
def test_turned_rows_are_where_the_entries_differ(func, args):
    whole = numbered(5, 4, 3)
    assert turned(func, (whole, *args), {}, frozenset({0})) == row_dims(func(whole, *args))


def test_dimensions_that_are_gone_move_the_others():
    assert squeezed((1, 5, 1), None, frozenset({1})) == {0}
    assert squeezed((5, 1), -1, frozenset({0})) == squeezed((5, 4), 1, frozenset({0})) == {0}
    assert squeezed((1, 5), (0, 1), frozenset({1})) == {0}
    assert without(3, (0,), frozenset({1})) == {0} and without(3, (-1,), frozenset({0, 2})) == {0}
