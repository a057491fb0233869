"""The Triton kernels, interpreted on the CPU, against the twins: bytes equal, sums within rounding, for any rows."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from halowire.kernels import (
    Csr,
    Drop,
    Packing,
    Scores,
    activate,
    activate_backward,
    aggregate_packed,
    attend,
    attend_sources,
    attend_targets,
    delta_step,
    pack_rows,
    unpack_rows,
)
from halowire.kernels.triton_devices import interpreted
from tests.support.any_edges import edges
from tests.support.any_rows import matrices, targets_of
from tests.support.choices import use
from tests.support.gpu.cases import CLOSE, PACKINGS, cases, difference, twin_of
from tests.support.gpu.table import Results

pytestmark = [
    pytest.mark.gpu_kernels,
    pytest.mark.timeout(900),
    pytest.mark.filterwarnings("ignore::RuntimeWarning:triton.*", "ignore::RuntimeWarning:numpy.*"),
    pytest.mark.skipif(not interpreted(), reason="needs TRITON_INTERPRET=1"),
]
CASES = cases(48)
WIDTHS = st.sampled_from([1, 3, 8, 15, 16, 17, 33, 48, 70])
SEEDS = st.integers(0, 2**31)


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_a_kernel_computes_what_its_twin_computes(case, results: Results):
    found = results.setdefault(case.name, {"exact": case.exact, "difference": {}})
    with use("triton"):
        first, again = case.call(), case.call()
    assert difference(again, first, exact=True) == 0
    found["difference"]["interpreted"] = difference(first, twin_of(case), case.exact)
    assert found["difference"]["interpreted"] <= (0 if case.exact else CLOSE)


@settings(max_examples=300, deadline=None)
@given(
    data=st.data(),
    x=matrices(finite=False, widths=WIDTHS, most=5),
    packing=st.sampled_from(PACKINGS),
    stream=st.integers(0, 2**64 - 1),
)
def test_packed_rows_are_equal_to_the_byte(data: st.DataObject, x: Tensor, packing: Packing, stream: int):
    columns, targets, places = None, None, len(x)
    if data.draw(st.booleans()):
        columns = torch.tensor(data.draw(st.lists(st.integers(0, x.shape[1] - 1), min_size=1)), dtype=torch.int32)
    if data.draw(st.booleans()):
        targets = data.draw(targets_of(len(x)))
        places = targets[1].numel()
    k = x.shape[1] if columns is None else columns.numel()
    found = []
    for choice in ("torch", "triton"):
        out = torch.full((places, packing.row_bytes(k)), 0xAA, dtype=torch.uint8)
        with use(choice):
            pack_rows(x, packing, stream, torch.arange(5, 5 + len(x)), out, columns, targets)
            found.append((out, unpack_rows(out, packing, k)))
    assert difference(found[1], found[0], exact=True) == 0


@settings(max_examples=100, deadline=None)
@given(
    edges=edges(most=6, entries=60), k=WIDTHS, packing=st.sampled_from(PACKINGS), seed=SEEDS, weighted=st.booleans(),
    accumulate=st.booleans(), wide=st.booleans(),
)  # fmt: skip
def test_sums_of_packed_rows_are_close(edges, k, packing, seed, weighted, accumulate, wide):
    generator = torch.Generator().manual_seed(seed)
    a = Csr.from_edges(*edges, torch.randn(edges[0].numel(), generator=generator) if weighted else None)
    indices = a.indices.long() if wide else a.indices
    x, before = torch.randn(a.num_cols, k, generator=generator), torch.randn(a.num_rows, k + 2, generator=generator)
    data = torch.empty(a.num_cols, packing.row_bytes(k), dtype=torch.uint8)
    pack_rows(x, packing, seed, torch.arange(a.num_cols), data)
    found = []
    for choice in ("torch", "triton"):
        out = before.clone()[:, :k]
        with use(choice):
            found.append((aggregate_packed(a.indptr, indices, a.weight, data, packing, k, out, accumulate),))
    assert difference(found[1], found[0], exact=False) <= CLOSE


@settings(max_examples=60, deadline=None)
@given(
    edges=edges(most=5, entries=50), heads=st.integers(1, 3), width=st.sampled_from([1, 5, 16, 33]), seed=SEEDS,
    slope=st.sampled_from([0.0, 0.2, 1.0]), are_targets=st.booleans(),
)  # fmt: skip
def test_attention_is_close_there_and_back(edges, heads, width, seed, slope, are_targets):
    generator = torch.Generator().manual_seed(seed)
    a = Csr.from_edges(*edges)
    n, m, k = a.num_rows, a.num_cols, heads * width
    x, grad = (torch.randn(rows, k + 1, generator=generator)[:, :k] for rows in (m, n))
    src, dst = (torch.randn(rows, heads, generator=generator) for rows in (m, n))
    scores = Scores(*(torch.randn(heads, width, generator=generator) for _ in range(2)))
    found = []
    for choice in ("torch", "triton"):
        with use(choice):
            got = attend(a, x, src, dst, slope)
            assert torch.equal(attend(a, x, src, dst, slope, backward=False).out, got.out)
            targets = attend_targets(grad, got, slope)
            back = attend_sources(a.transpose(), grad, x, src, targets, slope, scores, are_targets and m <= n)
        found.append((*got, *targets, *back))
    assert difference(found[1], found[0], exact=False) <= CLOSE


@settings(max_examples=100, deadline=None)
@given(
    x=matrices(widths=WIDTHS, most=9), norm=st.booleans(), relu=st.booleans(), p=st.sampled_from([0.0, 0.5, 0.9]),
    seed=SEEDS,
)  # fmt: skip
def test_activation_is_close_there_and_back(x, norm, relu, p, seed):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(x.shape, generator=generator) + 0.1 * x.clamp(-1.0, 1.0)
    gamma, beta = (torch.randn(x.shape[1], generator=generator) + 1 if norm else None for _ in range(2))
    drop = Drop(p, seed, 1, 2, torch.arange(len(x)) * 2**40)
    found = []
    for choice in ("torch", "triton"):
        with use(choice):
            out, stats = activate(x, gamma, beta, relu, drop)
            grad = torch.ones_like(x) * 0.5
            # One value's sign may differ by rounding: its gradient is left out.
            grad[out.abs() < 1e-4] = 0.0
            back = activate_backward(grad, x, stats, gamma, beta, relu, drop)
        found.append(tuple(value for value in (out, stats, *back) if value is not None))
    scale = 1.0 if x.shape[1] > 1 else 1e3  # the variance of one value is rounding alone
    assert difference(found[1][:1], found[0][:1], exact=False) <= CLOSE * scale
    if x.shape[1] > 2:
        assert difference(found[1], found[0], exact=False) <= CLOSE * 10


@settings(max_examples=60, deadline=None)
@given(x=matrices(widths=WIDTHS, most=9), decay=st.floats(0, 1), gain=st.sampled_from([1.0, 0.3]), seed=SEEDS)
def test_a_step_of_the_memory_is_equal_to_the_bit(x, decay, gain, seed):
    values = torch.randn(x.shape, generator=torch.Generator().manual_seed(seed))
    columns = torch.arange(x.shape[1] - 1, -1, -2) if seed % 2 else None
    found = []
    for choice in ("torch", "triton"):
        kept = x.clone()
        with use(choice):
            delta_step(kept, values if columns is None else values[:, columns].contiguous(), decay, gain, columns)
        found.append((kept,))
    assert difference(found[1], found[0], exact=True) == 0
