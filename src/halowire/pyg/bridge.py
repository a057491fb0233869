"""A bridge joins a PyG model on a shard to the other workers: halo rows, sums at owners, whole-graph sums."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from halowire.errors import InputError
from halowire.events import TRAIN
from halowire.partitioning import Shard
from halowire.wire import Crossing, Extend, HaloExchange, Policy, Transport

FIRST_EXACT = 10_000
"""Exact messages are numbered from here on, so that no number is also a layer of the policy."""


class Bridge:
    """Extends tensors of owned rows by the halo's rows wherever a model reads nodes by an edge's source.

    Every crossing of a pass has a number, the same on all workers because they run the same code. The number is the
    ``layer`` of the policy, the ledger and the random numbers. In training passes the policy codes rows that carry a
    gradient; everything else (degrees, raw features, integers; all rows in evaluation) travels exactly.

    ``coded_widths`` are the widths of this pass's coded exchanges so far; ``inside`` says whether a pass is under way.
    """

    def __init__(self, shard: Shard, transport: Transport, device: torch.device) -> None:
        self.shard = shard
        self.transport = transport
        self.device = device
        self.num_owned = shard.num_owned
        self.num_halo = shard.num_halo
        self.coded_widths: list[int] = []
        self.inside = False
        self._exact = HaloExchange(shard, transport, device, Policy())
        self._exchange = self._exact
        self._epoch: int | None = None
        self._expected_widths: tuple[int, ...] | None = None
        self._num_exact = 0
        self._kept: list[KeptRows] = []

    def __deepcopy__(self, memo: dict[int, object]) -> Bridge:
        """Return the same bridge: a copied model shares it."""
        return self

    def begin(
        self, exchange: HaloExchange | None = None, epoch: int | None = None, widths: tuple[int, ...] | None = None
    ) -> None:
        """Begin a pass over ``exchange`` in training epoch ``epoch``; without both, all rows of the pass are exact.

        ``widths`` are the widths of the coded exchanges that the policy was made for, in their order.
        """
        self.inside = True
        self.coded_widths = []
        self._exchange = exchange or self._exact
        self._epoch = epoch
        self._expected_widths = widths
        self._num_exact = 0

    def end(self) -> None:
        """End the pass; rows that are read from now on are exact, and carry no gradient."""
        self.begin()
        self.inside = False

    def keep(self, rows: Tensor) -> None:
        """Fetch the halo's rows of ``rows`` ``[n, ...]`` now, and again only when ``rows`` were changed."""
        if self.transport.size > 1 and not rows.requires_grad:
            self._kept.append(KeptRows(rows, rows._version, self.extend(rows, 0)))

    def refuse_outside(self, rows: Tensor | None = None) -> None:
        """Refuse a layer, or ``rows`` with a gradient, that is used outside of a distributed model's pass."""
        if not self.inside and (rows is None or _carries_gradient(rows)):
            raise InputError(
                "a layer, or rows that carry a gradient, are used with edge_index outside of a distributed model's "
                "forward, where nothing was checked and no recipe applies; call the model itself, "
                "model(x, edge_index), and put what `encode` or the like does into its forward"
            )

    def extend(self, values: Tensor, dim: int) -> Tensor:
        """``values`` with the halo's rows appended along ``dim``, whose extent grows from ``n`` to ``n + h``."""
        self.refuse_outside(values)
        held = self.held(values) if dim == 0 or self.transport.size == 1 else None
        return self._fetched(values, dim) if held is None else held

    def held(self, values: Tensor) -> Tensor | None:
        """``values`` ``[n, ...]`` with the halo's rows; None where a message must fetch them."""
        self.refuse_outside(values)
        kept = next((kept for kept in self._kept if kept.rows is values), None)
        if kept is not None and not _carries_gradient(values):
            if kept.rows._version != kept.version:
                kept.extended = self._fetched(kept.rows.detach(), 0)
                kept.version = kept.rows._version
            return kept.extended
        return values if self.transport.size == 1 else None

    def crossing(self, rows: Tensor) -> Crossing:
        """The next crossing of this pass, which carries float32 ``rows`` ``[n, k]``."""
        if _carries_gradient(rows):
            return Crossing(self._exchange, self._coded_number(rows.shape[1]), self._epoch)
        return Crossing(self._exchange, self._exact_number(), None)

    def collect(self, parts: Tensor, dim: int) -> Tensor:
        """Turn partial sums of owned and halo rows, ``n + h`` along ``dim``, into complete sums of owned rows."""
        self.refuse_outside(parts)
        if self.transport.size == 1:
            return parts
        first = parts.movedim(dim, 0)
        rows = first.reshape(self.num_owned + self.num_halo, -1)
        kind = rows.dtype
        if kind != torch.float32 and (rows.requires_grad or kind.is_floating_point):
            raise InputError(f"sums at the edges' sources are float32 or whole numbers, not {kind}; call model.float()")
        crossing = Crossing(self._exchange, self._exact_number(), None)
        total = SumAtOwners.apply(rows.float().contiguous(), crossing)  # type: ignore[no-untyped-call]
        out: Tensor = total.to(kind).view(self.num_owned, *first.shape[1:]).movedim(0, dim)
        return out

    def whole_ids(self, rows: Tensor) -> Tensor:
        """The ids in the whole graph of nodes that this part counts as ``rows``: owned ones first, then the halo's."""
        numbers = torch.cat([self.shard.ids, self.shard.halo_ids]).to(rows.device)
        return numbers[rows]

    def whole_sum(self, value: Tensor) -> Tensor:
        """The sum of ``value`` over all workers."""
        if self.transport.size == 1:
            return value
        out: Tensor = WholeSum.apply(value, self.transport)  # type: ignore[no-untyped-call]
        return out

    def _fetched(self, values: Tensor, dim: int) -> Tensor:
        first = values.movedim(dim, 0)
        rows = first.reshape(self.num_owned, -1)
        extended: Tensor
        if rows.dtype == torch.float32:
            extended = Extend.apply(rows.contiguous(), self.crossing(rows))  # type: ignore[no-untyped-call]
        else:
            extended = torch.cat([rows, self._fetch_bytes(rows)])
        return extended.view(self.num_owned + self.num_halo, *first.shape[1:]).movedim(0, dim)

    def _fetch_bytes(self, rows: Tensor) -> Tensor:
        """Fetch the halo's rows, of any type and without a gradient, byte for byte."""
        if rows.requires_grad:
            raise InputError(
                f"halo rows travel as float32, but these are {rows.dtype}; call model.float() and x.float()"
            )
        sent = rows[self.shard.send_index.to(rows.device)].cpu()
        halo = self.transport.swap(sent, self.shard.send_counts, self.shard.recv_counts, "exchange of halo rows")
        return halo.to(rows.device)

    def _coded_number(self, width: int) -> int:
        self.coded_widths.append(width)
        number = len(self.coded_widths)
        expected = self._expected_widths
        if expected is not None and self.coded_widths != list(expected[:number]):
            raise InputError(
                f"the model exchanges other rows than when it was checked: exchange {number} of this pass has "
                f"{width} columns, the ones that were checked have {list(expected)}; what decides on the layers "
                "must be part of the model, or a flag or a text, not a number that forward is called with"
            )
        return number

    def _exact_number(self) -> int:
        self._num_exact += 1
        return FIRST_EXACT + self._num_exact


