"""The interface of aggregation in the pipeline, and the exact aggregation over all rows at once."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor

from halowire.layers import Aggregation, Gathering, Kept, Layer, Rows, empty_on, gather_whole, scatter_whole
from halowire.schedules.departure import Departure
from halowire.schedules.timeline import Timeline


class Sums(Protocol):
    """``g = A a`` and ``a_grad = A^T g_grad`` on the rows in work, for every layer of a stage.

    Forward, the rows of a chunk are written to ``room``, then gathered; backward, ``g_grad`` is written to
    ``grad_room``, then scattered. Chunks come in one order forward and in the reverse order backward.
    """

    def begin(self, epoch: int | None) -> None:
        """Begin a forward pass of ``epoch``; None: of evaluation."""

    def turn(self) -> None:
        """End forward, and begin backward."""

    def room(self, place: int, layer: Layer, rows: Rows) -> Tensor:
        """The matrix for ``a`` of these rows, ``[m, width]``, of the ``place``-th layer of the stage."""

    def gather(self, place: int, layer: Layer, a: Tensor, kept: Kept, rows: Rows) -> Tensor:
        """``g`` of these rows."""

    def grad_room(self, place: int, layer: Layer, rows: Rows) -> Tensor:
        """The matrix for ``g_grad`` of these rows."""

    def scatter(self, place: int, layer: Layer, g_grad: Tensor, into: Tensor | None, rows: Rows) -> Tensor:
        """``a_grad`` of these rows, added to ``into`` if given."""

    def done(self, rows: Rows) -> None:
        """End backward of these rows, in all layers of the stage."""

    def end(self, epoch: int) -> None:
        """End the epoch."""

    def forget(self) -> None:
        """Forget what the next epoch depends on, as at the start of a run."""

    def state(self) -> dict[str, Tensor]:
        """Everything that the next epoch depends on."""

    def load_state(self, state: dict[str, Tensor]) -> None:
        """Go on from ``state``, which :meth:`state` gave."""


class WholeSums:
    """Sums over all rows of the part at once, with a halo exchange of any code and freshness."""

    def __init__(self, aggregation: Aggregation, timeline: Timeline) -> None:
        self._aggregation = aggregation
        self._timeline = timeline
        self._gatherings: dict[int, Gathering] = {}

    def begin(self, epoch: int | None) -> None:
        """Tell the exchange the epoch of its messages."""
        self._aggregation.exchange.begin(epoch)

    def turn(self) -> None:
        """Do nothing: nothing changes between forward and backward."""

    def room(self, place: int, layer: Layer, rows: Rows) -> Tensor:
        """A pooled buffer."""
        return empty_on(rows.device, self._aggregation.rows_held(layer), layer.width)

    def gather(self, place: int, layer: Layer, a: Tensor, kept: Kept, rows: Rows) -> Tensor:
        """Send the boundary's rows, sum owned rows while they travel, then add the halo rows."""
        edges = self._aggregation
        departure = Departure(layer, kept, a[: rows.count], rows, edges.exchange)
        departure.add(edges.exchange.num_boundary)
        incoming = departure.close()
        gathering = edges.gather(layer, a, rows.training)
        if rows.training:
            self._gatherings[place] = gathering
        return gather_whole(gathering, a, incoming, edges.boundary, self._timeline.span("exchange", 0, layer.number))

    def grad_room(self, place: int, layer: Layer, rows: Rows) -> Tensor:
        """A pooled buffer."""
        return empty_on(rows.device, rows.count, layer.sum_width)

    def scatter(self, place: int, layer: Layer, g_grad: Tensor, into: Tensor | None, rows: Rows) -> Tensor:
        """Send the halo gradients, sum the own gradients while they travel, then add those that arrive."""
        waiting = self._timeline.span("exchange", 0, layer.number)
        return scatter_whole(self._gatherings.pop(place), g_grad, into, self._aggregation.exchange, waiting)

    def done(self, rows: Rows) -> None:
        """Do nothing: there are no other chunks."""

    def end(self, epoch: int) -> None:
        """Do nothing: the sums keep nothing for the next epoch."""

    def forget(self) -> None:
        """Drop what an epoch that broke off left behind."""
        self._gatherings.clear()

    def state(self) -> dict[str, Tensor]:
        """An empty state: the exchange has a state of its own."""
        return {}

    def load_state(self, state: dict[str, Tensor]) -> None:
        """Do nothing: there is no state."""
