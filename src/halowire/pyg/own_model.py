"""A user's own model becomes a runner of the training loop, and a user's own loss becomes its task."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from halowire.errors import InputError
from halowire.events import EVAL
from halowire.kernels import stream_key
from halowire.pyg.data_part import ShardData
from halowire.pyg.distribute import attach, layer_paths, state_of
from halowire.pyg.drop_edges import DropEdges
from halowire.pyg.fast_path import NATIVE, overlap_by_layer
from halowire.pyg.hetero_data import HeteroShardData
from halowire.pyg.light_gcn import rows_entry
from halowire.pyg.module_watch import modules_watched
from halowire.pyg.own_rows import plain
from halowire.pyg.random_draws import Random
from halowire.pyg.trial import needed_inputs
from halowire.schedules import Complete, Watch
from halowire.training import (
    Config,
    Decoder,
    Learnt,
    LinkTask,
    Runner,
    Task,
    generator_states,
    restore_generators,
    silent,
)
from halowire.wire import HaloExchanges, RowCodec

LossFunction = Callable[[Tensor, Any], Tensor]
"""``loss(out, data)`` gives one or more values for each of this worker's rows that count."""
PREFIX = "model."
DECODER = "decoder."
"""Prefixes of the names of weights in a checkpoint: for the model, and for its decoder."""