@dataclass
class KeptRows:
    """Rows that every pass reads and that rarely change; ``extended`` adds the halo's rows as of this ``version``."""

    rows: Tensor
    version: int
    extended: Tensor


class SumAtOwners(Function):
    """Turns ``[n + h, k]`` partial sums into ``[n, k]`` complete ones: the halo's parts go to their owners, exactly."""

    @staticmethod
    def forward(ctx: Any, parts: Tensor, crossing: Crossing) -> Tensor:
        """Send the halo's parts to their owners, and add the parts that arrive."""
        ctx.crossing = crossing
        exchange = crossing.exchange
        exchange.begin(None)
        own, halo = torch.split(parts, [parts.shape[0] - exchange.num_halo, exchange.num_halo])
        total = own.clone(memory_format=torch.contiguous_format)
        exchange.finish_back(exchange.start_back(halo.contiguous(), crossing.number), total)
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        """Fetch the gradient of each halo part from its owner: it is the gradient of the sum."""
        exchange: HaloExchange = ctx.crossing.exchange
        grad = grads[0].contiguous()
        with exchange.transport.ledger.account(TRAIN):
            halo = exchange.finish_rows(ctx.crossing.start(grad), grad.shape[1])
        return torch.cat([grad, halo]), None


class WholeSum(Function):
    """Sums a tensor over all workers; backward sums the gradients, as every worker's loss depends on the sum."""

    @staticmethod
    def forward(ctx: Any, value: Tensor, transport: Transport) -> Tensor:
        """``sum over workers p of value_p``."""
        ctx.transport = transport
        return transport.all_reduce(value.clone(), "whole-graph sum of a layer", account=None)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        """``sum over workers p of grad_p``."""
        total = grads[0].clone(memory_format=torch.contiguous_format)
        return ctx.transport.all_reduce(total, "whole-graph sum of a layer's gradient", account=None), None


def _carries_gradient(rows: Tensor) -> bool:
    return rows.requires_grad and torch.is_grad_enabled()
