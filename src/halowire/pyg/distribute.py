"""``halowire.distribute`` runs a PyG model on a shard; its calls are rehearsed, and its rows travel by a recipe."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.parameter import UninitializedBuffer, UninitializedParameter

from halowire.errors import InputError
from halowire.events import EVAL, TRAIN
from halowire.pyg.adjacency import take_adjacency
from halowire.pyg.agreed_rehearsal import agreed_rehearsal
from halowire.pyg.autoencoders import spread_autoencoder
from halowire.pyg.changed_model import follow, refuse_again, refuse_replaced
from halowire.pyg.data_part import ShardData, part_of
from halowire.pyg.edge_mask import unmasked
from halowire.pyg.entries import MethodEntry, ModuleEntry, own_methods
from halowire.pyg.fast_path import LayerPath, use_fast_paths
from halowire.pyg.fitting_rows import refuse_unfitting
from halowire.pyg.hetero_data import HeteroShardData
from halowire.pyg.home_rows import Home, bare
from halowire.pyg.leaves import changed
from halowire.pyg.light_gcn import rows_entry, spread_light_gcn
from halowire.pyg.model_pass import ModelPass
from halowire.pyg.modes import Modes
from halowire.pyg.node_weights import NodeWeights, WholeTables, guesses
from halowire.pyg.outputs import NODES, Belongs
from halowire.pyg.own_rows import is_marked, plain
from halowire.pyg.own_savings import own_savings, travelling
from halowire.pyg.rehearsal import UncheckableError, call_on_random
from halowire.pyg.trial import Call, Rehearsed, needed_inputs
from halowire.pyg.whole_layers import refuse_unsupported, refuse_wrapped, spread_norms
from halowire.pyg.whole_loss import Guarded
from halowire.training import (
    Config,
    Savings,
    Situation,
    agree,
    mesh_for_hosts,
    model_facts,
    policy_of,
    recipe_config,
    refuse,
    settled,
)  # fmt: skip
from halowire.wire import HaloExchanges, Machines, RowCodec, agree_on_codec

ATTRIBUTE = "_halowire"
"""The attribute of a model that holds its `Attachment`."""
Model = TypeVar("Model", bound=nn.Module)


def distribute(
    model: Model,
    data: ShardData | HeteroShardData,
    recipe: str = "exact",
    settings: Mapping[str, Any] | None = None,
    *,
    codec: RowCodec | None = None,
    node_weights: Sequence[str] | None = None,
) -> Model:
    """Make ``model`` run on this worker's part of a graph; returns the same object, with the same ``state_dict`` keys.

    ``model`` is any module whose forward takes ``edge_index``, such as ``(x, edge_index, ...)``: layers of PyTorch
    Geometric, or code of its own that reads nodes by edges. Called with the tensors of ``data``, it gives the output of
    the owned rows. Wherever it reads rows by the edges' sources, the halo's rows are exchanged, and their gradients
    return in backward; rows that carry gradients are coded by the recipe while training, everything else is exact.
    Normalisation layers get the statistics of the whole graph. All workers get rank 0's weights.

    The model is first rehearsed on a small random graph, cut in two, and refused where its results there do not equal
    those of the plain model. Make the loss with ``data.mean``.

    Example:
        >>> data = halowire.shard(dataset[0])
        >>> model = halowire.distribute(model, data, recipe="halowire")
        >>> out = model(data.x, data.edge_index)
        >>> loss = data.mean(F.cross_entropy(out[data.train_mask], data.y[data.train_mask], reduction="none"))

    Args:
        model: the model, of any floating type; layers that are lazy are given their shapes.
        data: this worker's part, from `halowire.shard`.
        recipe: a named setting of the wire.
        settings: overrides of ``rate.*``, ``freshness.*``, ``wire.*``, ``seed``, ``epochs`` (for schedules of the rate)
            and ``mesh.hosts`` (on how many machines the workers are; 1: rows cross once per worker).
        codec: a codec of one's own for the rows that the recipe would send in float32 (`halowire.RowCodec`).
        node_weights: names of the weights that have a row for each node, of which every worker keeps the rows of its
            own nodes; left out, they are found by their size and tried out.
    """
    config = recipe_config(recipe, own_model=True).replace(settings or {})
    mesh = mesh_for_hosts(config, data.transport.size)
    refuse(config, Situation(mesh, "distribute", tuple(settings or {}), codec is not None))
    attach(model, data, config, codec, node_weights)
    return model


def layer_paths(model: nn.Module) -> dict[str, LayerPath]:
    """By name, how every PyG layer of a distributed ``model`` ran in its training passes so far.

    ``path`` is ``native`` (halowire's kernels), ``general`` (PyG's own code) or both in turn; ``reason`` says why a
    layer did not run natively.

    Example:
        >>> for name, layer in halowire.layer_paths(model).items():
        ...     print(name, layer.path, layer.reason)
    """
    return state_of(model).paths


def attach(
    model: nn.Module,
    data: ShardData | HeteroShardData,
    config: Config,
    codec: RowCodec | None = None,
    node_weights: Sequence[str] | None = None,
) -> None:
    """Attach ``model`` to ``data``; its rows travel as ``config`` says, coded by ``codec`` if one is given.

    ``node_weights`` names the weights with a row for each node; None: they are guessed.
    """
    if codec is not None:
        agree_on_codec(codec, data.transport)
    refuse_again(model, ATTRIBUTE)
    materialise(model, data)
    refuse_unsupported(model)
    agree(model_facts(model, config, data.passing.device, codec), data.transport)
    for module in model.modules():
        for name in vars(module):
            if name.startswith("_cached_"):  # PyG's cached=True keeps values here, which may be of another graph
                setattr(module, name, None)
    model.to(data.passing.device)
    if config.mesh.hosts:
        data.transport.machines = Machines.split(data.transport.size, config.mesh.hosts)
    object.__setattr__(model, ATTRIBUTE, Attachment(model, data, config, codec, node_weights))


def materialise(model: nn.Module, data: ShardData | HeteroShardData) -> None:
    """Give shapes to the weights of lazy layers of ``model``, by a call on a small graph with rows of ``data``."""
    weights = (*model.parameters(), *model.buffers())  # a state_dict of PyG's layers would compute spectral norms
    lazy = any(isinstance(value, UninitializedParameter | UninitializedBuffer) for value in weights)
    if lazy and (args := required_inputs(model, data)):
        was_training = model.training
        with torch.no_grad():
            call_on_random(model.eval(), Call.of(args, {}, data))
        model.train(was_training)


def required_inputs(model: nn.Module, data: ShardData | HeteroShardData) -> tuple[Any, ...]:
    """The inputs that forward requires if ``data`` has them by name, else nothing."""
    needed = needed_inputs(model)
    if all(data.named_input(name) is not None for name in needed):
        return tuple(data.named_input(name) for name in needed)
    return (data,) if len(needed) == 1 and needed[0] in ("data", "batch", "graph", "g") else ()


def state_of(model: nn.Module) -> Attachment:
    """What halowire keeps for a distributed model."""
    if ATTRIBUTE not in model.__dict__:
        raise InputError("the model is not distributed, so all of it is plain PyG; call halowire.distribute first")
    state: Attachment = model.__dict__[ATTRIBUTE]
    return state


class Attachment:
    """What halowire keeps for one model on one shard; what begins a pass of the model uses it.

    ``epoch`` counts the training passes: it chooses the rate and, with delayed rows, whose message is used. ``paths``
    say what serves every PyG layer. ``savings`` is what the last new kind of call need not send, ``arriving`` the rows
    that come to this worker in each of its exchanges. ``weights`` are the weights with a row for each node, ``tables``
    gathers them.
    """

    def __init__(
        self,
        model: nn.Module,
        data: ShardData | HeteroShardData,
        config: Config,
        codec: RowCodec | None,
        node_weights: Sequence[str] | None,
    ) -> None:
        self.data = data
        self.epoch = 0
        self._part: ShardData | HeteroShardData = data
        self._model = model
        self._config = config
        self._codec = codec
        self._pristine = model
        self._checked: dict[str, Rehearsed] = {}
        self._exchanges: dict[tuple[ModelPass, Rehearsed], HaloExchanges] = {}
        self.savings = Savings()
        self.arriving: dict[str, int] = {}
        self._forms: tuple[Belongs, ...] = ()
        self._heard = data.reduction.heard
        self._around = contextlib.ExitStack()
        self._modes = Modes(model)
        self.weights = self._tried(node_weights)  # before anything is changed: a refused model is as it was
        data.reduction.share(model, "broadcast of the weights")
        if isinstance(data, ShardData):
            self.weights.place(model, data.rows)
            self.tables = WholeTables(self.weights, data.transport, data.rows, data.most_nodes)
            self.tables.watch(model)
        spread_norms(model, data.passing)
        self.paths = use_fast_paths(model)
        self._watch_weights()
        spread_autoencoder(model, data)
        spread_light_gcn(model, data)
        take_adjacency(model)
        rows = rows_entry(model)
        for name, module in model.named_modules():
            if not name and rows:
                continue  # forward is no pass itself: it calls the method that gives rows
            entry = ModuleEntry(self, name)
            module.register_forward_pre_hook(entry.before, with_kwargs=True)
            module.register_forward_hook(entry.after, always_call=True)
        for name in (*own_methods(model), *([rows] if rows else [])):
            # An attribute of the instance is found before the method of its class; parameters and buffers stay.
            object.__setattr__(model, name, MethodEntry(self, name, model))
        self._modes = Modes(model)  # anew, since some of halowire's own layers have other attributes

    def __deepcopy__(self, memo: dict[int, Any]) -> Attachment:
        """Copy for a copied model: the same shard, exchanges of its own, and no second rehearsal."""
        if id(self._model) not in memo:
            return self  # only a layer is copied, and the copy still belongs to this model
        twin = Attachment.__new__(Attachment)
        vars(twin).update(vars(self))
        memo[id(self)] = twin
        twin._model = memo[id(self._model)]
        twin._checked = dict(self._checked)
        twin._exchanges = {}
        twin._modes = copy.deepcopy(self._modes)
        twin._around = contextlib.ExitStack()
        return twin

    def __reduce__(self) -> str:
        """Refuse to be pickled, as ``torch.save(model)`` would."""
        raise InputError(
            "a distributed model is bound to its workers and cannot be saved as a whole; save model.state_dict(), on "
            "all workers alike, and load it into a model that is made anew"
        )

    @property
    def exchanges(self) -> list[HaloExchanges]:
        """The exchanges of all kinds of passes so far."""
        return list(self._exchanges.values())

    def _tried(self, node_weights: Sequence[str] | None) -> NodeWeights:
        """The weights that have a row for each node: the first guess with which the model can be rehearsed."""
        failures: list[InputError] = []
        args = required_inputs(self._model, self.data)
        # Weights of a graph of several types are not cut: which type a row belongs to is not known.
        single = isinstance(self.data, ShardData)
        choices, untried = guesses(self._model, self.data.most_nodes, node_weights if single else ())
        for guess in choices if args else ():
            self._guess(guess)
            try:
                self.exchange_of(args, entry=rows_entry(self._model))
            except InputError as error:
                failures.append(error)
            else:
                return guess
        if any(not isinstance(error, UncheckableError) for error in failures):
            raise failures[0]
        return self._guess(untried)  # the plain model may fail with the required inputs alone; the first call may not

    def _guess(self, weights: NodeWeights) -> NodeWeights:
        """Rehearse from now on as if ``weights`` had a row for each node."""
        self.weights = weights
        self._pristine = weights.shrunk(self._model)
        return weights

    @property
    def running(self) -> bool:
        """Whether a pass of the model is under way, or its layers run again in backward."""
        return self._part.passing.serves

    def begin(self, entry: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any] | None:
        """Begin a pass at ``entry``; inside it, rows need no marks, since every call is rehearsed.

        The edges say on which part it runs: a model that learns on one may be tried on others.
        """
        refuse_wrapped()
        refuse_replaced(self._model)
        self._part = part_of((args, kwargs)) or self.data
        refuse_unfitting((args, kwargs), self._part, self.data, tuple(self.weights.dims))
        known = self._known(args, kwargs, entry)
        exchange = self._exchange(known)
        training = self._model.training and torch.is_grad_enabled()
        self._watch_weights()
        if training:
            self._heard = self._part.reduction.steer(self.exchanges, self.epoch, self._heard)
        self._around = contextlib.ExitStack()
        if torch.is_inference_mode_enabled():
            # What is kept for later passes must not be made of inference tensors, which training cannot use.
            self._around.enter_context(torch.inference_mode(False))
            self._around.enter_context(torch.no_grad())
        self._around.enter_context(self._part.transport.ledger.account(TRAIN if training else EVAL))
        self._forms = known.forms[0 if self._model.training else 1]
        home = None
        if known.saved and isinstance(self._part, ShardData):
            home = Home(self._part.bridge, (self._config.seed, self.epoch))
        epoch, widths = (self.epoch, known.widths) if training else (None, None)
        self._part.passing.begin(exchange, epoch, widths, home)
        self.epoch += training
        given = plain((args, kwargs)) if is_marked((args, kwargs)) else (args, kwargs)
        if isinstance(self._part, ShardData):
            given = self._part.known(given)
        return tuple(given if home is None else home.welcome(given))

    def end(self, out: Any) -> Any:
        """End a pass of the model, also where it failed and ``out`` is None."""
        self._modes.after(self._model)
        self._part.passing.end()
        self._around.close()
        forms = iter(self._forms)
        return None if out is None else changed(bare(unmasked(out)), lambda leaf: self._guarded(leaf, forms))

    def _watch_weights(self) -> None:
        """Sum the gradients of the weights that all workers share; those of the rows of nodes are complete."""
        self._part.reduction.add(self.weights.shared(self._model))
        self._part.reduction.keep_apart(self.weights.own(self._model))

    def _guarded(self, out: Any, forms: Iterator[Belongs]) -> Any:
        """An output whose loss must be that of all workers, marked as rows of this worker's nodes or edges."""
        if not isinstance(out, Tensor):
            return out
        part, belongs = self._part, next(forms, NODES)
        guarded = Guarded.apply(out, part.reduction) if out.requires_grad else out  # type: ignore[no-untyped-call]
        return guarded if part.reduction.handed_over else part.give(guarded, belongs)

    def exchange_of(
        self, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None, entry: str = ""
    ) -> HaloExchanges:
        """The exchange for calls of ``entry`` with such arguments."""
        return self._exchange(self._known(args, kwargs or {}, entry))

    def _known(self, args: tuple[Any, ...], kwargs: dict[str, Any], entry: str = "") -> Rehearsed:
        """What the rehearsal found for such a call; the first call of a kind is rehearsed, by all workers at once."""
        follow(self._pristine, self._model)
        call = Call.of(args, kwargs, self._part, entry)
        trained = [parameter.requires_grad for parameter in self._model.parameters()]
        key = f"{call.key()} {trained} {self._modes.before(self._model)}"
        if key not in self._checked:
            pristine = self._modes.applied(self._pristine, self._model)
            for parameter, is_trained in zip(pristine.parameters(), trained, strict=True):
                parameter.requires_grad_(is_trained)
            self._checked[key] = agreed_rehearsal(pristine, call, self.weights, self._config, self._codec)
        return self._checked[key]

    def _exchange(self, known: Rehearsed) -> HaloExchanges:
        """The exchange for calls whose rehearsal found ``known``; its policy comes from the settings."""
        part = self._part
        if (part.passing, known) not in self._exchanges:
            here = Situation(caller="fit", codec=self._codec is not None, drops=known.drops)
            # What is computed at home is not among the widths.
            asked = settled(self._config, here)
            used = asked.replace({"wire.first_layer": "exchange", "wire.link": 0.0})
            self.savings = own_savings(known, part, asked)
            rows, pairs, self.arriving = travelling(known, part, self.savings, used.rate.rows)
            policy = replace(policy_of(used, known.widths, rows, pairs=pairs), codec=self._codec)
            summing = known.summing if self.savings.covers else ()
            self._exchanges[part.passing, known] = part.exchanges(policy, summing)
            part.reduction.watch(self._exchanges[part.passing, known])
        return self._exchanges[part.passing, known]
