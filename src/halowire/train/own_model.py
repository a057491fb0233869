"""A model of the user's own in the training loop: what the loop asks of a model, a view and a task."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from halowire.exchange import HaloExchange
from halowire.kernels import InputError
from halowire.nn.foreign.distributed import distribute, state_of
from halowire.nn.foreign.shard_data import ShardData
from halowire.nn.step import Step
from halowire.partition import Shard
from halowire.train.config import Config
from halowire.train.distribute import wire_policy
from halowire.train.task import Task

LossFunction = Callable[[Tensor, ShardData], Tensor]
"""``loss(out, data)`` gives one value for each of this worker's rows that count, or several."""
PREFIX = "model."


class OwnModel(nn.Module):
    """The user's model, called by the loop as the library's own models are."""

    def __init__(self, model: nn.Module, data: ShardData, inputs: Sequence[str]) -> None:
        super().__init__()
        self.model = model
        self._data, self._inputs = data, tuple(inputs)

    def call_inputs(self) -> tuple[Tensor, ...]:
        """What the model is called with."""
        return tuple(getattr(self._data, name) for name in self._inputs)

    def forward(self, features: object, step: Step) -> Tensor:
        """Output of the owned rows, ``[n, C]``."""
        self.model.train(step.training)
        state_of(self.model).epoch = step.epoch
        out = self.model(*self.call_inputs())
        if not isinstance(out, Tensor) or out.dim() != 2:
            raise InputError(f"the model gives {type(out).__name__}; fit needs one tensor [nodes, classes]")
        return out


@dataclass(frozen=True, eq=False)
class OwnTask(Task):
    """A task with a loss of the user's own."""

    function: LossFunction | None = None
    data: ShardData | None = None

    def loss(self, logits: Tensor) -> Tensor:
        """This worker's share: the sum of its values, divided by the number of all workers' values."""
        if self.function is None or self.data is None:
            return super().loss(logits)
        values = self.function(logits, self.data)
        if not isinstance(values, Tensor) or values.dim() == 0:
            raise InputError("the loss must give one value per row, which halowire averages; use reduction='none'")
        count = self.data.transport.all_reduce(torch.tensor([float(values.numel())]), "count of the loss's rows")
        return values.sum() / float(count)


@dataclass(frozen=True, eq=False)
class _Width:
    num_cols: int


@dataclass(frozen=True, eq=False)
class _OwnFeatures:
    own: _Width


@dataclass(frozen=True, eq=False)
class _OwnSpread:
    exchange: HaloExchange


@dataclass(frozen=True, eq=False)
class OwnView:
    """What the loop looks at where the library's models have a `View`."""

    shard: Shard
    spread: _OwnSpread
    features: _OwnFeatures
    task: Task
    ids: Tensor

    def step(self, seed: int = 0, epoch: int = 0, training: bool = False) -> Step:
        """The context of one pass; a model of one's own finds its graph in its inputs."""
        nothing: Any = None
        return Step(nothing, self.ids, seed, epoch, training)


def own_view(
    model: nn.Module, data: ShardData, config: Config, loss: LossFunction | None, inputs: Sequence[str] | None
) -> tuple[OwnModel, OwnView]:
    """Distribute ``model`` over the shard and wrap both for the training loop."""
    distribute(model, data, wire_policy(config))
    data.reduction.hand_over()
    own = OwnModel(model, data, inputs or required_inputs(model, data.keys))
    device = data.link.device
    exchange = state_of(model).exchange_of(own.call_inputs())
    task = Task.of(data.shard, config.task.metric, device)
    if loss is not None:
        task = OwnTask(task.y, task.masks, task.train_rows, task.train_count, task.metric, loss, data)
    width = data.shard.num_features
    view = OwnView(data.shard, _OwnSpread(exchange), _OwnFeatures(_Width(width)), task, data.shard.ids.to(device))
    return own, view


def required_inputs(model: nn.Module, names: Sequence[str]) -> list[str]:
    """The parameters that ``model.forward`` must be given, all of them tensors of the graph."""
    parameters = inspect.signature(model.forward).parameters.values()
    needed = [p.name for p in parameters if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD]
    unknown = [name for name in needed if name not in names]
    if unknown or not needed:
        raise InputError(
            f"forward of {type(model).__name__} takes {', '.join(needed) or 'nothing by name'}, the graph has "
            f"{', '.join(names)}; name what it is called with: inputs=('x', 'edge_index', ...)"
        )
    return needed


def trained_weights(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """The user's names of the weights of a checkpoint."""
    return {name.removeprefix(PREFIX): value for name, value in weights.items()}
