"""One shard's link to the others, as a foreign model uses it: rows of the halo, sums at sources, whole-graph sums."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from halowire.errors import InputError
from halowire.partitioning import Shard
from halowire.wire import HaloExchange, Policy, Transport, exchange_flat
from halowire.wire.crossing import Crossing, Extend, Return, WholeSum

FIRST_EXACT = 10_000
"""Numbers of exact messages come after this one, out of the way of those that the policy knows."""


@dataclass
class Fixed:
    """Rows that are read in every pass and rarely change, with the halo's rows of the given version."""

    rows: Tensor
    version: int
    extended: Tensor


class Link:
    """Extends tensors of owned rows by the halo's rows wherever a model reads nodes by an edge's source.

    Every crossing of a pass has a number, the same on all workers because they run the same code: it is the ``layer``
    of the policy, the ledger and the random numbers. Rows that carry a gradient are coded by the policy in training
    passes; everything else (degrees, raw features, integers; all of evaluation) travels exactly.
    """

    def __init__(self, shard: Shard, transport: Transport, device: torch.device) -> None:
        self.shard, self.transport, self.device = shard, transport, device
        self.num_owned, self.num_halo = shard.num_owned, shard.num_halo
        self.plain = HaloExchange(shard, transport, device, Policy())
        self.exchange, self.epoch = self.plain, None
        self.coded_widths: list[int] = []
        self.inside = False
        self._widths: tuple[int, ...] | None = None
        self._number = 0
        self._fixed: list[Fixed] = []

    exchange: HaloExchange
    epoch: int | None

    def __deepcopy__(self, memo: dict[int, object]) -> Link:
        """A copied model has the same link."""
        return self

    def begin(
        self, exchange: HaloExchange | None = None, epoch: int | None = None, widths: tuple[int, ...] | None = None
    ) -> None:
        """What follows is a pass over ``exchange`` in training epoch ``epoch``; None: exact.

        ``widths``: those of the coded exchanges that the policy was made for, in their order.
        """
        self.exchange, self.epoch, self._widths = exchange or self.plain, epoch, widths
        self.coded_widths, self._number = [], 0
        self.inside = True

    def end(self) -> None:
        """The pass is over; what is read now is exact, and carries no gradient."""
        self.begin()
        self.inside = False

    def keep(self, rows: Tensor) -> None:
        """Fetch the halo's rows of ``rows`` ``[n, ...]`` now, and again only when they were changed."""
        if self.transport.size > 1 and not rows.requires_grad:
            self._fixed.append(Fixed(rows, rows._version, self.extend(rows, 0)))

    def refuse_outside(self) -> None:
        """Refuse what belongs into a pass of a distributed model, and is done without one."""
        if not self.inside:
            raise InputError(
                "a layer, or rows that carry a gradient, are used with edge_index outside of a distributed model's "
                "forward, where nothing was checked and no recipe applies; call the model itself, "
                "model(x, edge_index), and put what `encode` or the like does into its forward"
            )

    def extend(self, values: Tensor, dim: int) -> Tensor:
        """``values`` with the halo's rows appended along ``dim``, whose extent grows from ``n`` to ``n + h``."""
        held = self.held(values) if dim == 0 or self.transport.size == 1 else None
        if held is not None:
            return held
        if self._carries_gradient(values):
            self.refuse_outside()
        return self._extend(values, dim)

    def held(self, values: Tensor) -> Tensor | None:
        """``values`` ``[n, ...]`` with the halo's rows where no message is needed: one worker, or kept rows."""
        if self._carries_gradient(values):
            self.refuse_outside()
        else:
            for fixed in self._fixed:
                if values is fixed.rows:
                    return self._unchanged(fixed)
        return values if self.transport.size == 1 else None

    def crossing(self, rows: Tensor) -> Crossing:
        """The next crossing of this pass, of float32 ``rows`` ``[n, k]``."""
        return Crossing(self.exchange, self._next(rows), self._epoch_of(rows))

    def _unchanged(self, fixed: Fixed) -> Tensor:
        if fixed.rows._version != fixed.version:
            fixed.extended, fixed.version = self._extend(fixed.rows.detach(), 0), fixed.rows._version
        return fixed.extended

    def _extend(self, values: Tensor, dim: int) -> Tensor:
        first = values.movedim(dim, 0)
        rows = first.reshape(self.num_owned, -1)
        extended: Tensor
        if rows.dtype == torch.float32:
            extended = Extend.apply(rows.contiguous(), self.crossing(rows))  # type: ignore[no-untyped-call]
        else:
            extended = torch.cat([rows, self._fetch(rows)])
        return extended.view(self.num_owned + self.num_halo, *first.shape[1:]).movedim(0, dim)

    def collect(self, parts: Tensor, dim: int) -> Tensor:
        """Partial sums of owned and halo rows, ``n + h`` along ``dim``, to complete sums of owned rows."""
        if self._carries_gradient(parts):
            self.refuse_outside()
        if self.transport.size == 1:
            return parts
        first = parts.movedim(dim, 0)
        rows = first.reshape(self.num_owned + self.num_halo, -1)
        kind = rows.dtype
        if kind != torch.float32 and (rows.requires_grad or kind.is_floating_point):
            raise InputError(f"sums at the edges' sources are float32 or whole numbers, not {kind}; call model.float()")
        total = Return.apply(rows.float().contiguous(), self.exchange, self._exact_number())  # type: ignore[no-untyped-call]
        out: Tensor = total.to(kind).view(self.num_owned, *first.shape[1:]).movedim(0, dim)
        return out

    def whole_sum(self, value: Tensor) -> Tensor:
        """The sum of ``value`` over all workers."""
        if self.transport.size == 1:
            return value
        out: Tensor = WholeSum.apply(value, self.transport)  # type: ignore[no-untyped-call]
        return out

    def _next(self, rows: Tensor) -> int:
        if not self._carries_gradient(rows):
            return self._exact_number()
        self.coded_widths.append(rows.shape[1])
        number, widths = len(self.coded_widths), self._widths
        if widths is not None and self.coded_widths != list(widths[:number]):
            raise InputError(
                f"the model exchanges other rows than when it was checked: exchange {number} of this pass has "
                f"{rows.shape[1]} columns, the ones that were checked have {list(widths)}; what decides on the layers "
                "must be part of the model, or a flag or a text, not a number that forward is called with"
            )
        return number

    def _exact_number(self) -> int:
        self._number += 1
        return FIRST_EXACT + self._number

    def _epoch_of(self, rows: Tensor) -> int | None:
        return self.epoch if self._carries_gradient(rows) else None

    @staticmethod
    def _carries_gradient(rows: Tensor) -> bool:
        return rows.requires_grad and torch.is_grad_enabled()

    def _fetch(self, rows: Tensor) -> Tensor:
        """The halo's rows of any type without a gradient, byte for byte."""
        if rows.requires_grad:
            raise InputError(
                f"halo rows travel as float32, but these are {rows.dtype}; call model.float() and x.float()"
            )
        shard, width = self.shard, rows.shape[1]
        sent = rows[shard.send_index.to(rows.device)].reshape(-1)
        send, received = (tuple(count * width for count in each) for each in (shard.send_counts, shard.recv_counts))
        as_bytes = sent.byte() if sent.dtype == torch.bool else sent
        flat = exchange_flat(as_bytes.cpu(), send, received, self.transport)
        return flat.to(rows.device).to(rows.dtype).view(self.num_halo, width)
