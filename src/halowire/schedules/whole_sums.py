"""The aggregation of a part as the pipeline asks for it, and the exact one over all rows at once."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor

from halowire.layers import Aggregation, Gathering, Kept, Layer, Rows, empty_on
from halowire.schedules.departure import Departure
from halowire.schedules.timeline import Timeline


class Sums(Protocol):
    """``g = A a`` and ``a_grad = A^T g_grad`` on the rows in work, for every layer of a stage.

    Forward, the rows of a chunk are written to ``room``, then gathered; backward, ``g_grad`` is written to
    ``grad_room``, then scattered. Chunks come in one order forward and in the reverse order backward.
    """

    def begin(self, epoch: int | None) -> None:
        """A forward pass begins; None: evaluation."""

    def turn(self) -> None:
        """Forward is over, backward begins."""

    def room(self, place: int, layer: Layer, rows: Rows) -> Tensor:
        """The matrix for ``a`` of these rows, ``[m, width]``, of the ``place``-th layer of the stage."""

    def gather(self, place: int, layer: Layer, a: Tensor, kept: Kept, rows: Rows) -> Tensor:
        """``g`` of these rows."""

    def grad_room(self, place: int, layer: Layer, rows: Rows) -> Tensor:
        """The matrix for ``g_grad`` of these rows."""

    def scatter(self, place: int, layer: Layer, g_grad: Tensor, into: Tensor | None, rows: Rows) -> Tensor:
        """``a_grad`` of these rows, added to ``into`` where that is given."""

    def done(self, rows: Rows) -> None:
        """Backward of these rows is over in all layers of the stage."""

    def end(self, epoch: int) -> None:
        """The epoch is over."""

    def state(self) -> dict[str, Tensor]:
        """Everything that the next epoch depends on."""

    def load_state(self, state: dict[str, Tensor]) -> None:
        """Go on from :meth:`state`."""


class WholeSums:
    """All rows of the part at once: exact, with the halo exchange in any code and freshness."""

    def __init__(self, aggregation: Aggregation, timeline: Timeline) -> None:
        self._aggregation = aggregation
        self._timeline = timeline
        self._gatherings: dict[int, Gathering] = {}

    def begin(self, epoch: int | None) -> None:
        """Tell the exchange which epoch its messages belong to."""
        self._aggregation.exchange.begin(epoch)

    def turn(self) -> None:
        """Nothing has to change between forward and backward."""

    def room(self, place: int, layer: Layer, rows: Rows) -> Tensor:
        """A pooled buffer."""
        return empty_on(rows.device, self._aggregation.rows_held(layer), layer.width)

    def gather(self, place: int, layer: Layer, a: Tensor, kept: Kept, rows: Rows) -> Tensor:
        """The boundary's rows leave; own rows are summed while they fly, then the halo's."""
        edges = self._aggregation
        departure = Departure(layer, kept, a[: rows.count], rows, edges.exchange)
        departure.add(edges.exchange.num_boundary)
        incoming = departure.close()
        gathering = edges.gather(layer, a, rows.training)
        if rows.training:
            self._gatherings[place] = gathering
        gathering.own(a)
        gathering.interior(a)
        with self._timeline.span("exchange", 0, layer.number):
            gathering.wait(incoming)
            gathering.complete(slice(0, edges.boundary))
        return gathering.g

    def grad_room(self, place: int, layer: Layer, rows: Rows) -> Tensor:
        """A pooled buffer."""
        return empty_on(rows.device, rows.count, layer.sum_width)

    def scatter(self, place: int, layer: Layer, g_grad: Tensor, into: Tensor | None, rows: Rows) -> Tensor:
        """The halo's gradients leave; own rows' are summed while they fly, then what returned is added."""
        gathering = self._gatherings.pop(place)
        message = gathering.send_back(g_grad)
        a_grad = gathering.own_back(g_grad, into)
        with self._timeline.span("exchange", 0, layer.number):
            self._aggregation.exchange.finish_back(message, a_grad)
        return a_grad

    def done(self, rows: Rows) -> None:
        """Nothing is kept for other chunks: there are none."""

    def end(self, epoch: int) -> None:
        """Nothing is kept for the next epoch."""

    def state(self) -> dict[str, Tensor]:
        """Nothing: the exchange has a state of its own."""
        return {}

    def load_state(self, state: dict[str, Tensor]) -> None:
        """Nothing is kept."""
