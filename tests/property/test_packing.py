"""Packed rows follow their definition element by element, and all implementations agree to the bit."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from halowire.kernels import (
    Csr,
    Packing,
    aggregate,
    aggregate_packed,
    keys_of,
    pack_rows,
    stream_key,
    uniform_bits,
    unpack_rows,
)
from tests.support.any_rows import WIDTHS, matrices, targets_of
from tests.support.choices import CHOICES, use, use_threads

QUANTISED = [
    Packing(1),
    Packing(1, "clipped"),
    *(Packing(bits, "levels") for bits in (1, 2, 4)),
    Packing(2),
    Packing(4),
    Packing(8),
]
PACKINGS = st.sampled_from([*QUANTISED, Packing(16)])


def encoded(
    x: Tensor,
    packing: Packing,
    stream: int,
    columns: Tensor | None = None,
    targets: tuple[Tensor, Tensor] | None = None,
) -> Tensor:
    """The bytes of ``x``, ids counting from 5."""
    k = x.shape[1] if columns is None else columns.numel()
    places = x.shape[0] if targets is None else targets[1].numel()
    out = torch.full((places, packing.row_bytes(k)), 0xAA, dtype=torch.uint8)
    pack_rows(x, packing, stream, torch.arange(5, 5 + x.shape[0]), out, columns, targets)
    return out


def ends_of(data: Tensor) -> tuple[Tensor, Tensor]:
    """``lo`` and ``hi`` of packed rows, float64 ``[n, 1]``."""
    ends = data[:, :4].reshape(-1).clone().view(torch.bfloat16).view(-1, 2).double()
    return ends[:, :1], ends[:, 1:]


@pytest.mark.parametrize("choice", CHOICES[1:])
@settings(max_examples=150, deadline=None)
@given(data=st.data(), x=matrices(finite=False), packing=PACKINGS, stream=st.integers(0, 2**64 - 1))
def test_native_equals_the_twin_to_the_byte(
    choice: str, data: st.DataObject, x: Tensor, packing: Packing, stream: int
) -> None:
    columns, targets = None, None
    if data.draw(st.booleans()):
        columns = torch.tensor(data.draw(st.lists(st.integers(0, x.shape[1] - 1), min_size=1)), dtype=torch.int32)
    if data.draw(st.booleans()):
        targets = data.draw(targets_of(x.shape[0]))
    k = x.shape[1] if columns is None else columns.numel()
    with use("torch"):
        expected = encoded(x, packing, stream, columns, targets)
        values = unpack_rows(expected, packing, k)
    with use(choice), use_threads(data.draw(st.sampled_from([1, 3]))):
        found = encoded(x, packing, stream, columns, targets)
        back = unpack_rows(expected, packing, k)
    assert torch.equal(found, expected)
    assert torch.equal(back.contiguous().view(torch.int32), values.contiguous().view(torch.int32))


@pytest.mark.parametrize("choice", CHOICES)
@settings(max_examples=60, deadline=None)
@given(x=matrices(), bits=st.sampled_from([1, 2, 4, 8]), stream=st.integers(0, 2**64 - 1))
def test_minmax_follows_its_definition(choice: str, x: Tensor, bits: int, stream: int) -> None:
    with use(choice):
        data = encoded(x, Packing(bits), stream)
        found = unpack_rows(data, Packing(bits), x.shape[1]).double()
    lo, hi = ends_of(data)
    h, most, step = x.double(), 2**bits - 1, (hi - lo) / (2**bits - 1)
    u = (uniform_bits(keys_of(stream, torch.arange(5, 5 + x.shape[0])), x.shape[1]) >> 8).double() * 2.0**-24
    usable = (hi > lo).expand_as(h)
    level = torch.where(usable, (h - lo) / torch.where(hi > lo, step, 1.0), 0.0) + u
    q = level.floor().clamp(0, most)
    # Where float32 and float64 fall on different sides of a whole number, either neighbour is right.
    near = (level - level.round()).abs() <= 1e-6 * (1 + most)
    wrong = (found - (lo + q * step)).abs() > 1e-6 * (lo.abs() + hi.abs()) + 2.0**-148 * most
    assert not bool((wrong & ~near).any())
    assert bool(((found >= lo - 1e-6 * lo.abs()) & (found <= hi + 1e-6 * (lo.abs() + hi.abs()))).all())
    flat = (hi == lo).expand_as(h)
    assert torch.equal(found[flat], lo.expand_as(h)[flat])
    if x.numel():
        largest = float(torch.finfo(torch.bfloat16).max)
        assert bool((lo <= h.amin(1, keepdim=True).clamp(min=-largest)).all())
        fits = (hi > lo) & (hi < largest)
        assert bool((hi >= h.amax(1, keepdim=True))[fits].all())


@pytest.mark.parametrize("choice", CHOICES)
@settings(max_examples=60, deadline=None)
@given(x=matrices())
def test_two_levels_follow_their_definition(choice: str, x: Tensor) -> None:
    packing = Packing(1, "levels")
    with use(choice):
        data = encoded(x, packing, 0)
        found = unpack_rows(data, packing, x.shape[1]).double()
        assert torch.equal(data, encoded(x, packing, 1))
    h = x.double()
    slack = h.abs().amax(1) * 1e-5 if x.numel() else h.new_zeros(x.shape[0])
    for row, values, allowed in zip(h, found, slack, strict=True):
        mean = row.mean()
        sides = [row[row <= mean], row[row > mean]]
        if (row - mean).abs().min() <= allowed:  # rounding of the mean decides between two right answers
            assert bool(values.isfinite().all())
            continue
        expected = torch.where(row > mean, sides[1].mean(), sides[0].mean())
        gap = float(sides[1].mean() - sides[0].mean())
        if 3.3e38 < gap < 3.5e38:  # whether float32 holds the gap is decided by the rounding of its ends
            assert bool(values.isfinite().all())
            continue
        if gap >= 3.5e38:
            expected = mean.expand_as(row)
        error = (values - expected).abs()
        assert bool((error <= expected.abs() * 2.0**-8 + allowed + 2.0**-133).all())


@pytest.mark.parametrize("choice", CHOICES)
@settings(max_examples=40, deadline=None)
@given(x=matrices())
def test_bf16_is_that_of_torch(choice: str, x: Tensor) -> None:
    with use(choice):
        found = unpack_rows(encoded(x, Packing(16), 0), Packing(16), x.shape[1])
    assert torch.equal(found, x.bfloat16().float())


@pytest.mark.parametrize("choice", CHOICES)
@settings(max_examples=40, deadline=None)
@given(data=st.data(), x=matrices(), bits=st.sampled_from([1, 2, 4, 8]))
def test_column_subsets_keep_their_random_bits(choice: str, data: st.DataObject, x: Tensor, bits: int) -> None:
    packing, k = Packing(bits), x.shape[1]
    # A minimum and a maximum in the subset give both codes the same ends; then every value must be the same.
    columns = data.draw(st.lists(st.integers(0, k - 1), unique=True, max_size=k))
    x = x.clamp(-8e37, 8e37)
    x[:, columns[:1]], x[:, columns[1:2]] = -3.4e38 / 4, 3.4e38 / 4
    if len(columns) < 2:
        columns = list(range(k))
    with use(choice):
        whole = unpack_rows(encoded(x, packing, 9), packing, k)
        some = encoded(x, packing, 9, torch.tensor(columns, dtype=torch.int32))
        assert torch.equal(unpack_rows(some, packing, len(columns)), whole[:, columns])


@pytest.mark.parametrize("choice", CHOICES)
@settings(max_examples=60, deadline=None)
@given(data=st.data(), k=WIDTHS, packing=PACKINGS, weighted=st.booleans(), wide=st.booleans(), accumulate=st.booleans())
def test_sums_equal_those_of_decoded_rows(
    choice: str, data: st.DataObject, k: int, packing: Packing, weighted: bool, wide: bool, accumulate: bool
) -> None:
    rows, sources, count, gap = (
        data.draw(st.integers(low, high)) for low, high in ((0, 20), (1, 20), (0, 150), (0, 3))
    )
    torch.manual_seed(data.draw(st.integers(0, 2**31)))
    torch.manual_seed(0)  # the numbers of an example do not depend on the tests before it
    x = torch.randn(sources, k) + torch.randn(sources, 1)
    count = count if rows else 0
    weight = torch.randn(count) if weighted else None
    a = Csr.from_edges(
        torch.randint(0, max(rows, 1), (count,)), torch.randint(0, sources, (count,)), rows, sources, weight
    )
    matrix = a.indptr, a.indices.long() if wide else a.indices, a.weight
    start = torch.randn(rows, k + gap)
    results = []
    with use(choice):
        packed = encoded(x, packing, 3)
        expected = start[:, :k].clone() if accumulate else torch.zeros(rows, k)
        aggregate(*matrix, unpack_rows(packed, packing, k), expected, accumulate=True)
        for threads in (1, 3):
            out = start.clone()
            with use_threads(threads):
                aggregate_packed(*matrix, packed, packing, k, out[:, :k], accumulate)
            results.append(out)
    # Sums that cancel are as exact as their terms; a value is made of the ends of its row, which may be much larger.
    terms = start[:, :k].abs()
    weights = None if a.weight is None else a.weight.abs()
    ends = unpack_rows(packed, packing, k).abs().amax(1, keepdim=True).expand(-1, k).contiguous()
    aggregate(matrix[0], matrix[1], weights, ends, terms, accumulate=True)
    assert bool(((results[0][:, :k] - expected).abs() <= 4e-6 * terms).all())
    assert torch.equal(results[0], results[1])
    assert torch.equal(results[0][:, k:], start[:, k:])


@pytest.mark.parametrize("choice", CHOICES)
@settings(max_examples=15, deadline=None)
@given(bits=st.sampled_from([1, 2, 4, 8]), k=st.integers(2, 40), seed=st.integers(0, 2**31))
def test_minmax_is_unbiased_with_the_variance_of_its_definition(choice: str, bits: int, k: int, seed: int) -> None:
    draws, packing = 4000, Packing(bits)
    row = torch.randn(1, k, generator=torch.Generator().manual_seed(seed))
    x = row.expand(draws, k).contiguous()
    with use(choice):
        data = encoded(x, packing, stream_key(seed, 0, 0))
        found = unpack_rows(data, packing, k).double()
    lo, hi = (end[:1] for end in ends_of(data))
    step = (hi - lo) / (2**bits - 1)
    part = ((row.double() - lo) / step) % 1
    variance = step**2 * part * (1 - part)
    if bits == 1:
        torch.testing.assert_close(variance, (row.double() - lo) * (hi - row.double()))
    error = (found.mean(0, keepdim=True) - row.double()).abs()
    assert bool((error <= 5 * (variance / draws).sqrt() + 1e-6 * (hi - lo)).all())
    # The square of a two-valued error has the standard deviation |1 - 2 part| times the variance's root times the step.
    squares = (found - row.double()).square().mean(0, keepdim=True)
    spread = step * (1 - 2 * part).abs() * variance.sqrt() / draws**0.5
    assert bool(((squares - variance).abs() <= 5 * spread + 1e-5 * step**2).all())


@pytest.mark.parametrize("choice", CHOICES)
@pytest.mark.parametrize(("bits", "reach"), [(2, 1.8723), (4, 3.151)])
@settings(max_examples=60, deadline=None)
@given(x=matrices())
def test_clipped_levels_follow_their_definition(choice: str, bits: int, reach: float, x: Tensor) -> None:
    packing = Packing(bits, "levels")
    with use(choice):
        data = encoded(x, packing, 0)
        found = unpack_rows(data, packing, x.shape[1]).double()
        assert torch.equal(data, encoded(x, packing, 1)), "nothing is drawn"
    if not x.numel():
        return
    lo, hi = ends_of(data)
    h, largest = x.double(), float(torch.finfo(torch.bfloat16).max)
    for row, values, first, last in zip(h, found, lo[:, 0], hi[:, 0], strict=True):
        mean, allowed = row.mean(), row.abs().max() * 1e-5
        if (row - mean).abs().min() <= allowed and len(row) > 1:  # rounding of the mean decides who is on which side
            assert bool(values.isfinite().all())
            continue
        below = row[row <= mean].mean()
        above = row[row > mean].mean() if bool((row > mean).any()) else below
        middle, half = (below + above) / 2, reach * (above - below) / 2
        flat = bool(first == last)  # no range, or one that float32 does not hold: the mean
        for end, ideal in ((first, (middle - half).clamp(min=row.min())), (last, (middle + half).clamp(max=row.max()))):
            wanted = mean if flat else ideal.clamp(-largest, largest)
            assert float((end - wanted).abs()) <= float(wanted.abs()) * 2.0**-8 + float(allowed) * reach + 2.0**-133
        step = (last - first) / (2**bits - 1)
        nearest = (
            first + ((row - first) / step).round().clamp(0, 2**bits - 1) * step if step > 0 else first.expand_as(row)
        )
        # Halfway between two levels either is right.
        assert bool(
            ((values - row).abs() <= (nearest - row).abs() + 1e-5 * (first.abs() + last.abs()) + 2.0**-133).all()
        )


@pytest.mark.parametrize("choice", CHOICES)
@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**31), k=st.sampled_from([16, 47, 64, 256]))
def test_errors_shrink_as_bits_grow(choice: str, seed: int, k: int) -> None:
    x = torch.randn(200, k, generator=torch.Generator().manual_seed(seed))
    with use(choice):
        errors = [
            float((unpack_rows(encoded(x, Packing(bits), seed), Packing(bits), k) - x).square().mean())
            for bits in (1, 2, 4, 8, 16)
        ]
        levels = [
            float(
                (unpack_rows(encoded(x, Packing(bits, "levels"), seed), Packing(bits, "levels"), k) - x).square().mean()
            )
            for bits in (1, 2, 4)
        ]
    assert errors == sorted(errors, reverse=True)
    assert levels[0] < errors[0] and levels[1] < min(errors[1], levels[0]) and levels[2] < min(errors[2], levels[1])
    if k == 256:  # the shares of the variance of a normal row that the definitions promise
        assert levels == pytest.approx([0.363, 0.119, 0.0115], rel=0.1)


@pytest.mark.parametrize("choice", CHOICES)
def test_clipped_values_are_right_in_the_mean_inside_and_clipped_outside(choice: str) -> None:
    draws, k = 4000, 64
    row = torch.randn(k, generator=torch.Generator().manual_seed(5))
    x, packing = row.repeat(draws, 1), Packing(1, "clipped")
    with use(choice):
        data = encoded(x, packing, 0)
        found = unpack_rows(data, packing, k).double()
    lo, hi = (float(end[0, 0]) for end in ends_of(data))
    h = row.double()
    below, above = h[h <= h.mean()].mean(), h[h > h.mean()].mean()
    middle, half = (below + above) / 2, 1.5 * (above - below) / 2
    assert lo == pytest.approx(float(middle - half), rel=2.0**-7) and hi == pytest.approx(
        float(middle + half), rel=2.0**-7
    )
    wanted = h.clamp(lo, hi)
    spread = ((wanted - lo) * (hi - wanted) / draws).sqrt()
    assert bool(((found.mean(0) - wanted).abs() <= 5 * spread + 1e-6).all())
    assert 0 < int((h > hi).sum() + (h < lo).sum()) < k / 2, "some are clipped, most are not"
