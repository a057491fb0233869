"""Turns users' data (NumPy arrays, tensors, sparse matrices) into the few tensor types that a graph keeps."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from halowire.errors import InputError, size_text
from halowire.inputs import memory_bytes
from halowire.kernels import Csr

Array = Tensor | np.ndarray[Any, Any]


def to_tensor(values: Any, what: str) -> Tensor:
    """A CPU tensor of ``values``, sharing memory where that is possible."""
    if isinstance(values, Tensor):
        _refuse_complex(values.is_complex(), values.dtype, what)
        return values.detach().cpu()
    array = np.asarray(values)
    _refuse_complex(array.dtype.kind == "c", array.dtype, what)
    if array.dtype.kind not in "biuf":
        raise InputError(f"{what} has type {array.dtype}, expected numbers; convert it to a numeric array first")
    if array.dtype.itemsize > np.dtype(np.float64).itemsize:
        array = array.astype(np.float64)  # torch has nothing wider
    if array.dtype.kind == "u" and array.dtype.itemsize > 1:
        # torch has few operations on wide unsigned integers.
        array = array.astype(np.int64)
    if not array.flags.writeable or not array.dtype.isnative or any(stride < 0 for stride in array.strides):
        array = array.astype(array.dtype.newbyteorder("="), order="C", copy=True)
    return torch.from_numpy(array)


def to_indices(values: Any, what: str) -> Tensor:
    """``values`` as whole numbers, int32 or int64."""
    tensor = to_tensor(values, what)
    if tensor.dtype in (torch.int32, torch.int64):
        return tensor
    if tensor.is_floating_point() or tensor.dtype == torch.bool:
        if tensor.numel() == 0:
            return tensor.long()
        raise InputError(f"{what} has type {tensor.dtype}, expected whole numbers; convert it to int64 first")
    return tensor.long()


def to_mask(values: Any, what: str) -> Tensor | None:
    """A boolean mask from booleans or from 0/1 bytes."""
    if values is None:
        return None
    mask = to_tensor(values, what)
    if mask.dtype == torch.bool:
        return mask
    if mask.dtype == torch.uint8 and (mask.numel() == 0 or int(mask.max()) <= 1):
        return mask.bool()
    raise InputError(
        f"{what} has type {mask.dtype}, expected booleans, one per node; turn a list of node ids into a mask first"
    )


def to_labels(values: Any) -> Tensor | None:
    """Classes as int64 ``[N]`` (-1 = unlabelled), several labels at once as float32 ``[N, C]``."""
    if values is None:
        return None
    y = to_tensor(values, "y")
    if y.dim() == 2 and y.shape[1] == 1:
        y = y.squeeze(1)
    if y.dim() == 2:
        return y.float()
    if y.dim() != 1:
        raise InputError(f"y has shape {list(y.shape)}, expected [N] (classes) or [N, C] (0/1 for every label)")
    if y.is_floating_point():
        # NaN marks unlabelled nodes in OGB's files.
        y = torch.where(torch.isnan(y), -1, y)
        if not bool((y == y.round()).all()):
            raise InputError(
                "y holds fractions, expected one whole class number per node; values are learnt by regression: "
                "--task regression, task='regression' in fit"
            )
    return y.long()


def to_values(values: Any) -> Tensor | None:
    """The values that regression learns, float32 ``[N, k]``; NaN marks nodes without a value."""
    if values is None:
        return None
    y = to_tensor(values, "y").float()
    if y.dim() == 1:
        y = y.unsqueeze(1)
    if y.dim() != 2:
        raise InputError(f"y has shape {list(y.shape)}, expected [N] or [N, k]: one or several values per node")
    return y


def to_features(values: Any) -> Tensor | Csr | None:
    """Features as float32 ``[N, F]``, or as `Csr` if they come sparse."""
    if values is None or isinstance(values, Csr):
        return values
    if isinstance(values, Tensor) and values.layout != torch.strided:
        _refuse_complex(values.is_complex(), values.dtype, "x")
        entries = to_coo(values)
        row, col = entries.indices()
        return sparse_features(row, col, entries.values(), entries.shape[0], entries.shape[1])
    if hasattr(values, "tocoo"):
        matrix = values.tocoo()
        row, col = to_indices(matrix.row, "x"), to_indices(matrix.col, "x")
        return sparse_features(row, col, to_tensor(matrix.data, "x"), matrix.shape[0], matrix.shape[1])
    x = to_tensor(values, "x")
    if x.dim() == 1:
        x = x.unsqueeze(1)
    if x.dim() != 2:
        raise InputError(f"x has shape {list(x.shape)}, expected [N, F]: one row of features per node")
    return x.float().contiguous()


def _refuse_complex(is_complex: bool, dtype: Any, what: str) -> None:
    if is_complex:
        raise InputError(f"{what} has type {dtype}, expected real numbers; give both parts as columns of their own")


def to_coo(matrix: Tensor) -> Tensor:
    """A sparse tensor of any layout as coalesced COO on the CPU."""
    entries: Tensor = matrix.detach().cpu().to_sparse_coo()  # type: ignore[no-untyped-call]
    return entries.coalesce()


def sparse_features(row: Tensor, col: Tensor, values: Tensor, num_rows: int, num_cols: int) -> Csr:
    """Sparse features ``[num_rows, num_cols]`` from their entries; values that are all 1 are not stored."""
    needed, most = np.dtype(np.float32).itemsize * num_cols, memory_bytes()
    if needed > most:
        raise InputError(
            f"x has {num_cols} columns, which take a model at least {size_text(needed)}, expected at most the "
            f"{size_text(most)} of memory that there are; check the shape of x"
        )
    weight = values.float()
    ones = bool((weight == 1).all())
    return Csr.from_edges(row, col, num_rows, num_cols, None if ones else weight)
