"""A foreign model on a shard: rehearsed, its passes numbered and coded, its output guarded."""

from __future__ import annotations

import contextlib
import copy
import inspect
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor, nn

from halowire.errors import InputError
from halowire.events import EVAL, SETUP, TRAIN
from halowire.pyg.call import Call
from halowire.pyg.edges import holds
from halowire.pyg.native import use_native
from halowire.pyg.outputs import change_tensors
from halowire.pyg.prepare import refuse_unsupported, spread_norms
from halowire.pyg.reduction import Guarded
from halowire.pyg.rehearsal import Rehearsed, UncheckableError, rehearse
from halowire.pyg.shard_data import ShardData
from halowire.wire import HaloExchange, Policy, sample_size

HaloRows = Callable[[float], int]
"""The halo rows of all workers that travel, where a share of them is sampled."""
PolicyMaker = Callable[[Rehearsed, HaloRows], Policy]
"""The policy of a model, from what is known of its calls and the halo rows of all workers."""
ATTRIBUTE = "_halowire"


class Distributed:
    """What halowire keeps for one model on one shard; reached by hooks on the model's forward.

    ``epoch`` counts the training passes: it chooses the rate, and with delayed rows whose message is used. ``norms``
    are the layers with whole-graph statistics, ``native`` says of every PyG layer what serves it.
    """

    def __init__(self, model: nn.Module, data: ShardData, make_policy: PolicyMaker) -> None:
        self.data, self.epoch = data, 0
        self._model, self._make_policy = model, make_policy
        self._pristine = copy.deepcopy(model)
        self._checked: dict[str, Rehearsed] = {}
        self._exchanges: dict[Rehearsed, HaloExchange] = {}
        self._heard = data.reduction.heard
        self._account: AbstractContextManager[None] = contextlib.nullcontext()
        self._rehearse_signature()  # before anything is changed: a refused model is as it was
        self.norms, self.native = spread_norms(model, data.link), use_native(model)
        _share_weights(model, data)
        data.reduction.add(list(model.parameters()))
        model.register_forward_pre_hook(self._before, with_kwargs=True)
        model.register_forward_hook(self._after, always_call=True)
        for module in model.modules():
            if module is not model:
                module.register_forward_pre_hook(self._inside, with_kwargs=True)

    def __deepcopy__(self, memo: dict[int, Any]) -> Distributed:
        """That of a copied model: the same shard, wire messages and weights of its own, nothing to check again."""
        if id(self._model) not in memo:
            return self  # a layer alone is copied: it stays one of this model
        twin = copy.copy(self)
        memo[id(self)] = twin
        twin._account = contextlib.nullcontext()
        twin._model, twin._exchanges, twin._checked = memo[id(self._model)], {}, dict(self._checked)
        return twin

    @property
    def exchanges(self) -> list[HaloExchange]:
        """One for each kind of pass."""
        return list(self._exchanges.values())

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
        known = self._known(args, kwargs)
        exchange = self._exchange(known)
        training = model.training and torch.is_grad_enabled()
        if torch.is_grad_enabled():
            self.data.reduction.add(list(model.parameters()))
        if training:
            self._heard = self.data.reduction.steer(self.exchanges, self.epoch, self._heard)
        self._account = self.data.transport.ledger.account(TRAIN if training else EVAL)
        self._account.__enter__()
        self.data.link.begin(exchange, *((self.epoch, known.widths) if training else ()))
        self.epoch += training

    def _after(self, model: nn.Module, args: Any, out: Any) -> Any:
        """Also called where forward failed; then there is no output."""
        self.data.link.end()
        self._account.__exit__(None, None, None)
        self._account = contextlib.nullcontext()
        return None if out is None else change_tensors(out, self._guarded)

    def _inside(self, layer: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if not self.data.link.inside and holds((args, kwargs)):
            self.data.link.refuse_outside()

    def _guarded(self, out: Tensor) -> Tensor:
        if not out.requires_grad:
            return out
        guarded: Tensor = Guarded.apply(out, self.data.reduction)  # type: ignore[no-untyped-call]
        return guarded

    def exchange_of(self, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None) -> HaloExchange:
        """The exchange for this kind of call."""
        return self._exchange(self._known(args, kwargs or {}))

    def _known(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Rehearsed:
        """What is known of a call; the first one of a kind is rehearsed, by all workers at once."""
        call = Call.of(args, kwargs, self.data)
        trained = [parameter.requires_grad for parameter in self._model.parameters()]
        key = f"{call.key()} {trained}"
        if key not in self._checked:
            self._checked[key] = self._agreed_rehearsal(call, trained)
        return self._checked[key]

    def _exchange(self, known: Rehearsed) -> HaloExchange:
        if known not in self._exchanges:
            policy = self._make_policy(known, self._halo_rows)
            self._exchanges[known] = HaloExchange(self.data.shard, self.data.transport, self.data.link.device, policy)
            self.data.reduction.watch(self._exchanges[known])
        return self._exchanges[known]

    def _halo_rows(self, share: float) -> int:
        return self._total(sum(sample_size(count, share) for count in self.data.shard.recv_counts))

    def _total(self, count: int) -> int:
        """Of all workers."""
        return int(self.data.transport.all_reduce(torch.tensor([count]), "reduction of the sizes", SETUP))

    def _agreed_rehearsal(self, call: Call, trained: Sequence[bool]) -> Rehearsed:
        failure, known = None, Rehearsed((), False)
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


def distribute(model: nn.Module, data: ShardData, make_policy: PolicyMaker | None = None) -> nn.Module:
    """``model``, made ready to run on ``data``; see `halowire.distribute`."""
    if ATTRIBUTE in model.__dict__:
        raise InputError("the model is distributed already; distribute a fresh one (copy.deepcopy before, not after)")
    refuse_unsupported(model)
    forget_cached(model)
    model.to(data.link.device)
    object.__setattr__(model, ATTRIBUTE, Distributed(model, data, make_policy or (lambda known, halo_rows: Policy())))
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
