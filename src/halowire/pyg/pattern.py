"""A layer's edges are sorted for the native kernels, and kept sorted while the layer is called with the same edges."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch import Tensor

from halowire.kernels import Csr
from halowire.layers import AttentionEdges, RowEdges, Sum
from halowire.pyg.bridge import Bridge
from halowire.pyg.seen import Seen
from halowire.wire import HaloExchange


@dataclass(frozen=True, eq=False)
class Sorted:
    """Edges sorted by one of their ends, the row.

    ``indptr`` says where each row starts, ``indices`` are the other ends, ``order`` the edges' places before sorting.
    """

    indptr: Tensor
    indices: Tensor
    order: Tensor
    num_cols: int

    @staticmethod
    def of(rows: Tensor, cols: Tensor, num_rows: int, num_cols: int) -> Sorted:
        """Sort edges by ``rows``."""
        order = torch.argsort(rows, stable=True)
        indptr = torch.zeros(num_rows + 1, dtype=torch.int64, device=rows.device)
        # Not by bincount: on a device the host would wait for it.
        counts = torch.zeros_like(indptr[1:]).scatter_add_(0, rows, torch.ones_like(rows))
        torch.cumsum(counts, 0, out=indptr[1:])
        return Sorted(indptr, cols[order].int(), order, num_cols)

    def cut_rows(self, row: int, edges: int) -> tuple[Sorted, Sorted]:
        """The edges of the rows before ``row``, which are ``edges`` many, and those of the other rows."""
        upper = Sorted(self.indptr[: row + 1], self.indices[:edges], self.order[:edges], self.num_cols)
        lower = Sorted(self.indptr[row:] - edges, self.indices[edges:], self.order[edges:], self.num_cols)
        return upper, lower

    def cut_columns(self, column: int, edges: int) -> tuple[Sorted, Sorted]:
        """The edges of the columns before ``column``, which are ``edges`` many, and those of the other columns.

        The columns of the others are numbered from 0. As the number of edges is known, the host does not wait for a
        device to count them.
        """
        if column == self.num_cols:
            return self, Sorted(torch.zeros_like(self.indptr), self.indices[:0], self.order[:0], 0)
        left = self.indices < column
        before = torch.zeros(left.numel() + 1, dtype=torch.int64, device=left.device)
        torch.cumsum(left, 0, out=before[1:])
        number = torch.arange(left.numel(), device=left.device)
        place = torch.where(left, before[:-1], edges + number - before[:-1])
        entry = torch.empty_like(number).scatter_(0, place, number)
        indices, order, bounds = self.indices[entry], self.order[entry], before[self.indptr]
        return (
            Sorted(bounds, indices[:edges], order[:edges], column),
            Sorted(self.indptr - bounds, indices[edges:] - column, order[edges:], self.num_cols - column),
        )

    def matrix(self, weight: Tensor | None) -> Csr:
        """The edges as a matrix; ``weight`` ``[E]`` is in the edges' order before sorting."""
        return Csr(self.indptr, self.indices, None if weight is None else weight[self.order], self.num_cols)


@dataclass(frozen=True, eq=False)
class Weighted:
    """A pattern with weights: the edges from owned rows, ``inner`` ``[m, n]``, and from the halo, ``halo`` ``[m, h]``.

    ``inner_t`` and ``halo_t`` are the transposes; ``weight`` holds the weights that were used, if they are not 1.
    """

    weight: Seen | None
    inner: Csr
    halo: Csr
    inner_t: Csr
    halo_t: Csr

    @property
    def rows(self) -> RowEdges:
        """The edges into all rows."""
        return RowEdges(self.inner, self.halo)

    def sum(self, exchange: HaloExchange) -> Sum:
        """The sum over these edges, fed by ``exchange``; all rows count as boundary."""
        return Sum(self.inner.num_rows, exchange, self.inner, self.halo, self.inner_t, self.halo_t)

    def serves(self, weight: Tensor | None) -> bool:
        """Whether ``weight`` is the memory that was used, unchanged."""
        if weight is None or self.weight is None:
            return weight is None and self.weight is None
        return self.weight.still(weight)


@dataclass(eq=False)
class Pattern:
    """The edges of one layer as a matrix ``[m, n + h]`` (``forth``) and its transpose (``back``).

    ``n`` is the number of ``owned`` sources, ``m`` that of the targets; both are all owned rows, unless the edges lead
    from one type of nodes to another. ``targets`` are the destinations of the edges; ``edges`` are the last ones that
    equalled those that were sorted.
    """

    edges: Seen
    targets: Tensor
    forth: Sorted
    back: Sorted
    owned: int
    _kept: dict[bool, Weighted] = field(default_factory=dict)

    @staticmethod
    def of(edges: Tensor, bridge: Bridge, loops: bool = False) -> Pattern:
        """Sort ``edges`` ``[2, E]`` by destination and by source; with ``loops``, exactly one self loop per node."""
        rows, owned = bridge.num_targets, bridge.num_owned
        cols = owned + bridge.num_halo
        used = edges
        if loops:
            nodes = torch.arange(rows, device=edges.device)
            used = torch.cat([edges[:, edges[0] != edges[1]], torch.stack([nodes, nodes])], 1)
        forth = Sorted.of(used[1], used[0], rows, cols)
        back = Sorted.of(used[0], used[1], cols, rows)
        return Pattern(Seen.now(edges), used[1], forth, back, owned)

    @cached_property
    def parts(self) -> tuple[Sorted, Sorted, Sorted, Sorted]:
        """The edges from owned rows and from the halo, and the transposes of both."""
        n = self.owned
        edges = int(self.back.indptr[n])
        return *self.forth.cut_columns(n, edges), *self.back.cut_rows(n, edges)

    @cached_property
    def attention(self) -> AttentionEdges:
        """The edges, ready for attention."""
        return AttentionEdges.of(self.forth.matrix(None), self.back.matrix(None))

    def serves(self, edges: Tensor) -> bool:
        """Whether ``edges`` equal those that were sorted; values are compared only if the memory is another.

        Edges that a layer makes anew in every pass are compared once in a pass, however often the layer uses them.
        """
        if self.edges.still(edges):
            return True
        mine = self.edges.values
        if edges.shape != mine.shape or edges.device != mine.device or not self.edges.unchanged:
            return False
        if not torch.equal(edges, mine):
            return False
        self.edges = Seen.now(edges)
        return True

    def weighted(self, weight: Tensor | None, mean: bool) -> Weighted:
        """The matrices with ``weight`` ``[E]`` (None: 1); for a ``mean``, divided by each row's number of edges."""
        kept = self._kept.get(mean)
        if kept is None or not kept.serves(weight):
            values = weight
            if mean:
                share = (1 / self.forth.indptr.diff().clamp(min=1).float())[self.targets]
                values = share if weight is None else weight * share
            seen = None if weight is None else Seen.now(weight)
            kept = self._kept[mean] = Weighted(seen, *(part.matrix(values) for part in self.parts))
        return kept
