"""Attaching a PyG model to a shard: every kind of call is rehearsed, passes are coded, the output is guarded."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor, nn

from halowire.errors import InputError
from halowire.events import EVAL, SETUP, TRAIN
from halowire.pyg.call import Call, needed_inputs
from halowire.pyg.edges import holds
from halowire.pyg.native import use_native
from halowire.pyg.nested import changed
from halowire.pyg.prepare import forget_cached, refuse_unsupported, share_weights, spread_norms
from halowire.pyg.rehearsal import UncheckableError, rehearse
from halowire.pyg.shard_data import ShardData
from halowire.pyg.trial_pass import Rehearsed
from halowire.pyg.whole_loss import Guarded
from halowire.wire import HaloExchange, Policy, sample_size

HaloRows = Callable[[float], int]
"""From the share of halo rows that is sampled, how many rows all workers receive."""
PolicyMaker = Callable[[Rehearsed, HaloRows], Policy]
"""The policy of a model, from what is known of its calls and the halo rows of all workers."""
ATTRIBUTE = "_halowire"
"""The attribute of a model that holds its `Attachment`."""


class Attachment:
    """What halowire keeps for one model on one shard; hooks on the model's forward use it.

    ``epoch`` counts the training passes: it chooses the rate and, with delayed rows, whose message is used. ``norms``
    are the names of the layers with whole-graph statistics, ``native`` says what serves every PyG layer.
    """

    def __init__(self, model: nn.Module, data: ShardData, make_policy: PolicyMaker) -> None:
        self.data = data
        self.epoch = 0
        self._model = model
        self._make_policy = make_policy
        self._pristine = copy.deepcopy(model)
        self._checked: dict[str, Rehearsed] = {}
        self._exchanges: dict[Rehearsed, HaloExchange] = {}
        self._heard = data.reduction.heard
        self._account: AbstractContextManager[None] = contextlib.nullcontext()
        self._rehearse_signature()  # before anything is changed: a refused model is as it was
        self.norms = spread_norms(model, data.bridge)
        self.native = use_native(model)
        share_weights(model, data.transport, "broadcast of the weights")
        data.reduction.add(list(model.parameters()))
        model.register_forward_pre_hook(self._before, with_kwargs=True)
        model.register_forward_hook(self._after, always_call=True)
        for module in model.modules():
            if module is not model:
                module.register_forward_pre_hook(self._inside, with_kwargs=True)

    def __deepcopy__(self, memo: dict[int, Any]) -> Attachment:
        """A copied model has the same shard, exchanges of its own, and need not be checked again."""
        if id(self._model) not in memo:
            return self  # a layer alone is copied: it stays one of this model
        twin = copy.copy(self)
        memo[id(self)] = twin
        twin._model = memo[id(self._model)]
        twin._checked = dict(self._checked)
        twin._exchanges = {}
        twin._account = contextlib.nullcontext()
        return twin

    @property
    def exchanges(self) -> list[HaloExchange]:
        """The exchanges of all kinds of passes so far."""
        return list(self._exchanges.values())

    def _rehearse_signature(self) -> None:
        """Rehearse with what forward must be given, where its names tell; other calls are rehearsed when they come."""
        needed = needed_inputs(self._pristine)
        if needed and all(name in self.data.keys for name in needed):
            self._try(tuple(getattr(self.data, name) for name in needed))
        elif len(needed) == 1 and needed[0] in ("data", "batch", "graph", "g"):
            self._try((self.data,))

    def _try(self, args: tuple[Any, ...]) -> None:
        # With these inputs alone the plain model may fail; then the first real call is rehearsed.
        with contextlib.suppress(UncheckableError):
            self.exchange_of(args)

    def _before(self, model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Begin a pass of the model."""
        known = self._known(args, kwargs)
        exchange = self._exchange(known)
        training = model.training and torch.is_grad_enabled()
        if torch.is_grad_enabled():
            self.data.reduction.add(list(model.parameters()))
        if training:
            self._heard = self.data.reduction.steer(self.exchanges, self.epoch, self._heard)
        self._account = self.data.transport.ledger.account(TRAIN if training else EVAL)
        self._account.__enter__()
        self.data.bridge.begin(exchange, *((self.epoch, known.widths) if training else ()))
        self.epoch += training

    def _after(self, model: nn.Module, args: Any, out: Any) -> Any:
        """End a pass of the model, also where forward failed; then there is no output."""
        self.data.bridge.end()
        self._account.__exit__(None, None, None)
        self._account = contextlib.nullcontext()
        return None if out is None else changed(out, self._guarded)

    def _inside(self, layer: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Refuse a layer that is called with edges without its model."""
        if not self.data.bridge.inside and holds((args, kwargs)):
            self.data.bridge.refuse_outside()

    def _guarded(self, out: Any) -> Any:
        if not (isinstance(out, Tensor) and out.requires_grad):
            return out
        guarded: Tensor = Guarded.apply(out, self.data.reduction)  # type: ignore[no-untyped-call]
        return guarded

    def exchange_of(self, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None) -> HaloExchange:
        """The exchange for calls of this kind."""
        return self._exchange(self._known(args, kwargs or {}))

    def _known(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Rehearsed:
        """What is known of a call; the first call of a kind is rehearsed, by all workers at once."""
        call = Call.of(args, kwargs, self.data)
        trained = [parameter.requires_grad for parameter in self._model.parameters()]
        key = f"{call.key()} {trained}"
        if key not in self._checked:
            self._checked[key] = self._agreed_rehearsal(call, trained)
        return self._checked[key]

    def _exchange(self, known: Rehearsed) -> HaloExchange:
        if known not in self._exchanges:
            policy = self._make_policy(known, self._halo_rows)
            self._exchanges[known] = HaloExchange(self.data.shard, self.data.transport, self.data.bridge.device, policy)
            self.data.reduction.watch(self._exchanges[known])
        return self._exchanges[known]

    def _halo_rows(self, share: float) -> int:
        return self._total(sum(sample_size(count, share) for count in self.data.shard.recv_counts))

    def _total(self, count: int) -> int:
        """The sum of all workers' ``count``."""
        return int(self.data.transport.all_reduce(torch.tensor([count]), "reduction of the sizes", SETUP))

    def _agreed_rehearsal(self, call: Call, trained: Sequence[bool]) -> Rehearsed:
        """Rehearse ``call`` on every worker, and raise on all of them where one cannot go on."""
        failure: InputError | None = None
        known = Rehearsed((), False)
        most = self.data.shard.num_nodes + self._total(self.data.edge_index.shape[1])
        for parameter, is_trained in zip(self._pristine.parameters(), trained, strict=True):
            parameter.requires_grad_(is_trained)
        try:
            known = rehearse(self._pristine, call, most)
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
        return known


def attach(model: nn.Module, data: ShardData, make_policy: PolicyMaker | None = None) -> nn.Module:
    """``model``, made ready to run on ``data``; see `halowire.distribute`."""
    if ATTRIBUTE in model.__dict__:
        raise InputError("the model is distributed already; distribute a fresh one (copy.deepcopy before, not after)")
    refuse_unsupported(model)
    forget_cached(model)
    model.to(data.bridge.device)
    object.__setattr__(model, ATTRIBUTE, Attachment(model, data, make_policy or (lambda known, halo_rows: Policy())))
    return model


def state_of(model: nn.Module) -> Attachment:
    """What halowire keeps for a distributed model."""
    state: Attachment = model.__dict__[ATTRIBUTE]
    return state
