"""A foreign model on a shard: rehearsed, its passes numbered and coded, its output guarded."""

from __future__ import annotations

import contextlib
import copy
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from halowire.events import EVAL, SETUP, TRAIN
from halowire.exchange import HaloExchange, Policy
from halowire.kernels import InputError
from halowire.nn.foreign.native import use_native
from halowire.nn.foreign.prepare import refuse_unsupported, spread_norms
from halowire.nn.foreign.reduction import Guarded
from halowire.nn.foreign.rehearsal import Call, UncheckableError, rehearse
from halowire.nn.foreign.shard_data import ShardData

PolicyMaker = Callable[[Sequence[int], int], Policy]
"""The policy of a model, from the widths of its coded exchanges and the halo rows of all workers."""
ATTRIBUTE = "_halowire"


class Distributed:
    """What halowire keeps for one model on one shard; reached by hooks on the model's forward.

    ``epoch`` counts the training passes: it chooses the rate, and with delayed rows whose message is used. ``norms``
    are the layers with whole-graph statistics, ``native`` says of every PyG layer what serves it.
    """

    def __init__(self, model: nn.Module, data: ShardData, make_policy: PolicyMaker) -> None:
        self.data, self.epoch = data, 0
        self._make_policy = make_policy
        self._pristine = copy.deepcopy(model)
        self._exchanges: dict[str, HaloExchange] = {}
        self.norms, self.native = spread_norms(model, data.link), use_native(model)
        _share_weights(model, data)
        data.reduction.add(list(model.parameters()))
        self._rehearse_signature()
        model.register_forward_pre_hook(self._before, with_kwargs=True)
        model.register_forward_hook(self._after, always_call=False)

    def _rehearse_signature(self) -> None:
        """Rehearse with what forward must be given, where names tell; any other call is rehearsed when it comes."""
        parameters = inspect.signature(self._pristine.forward).parameters.values()
        needed = [p.name for p in parameters if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD]
        if needed and all(name in self.data.keys for name in needed):
            self._try(tuple(getattr(self.data, name) for name in needed))
        elif len(needed) == 1 and needed[0] in ("data", "batch", "graph", "g"):
            self._try((self.data,))

    def _try(self, args: tuple[Any, ...]) -> None:
        # With these inputs alone the plain model may fail; then the first real call is rehearsed.
        with contextlib.suppress(UncheckableError):
            self.exchange_of(args)

    def _before(self, model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        exchange = self.exchange_of(args, kwargs)
        training = model.training and torch.is_grad_enabled()
        self._account = self.data.transport.ledger.account(TRAIN if training else EVAL)
        self._account.__enter__()
        self.data.link.begin(exchange, self.epoch if training else None)
        self.epoch += training

    def _after(self, model: nn.Module, args: Any, out: Any) -> Any:
        self.data.link.begin()
        self._account.__exit__(None, None, None)
        return _guarded(out, self.data)

    def exchange_of(self, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None) -> HaloExchange:
        """The exchange for this kind of call; the first one of a kind is rehearsed, by all workers at once."""
        call = Call.of(args, kwargs or {}, self.data)
        key = call.key()
        if key not in self._exchanges:
            widths = self._agreed_rehearsal(call)
            link = self.data.link
            rows = torch.tensor([link.num_halo])
            self.data.transport.all_reduce(rows, "reduction of the halo sizes", SETUP)
            policy = self._make_policy(widths, int(rows))
            self._exchanges[key] = HaloExchange(self.data.shard, self.data.transport, link.device, policy)
            self.data.reduction.watch(self._exchanges[key])
        return self._exchanges[key]

    def _agreed_rehearsal(self, call: Call) -> list[int]:
        failure, widths = None, list[int]()
        try:
            widths = rehearse(self._pristine, call)
        except InputError as error:
            failure = error
        uncheckable = isinstance(failure, UncheckableError)
        failures = torch.tensor([float(failure is not None and not uncheckable), float(uncheckable)])
        self.data.transport.all_reduce(failures, "check of the model", SETUP)
        refused = float(failures[0]) > 0
        if failure is not None and refused != uncheckable:
            raise failure
        if refused:
            raise InputError("another worker refused the model; its message says why")
        if float(failures[1]):
            raise UncheckableError("another worker could not check the model; its message says why")
        return widths


def distribute(model: nn.Module, data: ShardData, make_policy: PolicyMaker | None = None) -> nn.Module:
    """``model``, made ready to run on ``data``; see `halowire.distribute`."""
    if ATTRIBUTE in model.__dict__:
        raise InputError("the model is distributed already; distribute a fresh one (copy.deepcopy before, not after)")
    refuse_unsupported(model)
    forget_cached(model)
    model.to(data.link.device)
    object.__setattr__(model, ATTRIBUTE, Distributed(model, data, make_policy or (lambda widths, halo_rows: Policy())))
    return model


def state_of(model: nn.Module) -> Distributed:
    """What halowire keeps for a distributed model."""
    state: Distributed = model.__dict__[ATTRIBUTE]
    return state


def forget_cached(model: nn.Module) -> None:
    """Drop what layers cached of another graph (PyG's ``cached=True``)."""
    for module in model.modules():
        for name in vars(module):
            if name.startswith("_cached_"):
                setattr(module, name, None)


def _share_weights(model: nn.Module, data: ShardData) -> None:
    """Give all workers rank 0's parameters and buffers."""
    with torch.no_grad():
        for value in (*model.parameters(), *model.buffers()):
            shared = data.transport.broadcast(value.detach().clone(), "broadcast of the weights", SETUP)
            value.copy_(shared)


def _guarded(out: Any, data: ShardData) -> Any:
    if isinstance(out, Tensor):
        return Guarded.apply(out, data.reduction) if out.requires_grad else out  # type: ignore[no-untyped-call]
    if type(out) in (tuple, list):
        return type(out)(_guarded(value, data) for value in out)
    if type(out) is dict:
        return {key: _guarded(value, data) for key, value in out.items()}
    return out