class OwnModel(nn.Module):
    """The user's model in a form that the loop can call as it calls the library's own models."""

    def __init__(
        self, model: nn.Module, data: ShardData | HeteroShardData, inputs: Sequence[str], decoder: Decoder | None = None
    ) -> None:
        super().__init__()
        self.model = model
        self.decoder = decoder if isinstance(decoder, nn.Module) else None
        self._data = data
        self._inputs = tuple(inputs)
        self._one_value = data.task_shard.regression

    def call_inputs(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments of the model: by position up to the first skipped parameter, then by name."""
        places = {name: place for place, name in enumerate(inspect.signature(self.model.forward).parameters)}
        skips = [place for place, name in enumerate(self._inputs) if places.get(name, place) != place]
        first = min(skips, default=len(self._inputs))
        values = [getattr(self._data, name) for name in self._inputs]
        return tuple(values[:first]), dict(zip(self._inputs[first:], values[first:], strict=True))

    def forward(self, epoch: int | None) -> Tensor:
        """Output of the owned rows, ``[n, C]``, in training epoch ``epoch``, or in evaluation where it is None."""
        self.train(epoch is not None)
        state_of(self.model).epoch = epoch or 0
        args, kwargs = self.call_inputs()
        entry = rows_entry(self.model)
        called = getattr(self.model, entry) if entry else self.model
        out = plain(self._data.task_rows(called(*args, **kwargs)))  # what follows sums over all workers by itself
        if self._one_value and isinstance(out, Tensor) and out.dim() == 1:
            out = out[:, None]
        if not isinstance(out, Tensor) or out.dim() != 2:
            raise InputError(f"the model gives {type(out).__name__}; fit needs one tensor [nodes, classes]")
        return out


@dataclass(frozen=True, eq=False)
class OwnTask(Task):
    """A task with a loss of the user's own."""

    function: LossFunction | None = None
    data: ShardData | HeteroShardData | None = None

    def loss(self, logits: Tensor, epoch: int = 0) -> Tensor:
        """This worker's share of the loss: the sum of its values, divided by the number of all workers' values."""
        if self.function is None or self.data is None:
            return super().loss(logits, epoch)
        values = self.function(self.data.own_rows(logits), self.data)
        if not isinstance(values, Tensor) or values.dim() == 0:
            raise InputError("the loss must give one value per row, which halowire averages; use reduction='none'")
        count = self.data.transport.all_reduce(torch.tensor([float(values.numel())]), "count of the loss's rows")
        total: Tensor = plain(values).sum()
        return total / float(count)


class OwnRunner(Runner):
    """Runs the user's model in graph parallelism."""

    exchange: HaloExchanges

    def __init__(self, model: OwnModel, data: ShardData | HeteroShardData, task: Learnt) -> None:
        self.model = model
        self._own = model.model
        self.shard = data.task_shard
        self.task = task
        self.peers = data.transport
        self.num_features = data.task_shard.num_features
        args, kwargs = model.call_inputs()
        attached = state_of(model.model)
        self.exchange = attached.exchange_of(args, kwargs, rows_entry(model.model))
        self.savings = attached.savings
        self._arriving = attached.arriving
        self.parameters = {name: value for name, value in model.named_parameters() if value.requires_grad}
        self.row_weights = frozenset(f"{PREFIX}{name}" for name in state_of(model.model).weights.dims)

    def forward_backward(self, epoch: int, complete: Complete) -> Tensor:
        """Run the user's code forward, and backward by autograd, whose hooks tell which gradients are complete."""
        ledger = self.peers.ledger
        with ledger.phase("forward"):
            loss = self.task.loss(self.model(epoch), epoch)
        with ledger.phase("backward"):
            loss.backward()  # type: ignore[no-untyped-call]
        return loss.detach()

    def logits(self) -> Tensor:
        """Output of the owned rows in evaluation mode, from fresh float32 halo rows."""
        with torch.no_grad(), self.peers.ledger.account(EVAL):
            out: Tensor = self.model(None)
        return out

    def facts(self) -> dict[str, Any]:
        """The rows that arrive in every exchange; only the end shows what served each layer, and so what hid them."""
        return {"overlap": {}, "wire_rows": self._arriving}

    @property
    def remembers(self) -> bool:
        """Always true: a PyG model's dropout draws from this worker's generator, whose state must be saved."""
        return True

    def state(self) -> dict[str, Tensor]:
        """The state of the exchange and of this worker's generators, and the counts of modules that draw."""
        passes = {f"passes.{name}": torch.tensor(module.passes) for name, module in self._dropping()}
        return self.exchange.state() | passes | generator_states(self.exchange.device)

    def load_state(self, state: dict[str, Tensor]) -> None:
        """Go on from the ``state`` that :meth:`state` returned."""
        for name, module in self._dropping():
            module.passes = int(state[f"passes.{name}"])
        restore_generators(state, self.exchange.device)
        own = ("passes.", "random")
        self.exchange.load_state({name: value for name, value in state.items() if not name.startswith(own)})

    def whole_rows(self, name: str, value: Tensor) -> Tensor:
        """``value`` of a weight with a row for each node, with the rows of all nodes in the user's order."""
        attached = state_of(self._own)
        return attached.tables.whole(value, attached.weights.dims[name.removeprefix(PREFIX)])

    def own_rows(self, name: str, value: Tensor) -> Tensor:
        """The rows of this worker's nodes of what :meth:`whole_rows` gave."""
        attached = state_of(self._own)
        return attached.tables.part(name, value, attached.weights.dims[name.removeprefix(PREFIX)])

    def start_afresh(self, epoch: int, seed: int) -> None:
        """Forget the exchange's state, and let this worker draw random numbers that no earlier epoch used."""
        super().start_afresh(epoch, seed)
        torch.manual_seed(stream_key(seed, epoch, 0, self.peers.rank) >> 1)
        for _, module in self._dropping():
            module.passes = epoch

    @contextmanager
    def watched(self, watch: Watch) -> Iterator[None]:
        """Let all modules of the user's model show ``watch`` what they compute, with the edges of the last pass."""
        for _, module in self._dropping():
            module.passes = max(0, module.passes - 1)
        with modules_watched(self._own, watch):
            yield

    def _dropping(self) -> list[tuple[str, DropEdges | Random]]:
        return [(name, module) for name, module in self.model.named_modules() if isinstance(module, DropEdges | Random)]


def own_runner(
    model: nn.Module,
    data: ShardData | HeteroShardData,
    config: Config,
    loss: LossFunction | None,
    inputs: Sequence[str],
    links: LinkTask | None = None,
    codec: RowCodec | None = None,
    node_weights: Sequence[str] | None = None,
    tell: Callable[[str], None] = silent,
) -> OwnRunner:
    """Attach ``model`` to the shard and wrap it for the training loop; it learns ``links`` if they are given.

    ``node_weights`` are the weights with a row for each node; None: they are guessed. ``tell`` gets a line on every
    choice of what need not travel.
    """
    attach(model, data, config, codec, node_weights)
    data.reduction.hand_over()
    decoder = None if links is None else links.decoder
    own = OwnModel(model, data, inputs, decoder)
    task: Learnt = links or Task.of(data.task_shard, config.task, data.passing.device)
    if links is None and loss is not None:
        task = OwnTask(**vars(task), function=loss, data=data)
    runner = OwnRunner(own, data, task)
    runner.savings.say(tell)
    return runner


def required_inputs(model: nn.Module, names: Sequence[str]) -> list[str]:
    """The parameters that ``model.forward`` must be given, all of them tensors of the graph."""
    parameters = inspect.signature(model.forward).parameters.values()
    needed = needed_inputs(model)
    optional = [p.name for p in parameters if p.default is not p.empty and p.name in names]
    unknown = [name for name in needed if name not in names]
    if unknown or not needed:
        raise InputError(
            f"forward of {type(model).__name__} takes {', '.join(needed) or 'nothing by name'}, the graph has "
            f"{', '.join(names)}; name what it is called with: inputs=('x', 'edge_index', ...)"
        )
    if optional:
        raise InputError(
            f"forward of {type(model).__name__} can do without {', '.join(optional)}, which the graph has; say what it "
            f"is called with: inputs={(*needed, *optional)!r}, or inputs={tuple(needed)!r} to leave it out"
        )
    return needed


def trained_weights(weights: dict[str, Tensor], prefix: str = PREFIX) -> dict[str, Tensor]:
    """The weights of a checkpoint whose names begin with ``prefix``, under the user's names, without the prefix."""
    return {name.removeprefix(prefix): value for name, value in weights.items() if name.startswith(prefix)}


def own_facts(model: nn.Module, runner: OwnRunner, config: Config) -> dict[str, Any]:
    """What `summary.json` says about a user's own model: what served its layers, and how its rows travelled."""
    paths = layer_paths(model)
    facts: dict[str, Any] = {
        "native_layers": [name for name, layer in paths.items() if layer.path == NATIVE],
        "layer_paths": {name: layer.record() for name, layer in paths.items()},
    }
    if runner.peers.size > 1:
        facts["overlap"] = overlap_by_layer(paths)
    if config.rate.decay >= 0 and runner.exchange.policy.decay is None:
        facts["rows_as_they_are"] = True
    return facts
