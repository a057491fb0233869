"""What a graph layer's linear map offers to the order of boundary first."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from torch import Tensor


class Weights(NamedTuple):
    """``W`` and ``W_self`` ``[out, in]`` and ``b`` ``[out]``; ``W_self`` is None for GCN, its self loops are in A."""

    weight: Tensor
    weight_self: Tensor | None
    bias: Tensor | None


class Gradients(NamedTuple):
    """Gradients of the input and of :class:`Weights`."""

    x: Tensor | None
    weight: Tensor
    weight_self: Tensor | None
    bias: Tensor | None


class LayerMap(Protocol):
    """``out = A x W^T + x W_self^T + b`` on the owned rows, ``[n, in]`` to ``[n, out]``, for one pass.

    ``A`` is the whole graph's normalised adjacency, or attention over its edges. The head are the rows that have to do
    with other workers, the tail are all others. Forward, ``open`` comes first, then ``arrive`` and the head, before or
    after the tail; backward, ``tail_back``, then ``back``.
    """

    def open(self) -> None:
        """Launch the layer's exchange, if the block before it did not, and prepare what head and tail share."""

    def arrive(self, out: Tensor) -> None:
        """Do what the head ``[head, out]`` needs from all its rows: first without the wire, then with what arrives."""

    def head(self, out: Tensor, rows: slice) -> None:
        """Finish these rows of the head ``[head, out]``; every row once, nothing is waited for."""

    def tail(self, out: Tensor) -> None:
        """Write the tail ``[n - head, out]``; nothing is waited for."""

    def tail_back(self, grad: Tensor) -> None:
        """Do what the gradient of the tail alone allows, while the head's is incomplete; ``[n - head, out]``."""

    def back(self, grad: Tensor, needs_x: bool) -> tuple[Tensor | None, ...]:
        """The rest, from the gradient of all rows ``[n, out]``: the halo's gradients leave first.

        Those that return to this worker's rows are left in ``Step.returning`` if the block before launched the rows
        (and ``needs_x`` says that its backward will come), else added here.
        """
