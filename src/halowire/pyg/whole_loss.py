"""The loss of the whole graph is the mean of all workers' values; its gradients are summed when backward ends."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import Function, Variable

from halowire.errors import InputError
from halowire.events import EVAL, SETUP, TRAIN
from halowire.pyg.leaves import changed, leaves
from halowire.pyg.outside_weights import RowTensors, leaf_tensors, told_apart
from halowire.pyg.same_weights import WORD, all_alike, digest, refuse_other_weights
from halowire.pyg.weight_hooks import refuse_hooks
from halowire.wire import HaloExchanges, Transport, vector_on

SPREAD = 1e-9
"""The largest relative variance of a number over the workers that rounding may cause."""


@dataclass(frozen=True)
class Heard:
    """What is known from backward passes so far: number and sum of the losses, and the seconds on rank 0."""

    losses: int = 0
    total: float = 0.0
    seconds: float = 0.0


class Reduction:
    """Sums the weight gradients of distributed models over all workers when a backward pass ends.

    A pass begins at the loss (`halowire.pyg.whole_loss.WholeMean`). Gradients of earlier passes, which are summed
    already, are put aside; at the end the new gradients are summed and added to them, so that several losses may be
    accumulated before a step. ``running`` says whether a pass has begun, ``heard`` is what is known from the passes,
    ``handed_over`` whether another loop sums. Every pass checks that all workers have the same weights.
    """

    def __init__(self, transport: Transport, extents: Sequence[int] = ()) -> None:
        """Sum over the workers of ``transport``; ``extents`` are this worker's numbers of nodes and edges."""
        self.transport = transport
        self.running = False
        self.heard = Heard()
        self.handed_over = False
        self._account: AbstractContextManager[None] = contextlib.nullcontext()
        self._time = time.perf_counter()
        self._parameters: list[Tensor] = []
        self._exchanges: list[HaloExchanges] = []
        self._earlier: list[Tensor | None] = []
        self._told: list[tuple[float, Tensor]] = []
        self._rows = RowTensors(extents)

    def add(self, parameters: Iterable[nn.Parameter]) -> None:
        """Sum the gradients of these ``parameters`` too from now on."""
        known = {id(parameter) for parameter in self._parameters}
        self._parameters += [parameter for parameter in parameters if id(parameter) not in known]

    def keep_apart(self, rows: Iterable[nn.Parameter]) -> None:
        """Leave the gradients of ``rows``, weights of this worker's nodes, as they are."""
        for parameter in rows:
            self._rows.add(parameter)

    def share(self, module: nn.Module, what: str) -> None:
        """Give all workers rank 0's weights and buffers of ``module``; ``what`` names it."""
        with torch.no_grad():
            for value in (*module.parameters(), *module.buffers()):
                value.copy_(self.transport.broadcast(value.detach().clone(), what, SETUP))

    def watch(self, exchange: HaloExchanges) -> None:
        """Synchronise the next epoch of ``exchange`` when its rows have changed too much."""
        self._exchanges.append(exchange)

    def hand_over(self) -> None:
        """Leave it to another loop to sum the gradients and to steer the exchanges by its losses."""
        self.running = True
        self.handed_over = True

    def hear(self, mean: float, grad: Tensor) -> None:
        """Note that a loss of the whole graph, or a term of it, went backward: ``grad``, its factor, times ``mean``.

        The factor is read at the end of the pass, together with what all workers tell each other there.
        """
        if not self.handed_over:
            self._told.append((mean, grad.detach().reshape(1)))

    def knows(self, values: Iterable[Tensor]) -> bool:
        """Whether one of ``values`` is a weight whose gradient is summed."""
        known = {id(parameter) for parameter in self._parameters}
        return any(id(value) in known for value in values)

    def unknown_leaves(self, terms: Iterable[Tensor]) -> list[Tensor]:
        """The tensors that ``terms`` learn and that are neither known weights nor known rows."""
        if self.transport.size == 1:
            return []
        known = {id(parameter) for parameter in self._parameters}
        return [leaf for leaf in leaf_tensors(terms) if id(leaf) not in known and leaf not in self._rows]

    def adopt(self, leaves: Sequence[Tensor], total: int) -> None:
        """Sum the gradients of those ``leaves`` that are weights outside of the model; see `told_apart`."""
        self._parameters += told_apart(leaves, total, self._rows, self.transport)

    def weights_said(self, device: torch.device) -> Tensor:
        """What a message of an evaluation says of the weights, float64 on ``device``; empty where it is not asked.

        A best state that every worker chose by itself is found here, since no backward may follow.
        """
        # Not by the values, which one worker without rows may make without a gradient.
        if torch.is_grad_enabled():
            return torch.zeros(0, dtype=torch.float64, device=device)
        return self._said(device)

    def counted(self, here: Sequence[int], where: str) -> Tensor:
        """The numbers of ``here`` of every worker, int64 ``[k, workers]``, on the CPU.

        They go before rows that are put together, which must be those of one model: the same message compares weights.
        """
        counts = torch.zeros(len(here), self.transport.size, dtype=torch.int64)
        counts[:, self.transport.rank] = torch.tensor(here, dtype=torch.int64)
        device = self._parameters[0].device if self._parameters else counts.device
        told = torch.cat([counts.view(-1), self._said(device).cpu().long()])
        sums = self.transport.all_reduce(told, where, EVAL)
        self.hear_weights(sums[counts.numel() :].tolist())
        return sums[: counts.numel()].view_as(counts)

    def _said(self, device: torch.device) -> Tensor:
        """The digest of the weights and its squares, float64; empty where another loop compares them."""
        if self.transport.size == 1 or self.handed_over:
            return torch.zeros(0, dtype=torch.float64, device=device)
        said = digest(self._parameters, device)
        return torch.cat([said, said.square()]).double()

    def hear_weights(self, sums: Sequence[float]) -> None:
        """Refuse weights that differ by the ``sums`` of what all workers said of them."""
        if not all_alike(self.transport.size, sums[: len(sums) // 2], sums[len(sums) // 2 :]):
            refuse_other_weights(self._parameters, self.transport)

    def once(self, penalty: Tensor) -> Tensor:
        """``penalty``, which all workers have, as a term that counts once: each takes an equal share of its gradient.

        The workers' gradients are summed at the end, so without the shares it would count once per worker.
        """
        size = self.transport.size
        value = penalty.detach().double()
        sums = torch.stack([value, value.square()])
        total, square = self.transport.all_reduce(sums, "reduction of the penalty", account=None).tolist()
        mean = total / size
        if square / size - mean * mean > SPREAD * (mean * mean):
            raise InputError(
                "the penalty of the loss is not the same on all workers, so it depends on rows; put what depends on "
                "rows into the values: data.mean(values + ..., penalty=...)"
            )
        out: Tensor = WholeMean.apply(penalty, self, mean, float(size))  # type: ignore[no-untyped-call]
        return out

    def steer(self, exchanges: Sequence[HaloExchanges], epoch: int, before: Heard) -> Heard:
        """Decide on the bits of training pass ``epoch`` by the losses since ``before``; return what is known now."""
        now = self.heard
        for exchange in () if self.handed_over else exchanges:
            base = exchange.policy.base
            if base is None:
                continue
            if now.losses > before.losses:
                base.observe(now.total - before.total, now.seconds - before.seconds)
            base.keep_up(epoch)
            exchange.synchronise_next |= exchange.policy.freshness.adaptive and base.synchronous
        return now

    def begin(self) -> None:
        """Put earlier gradients aside, and arrange that those of this backward pass are summed at its end."""
        if self.running:
            return
        if self.transport.size > 1:
            refuse_hooks(self._parameters)
        self.running = True
        self._account = self.transport.ledger.account(TRAIN)  # layers that run again in backward send rows, too
        self._account.__enter__()
        self._earlier = [parameter.grad for parameter in self._parameters]
        for parameter in self._parameters:
            parameter.grad = None
        Variable._execution_engine.queue_callback(self._finish)

    def _finish(self) -> None:
        """Sum the new gradients, the changes of the exchanges' rows and rank 0's seconds in one message."""
        self.running = False
        self._account.__exit__(None, None, None)
        new = [parameter.grad for parameter in self._parameters]
        # A weight that the loss does not reach has no gradient on any worker: all workers run the same code.
        parts = [grad.reshape(-1) for grad in new if grad is not None]
        numbers = [value for exchange in self._exchanges for value in exchange.take_change()]
        numbers.append(self._seconds())
        device = (parts or [grad for _, grad in self._told])[0].device
        # The bytes of the losses' factors and of the digest, and their squares: float32 sums of both are exact.
        factors = torch.cat([grad.float() for _, grad in self._told]).view(torch.uint8).float()
        told = torch.cat([factors, digest(self._parameters, device)])
        flat = torch.cat([*parts, vector_on(device, numbers), told, told.square()])
        self.transport.all_reduce(flat, "reduction of the weight gradients")
        pieces = iter(torch.split(flat, [*(part.numel() for part in parts), len(numbers) + 2 * told.numel()]))
        for parameter, grad, earlier in zip(self._parameters, new, self._earlier, strict=True):
            if grad is not None:
                grad.copy_(next(pieces).view_as(grad))
                parameter.grad = grad if earlier is None else earlier.add_(grad)
            else:
                parameter.grad = earlier
        self._earlier = []
        found = self.transport.read(torch.cat([next(pieces), *(grad for _, grad in self._told)]))
        changes, seconds = found[: len(numbers) - 1], found[len(numbers) - 1]
        middle, last = len(numbers) + told.numel(), len(numbers) + 2 * told.numel()
        totals, squares = found[len(numbers) : middle], found[middle:last]
        self._refuse_other_factors(totals[:-WORD], squares[:-WORD])
        self._hear_all(found[last:], seconds)
        if not all_alike(self.transport.size, totals[-WORD:], squares[-WORD:]):
            refuse_other_weights(self._parameters, self.transport)
        for exchange, change, norm in zip(self._exchanges, changes[::2], changes[1::2], strict=True):
            threshold = exchange.policy.freshness.threshold
            exchange.synchronise_next = 0 < threshold**2 * norm < change

    def _refuse_other_factors(self, totals: list[float], squares: list[float]) -> None:
        """Refuse losses that the workers multiplied by different numbers; given are the sums of bytes and squares."""
        if not all_alike(self.transport.size, totals, squares):
            raise InputError(
                "the loss is multiplied by a number that is not the same on all workers, such as 1 / data.num_nodes, "
                "which counts this worker's nodes; use data.num_whole_nodes, or put the number into the values"
            )

    def _hear_all(self, factors: list[float], seconds: float) -> None:
        """Note the losses that went backward in this pass, with the factors that were read, and its ``seconds``."""
        terms = [factor * mean for factor, (mean, _) in zip(factors, self._told, strict=True)]
        total = sum(terms, self.heard.total)
        self.heard = Heard(self.heard.losses + len(terms), total, self.heard.seconds + seconds)
        self._told = []

    def _seconds(self) -> float:
        """Seconds since the last backward pass on rank 0, and 0 on other ranks, so that the sum is rank 0's seconds."""
        before = self._time
        self._time = time.perf_counter()
        return self._time - before if self.transport.rank == 0 else 0.0


class WholeLoss(Tensor):
    """The result of ``data.mean`` if it has a gradient; it may be scaled, and added to other results of ``data.mean``.

    The gradients of all workers are summed, so any other term would count once per worker, and a mean of this worker's
    rows would be taken for a mean of all rows.
    """

    reduction: Reduction

    @staticmethod
    def of(value: Tensor, reduction: Reduction) -> Tensor:
        """``value`` as a `WholeLoss` if it has a gradient, else unchanged."""
        if not value.requires_grad:
            return value
        with torch._C.DisableTorchFunctionSubclass():
            marked: WholeLoss = value.as_subclass(WholeLoss)
        marked.reduction = reduction
        return marked

    def __format__(self, spec: str) -> str:
        """Format the number, as torch does for plain tensors but not for subclasses."""
        return format(self.item(), spec)

    @classmethod
    def __torch_function__(
        cls, func: Callable[..., Any], types: Sequence[type], args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Call ``func``, or refuse it where a gradient would be wrong."""
        kwargs, name = kwargs or {}, getattr(func, "__name__", "")
        given = [leaf for leaf in leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        reductions = [value.reduction for value in given if isinstance(value, WholeLoss)]
        reduction = reductions[0]
        if any(other is not reduction for other in reductions):
            raise InputError(
                "losses of two parts, from two calls of halowire.shard, are combined; call backward of each: the "
                "gradients add up until optimizer.zero_grad()"
            )
        if kwargs.get("create_graph"):
            raise InputError(
                "second derivatives (create_graph=True) do not cross to other workers; leave create_graph out"
            )
        if name == "grad" and reduction.knows(given):
            raise InputError(
                "torch.autograd.grad gives the gradients of this worker's rows alone; use loss.backward() and the "
                "weights' .grad, which are summed over all workers"
            )
        others = [value for value in given if not isinstance(value, WholeLoss)]
        if name not in ("grad", "backward", "__get__") and any(value.requires_grad for value in others):
            raise InputError(
                "the loss of all workers, data.mean(values), is combined with a term that only this worker knows or "
                "that would count once per worker; put what depends on rows into the values, and a penalty on the "
                "weights into data.mean(values, penalty=...)"
            )
        if name in ("grad", "backward"):
            # Layers may run again in backward, and their edges are a subclass too: only the loss loses its class.
            return func(*changed(args, _plain), **changed(kwargs, _plain))
        with torch._C.DisableTorchFunctionSubclass():
            out = func(*args, **kwargs)
        return WholeLoss.of(out, reduction) if isinstance(out, Tensor) and out.is_floating_point() else out


def _plain(value: Any) -> Any:
    """``value``, which is no longer a `WholeLoss`."""
    if not isinstance(value, WholeLoss):
        return value
    with torch._C.DisableTorchFunctionSubclass():
        return value.as_subclass(Tensor)


class WholeMean(Function):
    """The mean of all workers' values, the same on every worker; each value has the gradient ``1 / count``."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, reduction: Reduction, mean: float, count: float) -> Tensor:
        """``mean``, which is ``sum over workers of sum(values) / count``."""
        ctx.reduction = reduction
        ctx.count = count
        ctx.shape = values.shape
        ctx.mean = mean
        return values.new_full((), mean)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        """The gradient ``1 / count`` of every value; the reduction of the weights' gradients begins here."""
        ctx.reduction.begin()
        ctx.reduction.hear(ctx.mean, grads[0])
        return (grads[0] / ctx.count).expand(ctx.shape), None, None, None


class Guarded(Function):
    """Passes a distributed model's output on unchanged; backward refuses a loss that is not summed over the workers."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, reduction: Reduction) -> Tensor:
        """Return ``values`` unchanged."""
        ctx.reduction = reduction
        return values.view_as(values)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradient unchanged; refuse it if the backward pass did not begin at ``data.mean``."""
        if not ctx.reduction.running:
            raise InputError(
                "backward of a distributed model began at a loss of this worker's rows alone; make it the loss of all "
                "workers: loss = data.mean(values), with one value per row (reduction='none')"
            )
        return grads[0], None
