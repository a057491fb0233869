"""Arrival: a halo message that is here, added to one range of rows after another."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from halowire.events import Ledger
from halowire.kernels import Csr
from halowire.wire.rate import FORWARD
from halowire.wire.terms import Terms


@dataclass(frozen=True, eq=False)
class Arrival:
    """The bytes of a message and its terms, or its ``rows`` ``[h, k]`` where they had to be written to memory.

    Without terms there is no message, and nothing is added.
    """

    ledger: Ledger
    terms: Terms | None = None
    data: Tensor | None = None
    rows: Tensor | None = None

    def add(self, matrix: Csr, out: Tensor) -> None:
        """``out += matrix @ halo``, ``[r, k]`` for ``matrix`` ``[r, h]``; packed rows are decoded in registers.

        Of sampled rows, only the edges from those that travelled are summed.
        """
        terms, data = self.terms, self.data
        if terms is None or data is None:
            return
        with self.ledger.phase("pack"):
            if self.rows is not None:
                matrix.matmul(self.rows, out=out, accumulate=True)
                return
            used = (terms.lists.arrived(matrix) if terms.direction == FORWARD else matrix).scaled(terms.factor)
            if terms.columns is None:
                terms.decoder.aggregate(used, data, terms.width, out)
            else:
                part = torch.zeros(out.shape[0], terms.sent_columns, device=out.device)
                terms.decoder.aggregate(used, data, terms.sent_columns, part)
                add_columns(out, terms.columns, part)


def add_columns(out: Tensor, columns: Tensor | None, part: Tensor, factor: float = 1.0) -> None:
    """``out[:, columns] += factor part``; None: all columns."""
    if columns is None:
        out.add_(part, alpha=factor)
    else:
        out.index_add_(1, columns, part, alpha=factor)
