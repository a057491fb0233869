"""Products on a device: the CSR tensor is made once, forgotten with its arrays, and follows changes of the weights."""

from __future__ import annotations

import gc

import torch

from halowire.kernels import Csr
from halowire.kernels.device_csr import device_product, form_of, kept_forms


def matrix(weighted: bool = True) -> Csr:
    generator = torch.Generator().manual_seed(3)
    rows, cols = torch.randint(6, (40,), generator=generator), torch.randint(9, (40,), generator=generator)
    return Csr.from_edges(rows, cols, 7, 9, torch.rand(40, generator=generator) if weighted else None)


def test_products_overwrite_or_accumulate_whatever_the_strides():
    for weighted in (True, False):
        a, x, out = matrix(weighted), torch.randn(9, 8)[:, :5], torch.full((7, 6), torch.nan)[:, :5]
        want = a.to_dense() @ x
        for times, accumulate in ((1, False), (2, True)):
            assert device_product(a.indptr, a.indices, a.weight, x, out, accumulate) is out
            torch.testing.assert_close(out, times * want)


def test_a_matrix_is_made_once_in_int32_and_forgotten_with_its_row_pointers():
    kept_forms().clear()
    a = matrix()
    form = form_of(a.indptr, a.indices, a.weight, 9)
    assert form_of(a.indptr, a.indices, a.weight, 9) is form
    assert form.crow_indices().dtype == form.col_indices().dtype == torch.int32
    turned = a.with_weight(torch.ones(40))
    other = form_of(a.indptr, turned.indices, turned.weight, 9)
    assert other is not form
    assert form_of(a.indptr, a.indices, a.weight, 9) is form
    for _ in range(5):
        form_of(a.indptr, a.indices, torch.rand(40), 9)
    assert [len(forms) for forms in kept_forms().values()] == [2]
    del a, turned
    gc.collect()
    assert len(kept_forms()) == 0


def test_weights_changed_in_place_are_seen():
    a, x, out = matrix(), torch.randn(9, 4), torch.empty(7, 4)
    device_product(a.indptr, a.indices, a.weight, x, out, False)
    a.weight.mul_(3.0)
    torch.testing.assert_close(device_product(a.indptr, a.indices, a.weight, x, out, False), a.to_dense() @ x)
