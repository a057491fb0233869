"""Products with the score vectors of attention, one for each head."""

from __future__ import annotations

from torch import Tensor


def score_columns(*parts: Tensor) -> Tensor:
    """Score vectors ``[H, C]`` as ``[H C, parts H]``: column ``h`` has the part of head ``h``, zeros elsewhere.

    ``z @ score_columns(a, b)`` gives ``<z, a>`` and ``<z, b>``, head by head.
    """
    heads, cols = parts[0].shape
    out = parts[0].new_zeros(heads, cols, len(parts) * heads)
    for number, part in enumerate(parts):
        out[:, :, number * heads : (number + 1) * heads].diagonal(dim1=0, dim2=2).copy_(part.t())
    return out.view(heads * cols, -1)


def by_head(z: Tensor, grad: Tensor) -> Tensor:
    """``sum over rows of grad[i, h] z[i, h, c]``, ``[H, C]``, for ``z`` ``[m, H C]`` and ``grad`` ``[m, H]``."""
    heads = grad.shape[1]
    return (grad.t() @ z).view(heads, heads, -1).diagonal().t()
