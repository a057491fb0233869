"""Rows of other types than float32 cross exactly, in their own type: bf16 models send half the bytes, float64 twice."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from halowire.events import TRAIN
from halowire.partitioning import HaloLists
from halowire.wire import Transport, sent_over


def fetch_halo(rows: Tensor, lists: HaloLists, transport: Transport) -> Tensor:
    """The halo's rows ``[h, k]`` of the matrix with the owned ``rows`` ``[n, k]``, byte for byte."""
    sent = rows.index_select(0, sent_over(lists.send_index, rows.device))
    return transport.swap(sent, lists.send_counts, lists.recv_counts, "exchange of halo rows")


def return_halo(parts: Tensor, lists: HaloLists, transport: Transport) -> Tensor:
    """The owned rows of ``parts`` ``[n + h, k]``, to each of which the halo's parts of all workers are added.

    The sum is taken in float32 at least, so that a row with many parts does not lose them one by one.
    """
    own, halo = torch.split(parts, [lists.num_owned, lists.num_halo])
    arrived = transport.swap(halo, lists.recv_counts, lists.send_counts, "return of halo rows")
    wide = torch.promote_types(parts.dtype, torch.float32)
    return own.to(wide).index_add(0, sent_over(lists.send_index, parts.device), arrived.to(wide)).to(parts.dtype)


class ExtendTyped(Function):
    """Extends ``[n, k]`` owned rows of any floating type to ``[n + h, k]``; backward, gradients go to the owners."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, lists: HaloLists, transport: Transport) -> Tensor:
        """Append the halo's rows."""
        ctx.lists = lists
        ctx.transport = transport
        return torch.cat([rows, fetch_halo(rows, lists, transport)])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        """Send the halo's gradients to their owners, and add those that arrive."""
        with ctx.transport.ledger.account(TRAIN):
            return return_halo(grads[0], ctx.lists, ctx.transport), None, None


class SumTyped(Function):
    """Turns ``[n + h, k]`` partial sums of any type into ``[n, k]`` complete ones at their owners."""

    @staticmethod
    def forward(ctx: Any, parts: Tensor, lists: HaloLists, transport: Transport) -> Tensor:
        """Send the halo's parts to their owners, and add the parts that arrive."""
        ctx.lists = lists
        ctx.transport = transport
        return return_halo(parts, lists, transport)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        """Fetch the gradient of each halo part from its owner: it is the gradient of the sum."""
        with ctx.transport.ledger.account(TRAIN):
            return torch.cat([grads[0], fetch_halo(grads[0], ctx.lists, ctx.transport)]), None, None
