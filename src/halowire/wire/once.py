"""Rows that are sent once, before training: exactly, in the smallest of the forms that lose nothing.

    dense     all ``k`` values of a row
    sparse    the number of values that are not zero, their columns, and these values unless all of them are 1

A value takes 2 bytes (bf16) instead of 4 where bf16 holds every value exactly, as it does small counts; a column takes
2 bytes where there are few columns. Evaluation is exact under every recipe, so no recipe allows to lose more. For a
slow network these bytes are deflated on top (`swap_squeezed`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from halowire.events import SETUP
from halowire.kernels import Csr
from halowire.wire.arrived import refuse_outside
from halowire.wire.squeeze import columns_of, gaps, swap_squeezed
from halowire.wire.transport import Transport

WHERE = "exchange of the features"
LENGTH = 4
"""Bytes of the number of stored values of a sparse row."""
VALUE = 4
"""Bytes of a value of a partial sum, which is sent in float32."""


@dataclass(frozen=True)
class Form:
    """How rows travel: the types of values and columns, None where there are none to send."""

    values: torch.dtype | None
    columns: torch.dtype | None

    @staticmethod
    def smallest(rows: Tensor | Csr, transport: Transport) -> Form:
        """The smallest form for the ``rows`` of all workers, which call this together."""
        return Form.of_counts(transport.all_reduce(counts_of(rows), WHERE, SETUP).tolist(), rows.shape[1])

    @staticmethod
    def of_counts(counts: Sequence[float], width: int) -> Form:
        """The smallest form for rows of ``width`` columns of which :func:`counts_of` counts so much."""
        count, entries, lossy, weighted = counts
        value = torch.float32 if lossy else torch.bfloat16
        column = torch.int16 if width <= torch.iinfo(torch.int16).max else torch.int32
        forms = Form(value, None), Form(value if weighted else None, column)
        return min(forms, key=lambda form: form.size(count, entries, width))

    def size(self, count: float, entries: float, width: int) -> float:
        """Bytes of ``count`` rows of ``width`` columns with so many ``entries`` that are not zero."""
        value = 0 if self.values is None else self.values.itemsize
        if self.columns is None:
            return count * width * value
        return count * LENGTH + entries * (self.columns.itemsize + value)


def counts_of(rows: Tensor | Csr) -> Tensor:
    """What decides on the form, int64 ``[4]``: rows, entries, whether bf16 loses something, whether not all are 1."""
    if isinstance(rows, Csr):
        # Stored zeros travel as entries, so that only ones may go without their values. The dense form adds values of
        # the same place, and of their sum nobody knows whether bf16 holds it.
        values, ones = rows.weight, rows.weight is None or bool((rows.weight == 1).all())
        repeated = rows.distinct() is not rows
    else:
        values, ones, repeated = rows, bool(((rows == 0) | (rows == 1)).all()), False
    lossy = repeated or (values is not None and not torch.equal(values.bfloat16().float(), values))
    return torch.tensor([rows.shape[0], entries_of(rows), lossy, not ones], dtype=torch.int64)


def entries_of(rows: Tensor | Csr) -> int:
    """How many values of ``rows`` travel in a sparse form."""
    return rows.nnz if isinstance(rows, Csr) else int((rows != 0).sum())


def any_worker(found: bool, transport: Transport) -> bool:
    """Whether any worker ``found`` something; all workers call this together."""
    return bool(transport.all_reduce(torch.tensor([int(found)]), WHERE, SETUP))


def smallest_below(rows: Tensor, crossing: Tensor, others: int, transport: Transport) -> Form | None:
    """The smallest form for the ``rows`` of all workers if they take fewer bytes than the ``others`` that could travel.

    Of the rows those count that are ``crossing`` the network, bool ``[m]``. All workers call this together.
    """
    form, across = Form.smallest(rows, transport), rows[crossing.to(rows.device)]
    sizes = torch.tensor([form.size(across.shape[0], entries_of(across), rows.shape[1]), others], dtype=torch.float64)
    own, other = transport.all_reduce(sizes, WHERE, SETUP).tolist()
    return form if own < other else None


def swap_once(
    rows: Tensor | Csr,
    sent: Sequence[int],
    received: Sequence[int],
    transport: Transport,
    form: Form | None = None,
    squeezed: bool = False,
) -> Tensor | Csr:
    """Send ``sent[p]`` of the ``rows``, grouped by peer, to every peer ``p``; all workers call this together.

    Returns the peers' rows, dense or sparse like ``rows``. They travel in ``form``; None: in the smallest;
    ``squeezed``: deflated too.
    """
    form = form or Form.smallest(rows, transport)
    swap = partial(swap_squeezed, transport=transport) if squeezed else transport.swap
    if form.columns is None:
        assert form.values is not None
        dense = rows.to_dense() if isinstance(rows, Csr) else rows
        found = swap(dense.to(form.values), sent, received, where=WHERE).float()
        return _sparse(found) if isinstance(rows, Csr) else found
    stored = rows if isinstance(rows, Csr) else _sparse(rows.cpu())
    # Row lengths first, so that the receiver knows the sizes; then the columns; then the values, if there are any.
    lengths = stored.indptr.diff().to(torch.int32)
    arrived = swap(lengths, sent, received, where=WHERE).long()
    refuse_outside(arrived, received, stored.num_cols + 1, "the number of values of a row", transport, WHERE)
    sizes = sums_by_peer(lengths, sent), sums_by_peer(arrived, received)
    columns = stored.indices.to(form.columns)
    if squeezed:
        columns = columns_of(swap(gaps(columns, lengths), *sizes, where=WHERE), arrived)
    else:
        columns = swap(columns, *sizes, where=WHERE)
    refuse_outside(columns, sizes[1], stored.num_cols, "a column", transport, WHERE)
    weight = None
    if form.values is not None:
        own = torch.ones(stored.nnz) if stored.weight is None else stored.weight
        weight = swap(own.to(form.values), *sizes, where=WHERE).float()
    starts = torch.nn.functional.pad(arrived.cumsum(0), (1, 0))
    found_rows = Csr(starts, columns.to(stored.indices.dtype), weight, stored.num_cols)
    return found_rows if isinstance(rows, Csr) else found_rows.to_dense().to(rows.device)


def _sparse(rows: Tensor) -> Csr:
    """The values of dense ``rows`` that are not zero."""
    row, column = rows.nonzero(as_tuple=True)
    return Csr.from_edges(row, column, rows.shape[0], rows.shape[1], rows[row, column])


def sums_by_peer(lengths: Tensor, counts: Sequence[int]) -> list[int]:
    """For every peer ``p``, the sum of its ``counts[p]`` ``lengths``."""
    return [int(part.sum()) for part in torch.split(lengths, list(counts))]
