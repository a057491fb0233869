"""The rules of CUDA that a simulation keeps: which operations make the host wait, and which tensors may meet."""

from __future__ import annotations

import torch

aten = torch.ops.aten


class DeviceError(RuntimeError):
    """A device would refuse this operation."""


WAITS = {
    aten._local_scalar_dense.default: "read of a value",
    aten.is_nonzero.default: "read of a value",
    aten.equal.default: "equal",
    aten.nonzero.default: "nonzero",
    aten.argwhere.default: "nonzero",
    aten.masked_select.default: "masked_select",
    aten._unique2.default: "unique",
    aten.unique_dim.default: "unique",
    aten.unique_consecutive.default: "unique",
    aten.bincount.default: "bincount",
    aten._coalesce.default: "coalesce",
    aten._to_sparse.default: "to_sparse",
    aten._to_sparse.sparse_dim: "to_sparse",
    aten._to_sparse_csr.default: "to_sparse",
    aten._to_sparse_csc.default: "to_sparse",
    aten.unique_dim_consecutive.default: "unique",
    aten.histc.default: "histc",
    aten.repeat_interleave.Tensor: "repeat_interleave without output_size",
}
"""Operations whose result, or its size, the host must know: it waits for all work that the device has been given."""

INDEXING = {
    aten.index.Tensor,
    aten._unsafe_index.Tensor,
    aten.index_put.default,
    aten.index_put_.default,
    aten._index_put_impl_.default,
}
"""Operations that take a list of index tensors; CUDA takes some of them from the CPU, and copies them."""

COPIES = {aten.copy_.default, aten.copy.default, aten._copy_from.default}
"""Operations that copy their second argument to their first, across the memories too."""

LIKE = {
    aten.empty_like.default,
    aten.zeros_like.default,
    aten.ones_like.default,
    aten.full_like.default,
    aten.new_empty.default,
    aten.new_zeros.default,
    aten.new_ones.default,
    aten.new_full.default,
}
"""Operations that read no values of their tensor, only its shape and type, so they may make a tensor elsewhere."""
