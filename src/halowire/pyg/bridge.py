"""A bridge joins a PyG model on a shard to the other workers: halo rows come in, sums go to their owners."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from halowire.events import SETUP, TRAIN
from halowire.partitioning import HaloLists
from halowire.pyg.edge_mask import KnownEdges
from halowire.pyg.home_rows import HomeRows, bare
from halowire.pyg.model_pass import ModelPass, carries_gradient, in_backward
from halowire.pyg.typed_rows import ExtendTyped, SumTyped, fetch_halo
from halowire.wire import Crossing, Extend, HaloExchange, Policy, Transport, sent_over


class Bridge:
    """Extends tensors of owned rows by the halo's rows wherever a model reads nodes by an edge's source.

    In training passes the policy codes rows that carry a gradient; everything else (degrees, raw features, integers;
    all rows in evaluation) travels exactly, in its own type. The `ModelPass` numbers the crossings. What a pass finds
    out about the edges is ``known`` in later ones.

    Args:
        shard: the rows that are sent and received: a shard, or one relation between node types.
        passing: the pass of the model, shared with the other bridges of the part.
        name: the name of the halo among those of the part.
        targets: ids of the rows that the edges lead to; by default the owned rows.
    """

    drawn = False
    """Whether the halo was drawn or named in a pass, so that layers have no fast path over it."""

    edge_owner: Any = None
    """Whose the edges are, where the part marks its tensors."""

    def __init__(self, shard: HaloLists, passing: ModelPass, name: str = "", targets: Tensor | None = None) -> None:
        self.shard = shard
        self.passing = passing
        self.name = name
        self.num_owned = shard.num_owned
        self.num_halo = shard.num_halo
        self.num_targets = shard.num_owned if targets is None else targets.numel()
        self.known = KnownEdges()
        self.masks = KnownEdges()
        self._exact = HaloExchange(shard, passing.transport, passing.device, Policy())
        self._target_ids = shard.ids if targets is None else targets
        self.agreed: list[Any] = []  # the partial sums that layers agreed on
        self._kept: list[KeptRows] = []

    def __deepcopy__(self, memo: dict[int, object]) -> Bridge:
        """Return the same bridge: a copied model shares it."""
        return self

    @property
    def transport(self) -> Transport:
        """The connection to the other workers."""
        return self.passing.transport

    @property
    def _exchange(self) -> HaloExchange:
        exchanges = self.passing.exchanges
        return self._exact if exchanges is None or in_backward() else exchanges[self.name]

    def fits(self, extent: int) -> bool:
        """Whether a tensor of ``extent`` rows can be read by the edges' sources."""
        return extent == self.num_owned

    def end_ids(self, ends: Tensor, is_source: bool) -> Tensor:
        """The ids, in the whole graph, of the nodes at one end of edges."""
        shard = self.shard
        ids = torch.cat([shard.ids, shard.halo_ids]) if is_source else self._target_ids
        return sent_over(ids, ends.device)[ends]

    def keep(self, rows: Tensor) -> None:
        """Fetch the halo's rows of ``rows`` ``[n, ...]`` now, and again only when ``rows`` were changed."""
        if self.transport.size > 1 and not rows.requires_grad:
            kept = KeptRows(rows)
            kept.take(self.extend(rows, 0), self.num_owned)
            self._kept.append(kept)

    def extend(self, values: Tensor, dim: int) -> Tensor:
        """``values`` with the halo's rows appended along ``dim``, whose extent grows from ``n`` to ``n + h``."""
        self.passing.refuse_outside(values)
        held = self.held(values) if dim == 0 or self.transport.size == 1 else None
        return self._fetched(values, dim) if held is None else held

    def fetch_once(self, rows: Tensor) -> Tensor:
        """The halo's rows ``[h, k]`` of the matrix with the owned ``rows``, which stay the same: for set-up."""
        with self.transport.ledger.account(SETUP):
            found = self._exact.fetch_once(rows)
        assert isinstance(found, Tensor)
        return found

    def kept_halo(self, values: Tensor) -> Tensor | None:
        """The halo's rows of ``values`` ``[n, ...]`` where they are kept, up to date; else None.

        They are the same tensor until ``values`` are changed.
        """
        kept = self._up_to_date(values)
        return None if kept is None else kept.halo

    def keeps(self, values: Tensor) -> bool:
        """Whether the halo's rows of ``values`` are kept, so that ``values`` are read without a message."""
        return self._kept_of(values) is not None and not values.requires_grad

    def _kept_of(self, values: Tensor) -> KeptRows | None:
        return next((kept for kept in self._kept if kept.rows is values), None)

    def _up_to_date(self, values: Tensor) -> KeptRows | None:
        """What is kept of ``values``, if anything is; the halo's rows are fetched again if ``values`` were changed."""
        kept = self._kept_of(values)
        if kept is None or carries_gradient(values):
            return None
        if kept.rows._version != kept.version:
            kept.take(self._fetched(kept.rows.detach(), 0), self.num_owned)
        return kept

    def held(self, values: Tensor) -> Tensor | None:
        """``values`` ``[n, ...]`` with the halo's rows; None where a message must fetch them."""
        self.passing.refuse_outside(values)
        if isinstance(values, HomeRows):
            if values.knows(self):
                return values.read()
            values = bare(values)
        kept = self._up_to_date(values)
        if kept is None:
            return values if self.transport.size == 1 else None
        return kept.extended

    def crossing(self, rows: Tensor) -> Crossing:
        """The next crossing of this pass, which carries ``rows`` ``[n, k]``.

        What runs a second time in backward, for a checkpoint or a reversible layer, reads exact rows.
        """
        if carries_gradient(rows) and not in_backward():
            return Crossing(self._exchange, self.passing.coded_number(rows.shape[1], self.name), self.passing.epoch)
        return Crossing(self._exchange, self.passing.exact_number(), None)

    def collect(self, parts: Tensor, dim: int) -> Tensor:
        """Turn partial sums of owned and halo rows, ``n + h`` along ``dim``, into complete sums of owned rows."""
        self.passing.refuse_outside(parts)
        if self.transport.size == 1:
            return parts
        first = parts.movedim(dim, 0)
        rows = _matrix(first)
        kind = rows.dtype
        total: Tensor
        if kind.is_floating_point and kind != torch.float32:
            total = SumTyped.apply(rows, self.shard, self.transport)  # type: ignore[no-untyped-call]
        else:
            crossing = Crossing(self._exchange, self.passing.exact_number(), None)
            total = SumAtOwners.apply(rows.float().contiguous(), crossing)  # type: ignore[no-untyped-call]
        out: Tensor = total.to(kind).view(self.num_owned, *first.shape[1:]).movedim(0, dim)
        return out

    def _fetched(self, values: Tensor, dim: int) -> Tensor:
        first = values.movedim(dim, 0)
        rows = _matrix(first)
        kind = rows.dtype
        extended: Tensor
        if kind == torch.float32 or carries_gradient(rows):
            crossing = self.crossing(rows)
            if kind != torch.float32 and crossing.exact:
                extended = ExtendTyped.apply(rows, self.shard, self.transport)  # type: ignore[no-untyped-call]
            else:
                extended = Extend.apply(rows.float().contiguous(), crossing)  # type: ignore[no-untyped-call]
                extended = extended.to(kind)
        else:
            extended = torch.cat([rows, fetch_halo(rows, self.shard, self.transport)])
        return extended.view(self.num_owned + self.num_halo, *first.shape[1:]).movedim(0, dim)


class KeptRows:
    """Rows that every pass reads and that rarely change; ``extended`` adds the ``halo``, as of this ``version``."""

    extended: Tensor
    halo: Tensor
    version: int

    def __init__(self, rows: Tensor) -> None:
        self.rows = rows

    def take(self, extended: Tensor, num_owned: int) -> None:
        """Keep ``extended`` as what belongs to the rows as they are now."""
        self.extended = extended
        self.halo = extended[num_owned:]
        self.version = self.rows._version


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


def _matrix(rows: Tensor) -> Tensor:
    """``rows`` ``[n, ...]`` as a matrix, also where ``n`` is 0."""
    return rows.reshape(rows.shape[0], math.prod(rows.shape[1:]))
