"""The borders of a stage: the matrices in which rows arrive and leave, and the links that carry them."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from halowire.schedules.mesh import Seat
from halowire.schedules.stage import Stage
from halowire.wire import FORWARD, Policy, StageLink


class Border:
    """The rows and gradients that cross the two borders of a stage, for all ``n`` rows of its part.

    ``arrived`` ``[n, k]`` holds the rows from the stage before; when a chunk's backward is done, its rows are
    overwritten by their gradient, which goes back from there. ``left`` holds the rows for the stage after; their
    gradient arrives in the same memory. Initial rows, if the model has them, pass through all stages, and their
    gradient ``[n, k]`` comes back, with this stage's part added.
    """

    def __init__(self, seat: Seat, stage: Stage, next_layer: int, ids: Tensor, policy: Policy) -> None:
        """``next_layer`` is the number of the first layer of the stage after.

        ``ids`` ``[n]`` are the original ids of the part's rows, on the device where the rows are.
        """
        n, width, device = ids.numel(), stage.width, ids.device
        self._device = device
        self._arrived = None if seat.first else torch.empty(n, width, device=device)
        self._left = None if seat.last else torch.empty(n, stage.out_width, device=device)
        self._initial = torch.empty(n, width, device=device) if stage.initial else None
        self._initial_grad = torch.empty(n, width, device=device) if stage.initial else None
        kinds = range(2 if stage.initial else 1)
        self._last = seat.last
        self._before: list[StageLink] = []
        self._after: list[StageLink] = []
        if not seat.first:
            self._before = [StageLink(seat.line, seat.stage - 1, stage.number, kind, ids, policy) for kind in kinds]
        if not seat.last:
            self._after = [StageLink(seat.line, seat.stage + 1, next_layer, kind, ids, policy) for kind in kinds]

    @property
    def links(self) -> list[StageLink]:
        """All links to the stages before and after."""
        return self._before + self._after

    def expect(self, places: Sequence[slice], direction: str, epoch: int | None) -> None:
        """Post the receives of all chunks in the order in which they are sent: all kinds of a chunk, then the next."""
        forward = direction == FORWARD
        into = (self._arrived, self._initial) if forward else (self._left, self._initial_grad)
        links = self._before if forward else self._after
        for number, at in enumerate(places):
            for link, matrix in zip(links, into, strict=False):
                assert matrix is not None
                link.expect(number, at, matrix, direction, epoch)
        if not forward and self._last and self._initial_grad is not None:
            self._initial_grad.zero_()

    def take(self, number: int, direction: str) -> None:
        """Wait for the ``number``-th chunk."""
        for link in self._before if direction == FORWARD else self._after:
            link.take(number)

    def unpack(self, at: slice, direction: str, epoch: int | None) -> None:
        """Decode the chunk that was taken last into the rows ``at``."""
        for link in self._before if direction == FORWARD else self._after:
            link.unpack(at)

    def send(self, number: int, at: slice, direction: str, epoch: int | None) -> None:
        """Launch the chunk with the rows ``at``, which is done."""
        forward = direction == FORWARD
        rows = (self._left, self._initial) if forward else (self._arrived, self._initial_grad)
        for link, matrix in zip(self._after if forward else self._before, rows, strict=False):
            assert matrix is not None
            link.send(matrix[at], number, at, direction, epoch)

    def turn(self) -> None:
        """Wait until everything sent forward has left, because gradients arrive in the same memory."""
        self.settle()

    def settle(self) -> None:
        """Wait until everything sent has left."""
        for link in self.links:
            link.settle()

    def arrived(self, at: slice) -> Tensor:
        """The rows from the stage before; in backward, the memory for their gradient."""
        assert self._arrived is not None
        return self._arrived[at]

    def room(self, at: slice) -> Tensor:
        """The memory for the rows that go to the stage after."""
        assert self._left is not None
        return self._left[at]

    def grad(self, at: slice) -> Tensor:
        """The gradient from the stage after."""
        return self.room(at)

    def initial_rows(self, at: slice) -> Tensor | None:
        """The initial rows ``at``, if the model has them."""
        return None if self._initial is None else self._initial[at]

    def initial_grad(self, at: slice) -> Tensor | None:
        """The gradient of the initial rows ``at`` so far."""
        return None if self._initial_grad is None else self._initial_grad[at]

    def forget(self) -> None:
        """Forget the memories of delta coding."""
        for link in self.links:
            link.memory.matrices = {}

    def state(self) -> dict[str, Tensor]:
        """The memories of delta coding, by link."""
        found: dict[str, Tensor] = {}
        for number, link in enumerate(self.links):
            found |= {f"border.{number}.{name}": value for name, value in link.memory.matrices.items()}
        return found

    def load_state(self, state: dict[str, Tensor]) -> None:
        """Go on from ``state``, which :meth:`state` gave."""
        for number, link in enumerate(self.links):
            prefix = f"border.{number}."
            link.memory.matrices = {
                name.removeprefix(prefix): value.to(self._device)
                for name, value in state.items()
                if name.startswith(prefix)
            }
