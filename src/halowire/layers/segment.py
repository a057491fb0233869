"""Segments: everything that is computed between two aggregations, on any rows and in any order.

A model is a list of segments with aggregations between them. A segment finishes one layer and prepares the rows that
the next layer sends:

    u = finish(g)         the output of the layer before, from its aggregate ``g``, ``[m, k]``
    v = f(u)              LayerNorm, ReLU and dropout
    a = v  or  v W^T      the rows that the layer after sends and aggregates, ``[m, width]``

Within a segment no row depends on another row. So a schedule may run a segment on the boundary's rows, send them, and
then run it on the interior; or on one chunk after another. The first segment of a model begins with its input features,
the last one ends with its logits; at the border of a stage, segments begin with rows that arrive or end with rows that
leave.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from halowire.layers.entry import Entry
from halowire.layers.layer import Layer, Output
from halowire.layers.rows import Kept, Rows


@dataclass(frozen=True, eq=False)
class Segment:
    """The computation between two aggregations: it finishes ``first`` and prepares ``second``.

    Attributes:
        first: the layer whose aggregate comes in, or the entry of the model; None: the rows come from another stage.
        second: the layer whose rows go out, or the output of the model; None: the rows go to another stage, or are
            the logits.
        width: columns of the rows ``u`` in the middle.
    """

    first: Layer | Entry | None
    second: Layer | Output | None
    width: int

    @property
    def layer(self) -> Layer | None:
        """The layer that the segment finishes; None where ``first`` is no layer."""
        return self.first if isinstance(self.first, Layer) else None

    @property
    def following(self) -> Layer | None:
        """The layer that the segment prepares; None where ``second`` is no layer."""
        return self.second if isinstance(self.second, Layer) else None

    def finish(self, rows: Rows, kept: Kept | None, initial: Tensor | None, u: Tensor, own: bool = True) -> None:
        """Write ``u`` of ``rows``; ``kept`` belongs to the layer before, ``initial`` are the model's initial rows.

        ``own``: also compute the part that needs no aggregate; if False, ``u`` holds that part already.
        """
        if isinstance(self.first, Entry):
            self.first.forward(rows, u, initial)
        elif self.first is not None:
            assert kept is not None
            self.first.mix(kept, initial)
            if own:
                self.first.finish_own(kept, u)
            self.first.finish(kept, u)

    def prepare(self, rows: Rows, kept: Kept | None, a: Tensor | None) -> None:
        """Write ``a`` of ``rows`` from ``kept.u``; ``kept`` belongs to the layer after."""
        if self.second is not None:
            assert kept is not None and a is not None
            self.second.prepare(kept, rows, a)

    def prepare_back(
        self, rows: Rows, kept: Kept | None, a_grad: Tensor | None, u_grad: Tensor, out_grad: Tensor | None, adds: bool
    ) -> None:
        """Write the gradient of ``u`` to ``u_grad``, from that of ``a`` and, for a skip, of the next layer's output."""
        if self.second is None:
            return
        assert kept is not None and a_grad is not None
        self.second.prepare_back(kept, rows, a_grad, u_grad, adds)
        if isinstance(self.second, Layer) and self.second.skip:
            assert out_grad is not None
            u_grad.add_(out_grad, alpha=self.second.skip)
