"""A pass of a model over a part: its crossings are counted, the same on all workers, and find their exchanges here."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from halowire.errors import InputError
from halowire.pyg.home_rows import Home
from halowire.wire import HaloExchanges, Transport

FIRST_EXACT = 10_000
"""Exact messages are numbered from here on, so that no number is also a layer of the policy."""


class ModelPass:
    """What all bridges of a part share while a model runs: the epoch, the exchanges, the numbers of the crossings.

    Every crossing of a pass has a number, the same on all workers because they run the same code. The number is the
    ``layer`` of the policy, the ledger and the random numbers. ``coded_widths`` are the widths of this pass's coded
    exchanges so far, ``coded_halos`` the names of their halos; ``inside`` says whether a pass is under way; ``part`` is
    the data of the part; ``warned`` whether the script was told that it reads numbers of this worker. ``noted``, in a
    rehearsal, takes the sums that layers ask other workers for.
    """

    def __init__(self, transport: Transport, device: torch.device) -> None:
        self.transport = transport
        self.device = device
        self.part: Any = None
        self.coded_widths: list[int] = []
        self.coded_halos: list[str] = []
        self.inside = False
        self.warned = False
        self.exchanges: HaloExchanges | None = None
        self.epoch: int | None = None
        self.home: Home | None = None
        self.noted: list[Any] | None = None
        self._expected_widths: tuple[int, ...] | None = None
        self._num_exact = 0

    def __deepcopy__(self, memo: dict[int, object]) -> ModelPass:
        """Return the same pass: a copied model runs on the same part."""
        return self

    def begin(
        self,
        exchanges: HaloExchanges | None = None,
        epoch: int | None = None,
        widths: tuple[int, ...] | None = None,
        home: Home | None = None,
    ) -> None:
        """Begin a pass over ``exchanges`` in training epoch ``epoch``; without both, all rows of the pass are exact.

        ``widths`` are the widths of the coded exchanges that the policy was made for, in their order. ``home`` is what
        rows share that know their halo, where the pass has such rows.
        """
        self.inside = True
        self.coded_widths = []
        self.coded_halos = []
        self.exchanges = exchanges
        self.epoch = epoch
        self.home = home
        self._expected_widths = widths
        self._num_exact = 0

    def end(self) -> None:
        """End the pass; rows that are read from now on are exact, and carry no gradient."""
        self.begin()
        self.inside = False

    @property
    def serves(self) -> bool:
        """Whether layers may run now: in a pass, or in backward, where checkpoints and reversible layers run again."""
        return self.inside or in_backward()

    def refuse_outside(self, rows: Tensor | None = None) -> None:
        """Refuse ``rows`` with a gradient that are used outside of a distributed model's pass."""
        if not self.serves and (rows is None or carries_gradient(rows)):
            raise InputError(
                "rows that carry a gradient are used with edge_index outside of a distributed model, where nothing was "
                "checked and no recipe applies; put that into the model's forward or into a method of the model, and "
                "call the model itself"
            )

    def whole_sum(self, value: Tensor) -> Tensor:
        """The sum of ``value`` over all workers."""
        if self.transport.size == 1:
            return value
        out: Tensor = WholeSum.apply(value, self.transport)  # type: ignore[no-untyped-call]
        return out

    def whole_max(self, value: int) -> int:
        """The largest ``value`` of all workers."""
        values = torch.zeros(self.transport.size, dtype=torch.int64)
        values[self.transport.rank] = value
        return int(self.transport.all_reduce(values, "largest value of all workers", account=None).max())

    def coded_number(self, width: int, halo: str) -> int:
        """The number of the next coded crossing, which carries ``width`` columns of the rows of ``halo``."""
        self.coded_widths.append(width)
        self.coded_halos.append(halo)
        number = len(self.coded_widths)
        expected = self._expected_widths
        if expected is not None and self.coded_widths != list(expected[:number]):
            raise InputError(
                f"the model exchanges other rows than when it was checked: exchange {number} of this pass has "
                f"{width} columns, the ones that were checked have {list(expected)}; what decides on the layers "
                "must be part of the model, or a flag or a text, not a number that forward is called with"
            )
        return number

    def exact_number(self) -> int:
        """The number of the next exact crossing."""
        self._num_exact += 1
        return FIRST_EXACT + self._num_exact


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


def in_backward() -> bool:
    """Whether a backward pass is under way."""
    return torch._C._current_graph_task_id() != -1


def carries_gradient(rows: Tensor) -> bool:
    """Whether a gradient of ``rows`` will be asked for."""
    return rows.requires_grad and torch.is_grad_enabled()
