"""Weights with a row for each node: every worker keeps the rows of its own nodes, and ``state_dict`` has them all."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from halowire.errors import InputError
from halowire.pyg.edges import Edges
from halowire.wire import Transport

KEPT = 64
"""How many rows of a weight are kept to rehearse with."""


@dataclass(frozen=True)
class NodeWeights:
    """The weights of a model that have a row for each node.

    ``dims`` are the weights' names with the dimension that counts nodes; ``counters`` are the modules and attributes
    that hold the number of nodes, such as ``num_embeddings``.
    """

    dims: Mapping[str, int] = field(default_factory=dict)
    counters: tuple[tuple[str, str], ...] = ()

    @staticmethod
    def of(model: nn.Module, num_nodes: int, names: Sequence[str]) -> NodeWeights:
        """The weights ``names`` of ``model``, each of which has an extent of ``num_nodes``."""
        known = dict(model.named_parameters())
        for name in names:
            if name not in known or num_nodes not in known[name].shape:
                given = list(known[name].shape) if name in known else "no such weight"
                raise InputError(
                    f"node_weights names {name!r} ({given}), which must be a weight of the model with one row for each "
                    f"of the {num_nodes} nodes; its weights are {', '.join(known)}"
                )
        dims = {name: list(known[name].shape).index(num_nodes) for name in names}
        owners = {name.rpartition(".")[0] for name in names}
        counters = tuple(
            (place, key)
            for place, module in model.named_modules()
            for key, value in vars(module).items()
            if dims and type(value) is int and value == num_nodes and (place in owners or key == "num_nodes")
        )
        return NodeWeights(dims, counters)

    def keep(self, model: nn.Module, rows: Any) -> None:
        """Keep only ``rows`` of these weights of ``model``, in place: the parameters stay the same objects."""
        if not self.dims:
            return
        parameters = dict(model.named_parameters())
        for name, dim in self.dims.items():
            value = parameters[name].data
            parameters[name].data = value.index_select(dim, rows.to(value.device)).contiguous()
        self._count(model, rows.numel())

    def place(self, model: nn.Module, rows: Any) -> None:
        """Keep the owned ``rows`` of these weights, and let ``nn.Embedding`` find them by the nodes' own numbers."""
        self.keep(model, rows)
        for name in self.dims:
            module: Any = model.get_submodule(name.rpartition(".")[0])
            # An attribute of the instance comes before the method of its class; parameters stay.
            if isinstance(module, nn.Embedding):
                vars(module)["forward"] = partial(look_up, module, rows.to(module.weight.device))

    def shrunk(self, model: nn.Module) -> nn.Module:
        """A copy of ``model`` to rehearse with, which has few rows of these weights."""
        parameters = dict(model.named_parameters())
        # The memo stands in for a copy of the large tensors, which would be made only to be thrown away.
        memo = {id(parameters[name]): self._few(parameters[name], dim) for name, dim in self.dims.items()}
        return copy.deepcopy(model, memo)

    def resized(self, model: nn.Module, count: int, generator: torch.Generator) -> nn.Module:
        """A copy of ``model`` on the CPU for a graph of ``count`` nodes, with random rows like those of ``model``."""
        own = copy.deepcopy(model).cpu()
        parameters = dict(own.named_parameters())
        for name, dim in self.dims.items():
            given = parameters[name].data
            value = given.index_select(dim, torch.randint(given.shape[dim], (count,), generator=generator))
            parameters[name].data = value * (0.5 + torch.rand(value.shape, generator=generator)).to(value.dtype)
        self._count(own, count)
        return own

    def assembled(self, name: str, pieces: Sequence[Tensor], rows: Sequence[Tensor]) -> Tensor:
        """The ``pieces`` of a weight, or of its gradient, of which each worker has its ``rows``, as one tensor."""
        dim = self.dims[name]
        return torch.cat(list(pieces), dim).index_select(dim, torch.argsort(torch.cat(list(rows))))

    def shared(self, model: nn.Module) -> Iterator[nn.Parameter]:
        """The other weights of ``model``, which all workers have."""
        return (value for name, value in model.named_parameters() if name not in self.dims)

    def own(self, model: nn.Module) -> Iterator[nn.Parameter]:
        """These weights of ``model``."""
        return (value for name, value in model.named_parameters() if name in self.dims)

    def _count(self, model: nn.Module, count: int) -> None:
        for place, key in self.counters:
            setattr(model.get_submodule(place), key, count)

    @staticmethod
    def _few(value: nn.Parameter, dim: int) -> nn.Parameter:
        few = value.detach().narrow(dim, 0, min(KEPT, value.shape[dim])).clone()
        return nn.Parameter(few, value.requires_grad)


def guesses(model: nn.Module, num_nodes: int, names: Sequence[str] | None) -> tuple[list[NodeWeights], NodeWeights]:
    """Which weights of ``model`` may have a row for each node, to be tried in this order, and which if none can be.

    These are the weights ``names``, if they are given; else all weights with an extent of ``num_nodes``, or the
    embeddings among them, or none, since another extent may have the same size by chance. Weights of recurrent layers
    are never tried with another extent: torch reads them unchecked, past their end.
    """
    if names is not None:
        given = NodeWeights.of(model, num_nodes, names)
        return [given], given
    holders = {name: model.get_submodule(name.rpartition(".")[0]) for name, _ in model.named_parameters()}
    found = [
        name
        for name, value in model.named_parameters()
        if num_nodes in value.shape and not isinstance(holders[name], nn.RNNBase | nn.RNNCellBase)
    ]
    tables = [name for name in found if isinstance(holders[name], nn.Embedding)]
    choices = dict.fromkeys((tuple(found), tuple(tables), ()))
    return [NodeWeights.of(model, num_nodes, choice) for choice in choices], NodeWeights.of(model, num_nodes, tables)


def look_up(module: nn.Embedding, rows: Tensor, index: Tensor) -> Tensor:
    """``nn.Embedding`` of the nodes ``rows``: ``index`` holds all their numbers, or sources or targets of edges."""
    if not isinstance(index, Edges):
        if index.shape == rows.shape and torch.equal(index, rows):
            index = torch.arange(rows.numel(), device=rows.device)
        elif index.numel() and int(index.max()) >= rows.numel():
            raise InputError(
                "an nn.Embedding with a row for each node is called with nodes that other workers own; call it with "
                "the numbers of all nodes, data.n_id = torch.arange(num_nodes) from before the graph was cut, or read "
                "its weight, which holds the rows of this worker's nodes"
            )
    out: Tensor = nn.Embedding.forward(module, index)
    return out


class WholeTables:
    """Hooks that make ``state_dict`` of a distributed model hold the rows of all nodes, in the user's order."""

    def __init__(self, weights: NodeWeights, transport: Transport, rows: Tensor, num_nodes: int) -> None:
        self._weights = weights
        self._transport = transport
        self._rows = rows
        self._num_nodes = num_nodes

    def __deepcopy__(self, memo: dict[int, Any]) -> WholeTables:
        """Return the same object: a copied model has the same rows."""
        return self

    def watch(self, model: nn.Module) -> None:
        """Complete what ``state_dict`` of ``model`` gives, and pick the owned rows of what it loads."""
        for name, dim in self._weights.dims.items():
            place, _, key = name.rpartition(".")
            module: Any = model.get_submodule(place)
            module.register_state_dict_post_hook(partial(self._put_whole, key, dim))
            module.register_load_state_dict_pre_hook(partial(self._take_own, key, dim))

    def whole(self, value: Tensor, dim: int) -> Tensor:
        """``value``, which has this worker's rows along ``dim``, with the rows of all workers; all of them call it."""
        shape = list(value.shape)
        shape[dim] = self._num_nodes
        out = value.new_zeros(shape)
        out.index_copy_(dim, self._rows.to(value.device), value)
        where = "gathering of the weights of all nodes, for which all workers must call state_dict"
        return self._transport.all_reduce(out, where, account=None)

    def part(self, name: str, value: Tensor, dim: int) -> Tensor:
        """The rows of this worker's nodes of ``value``, which has the rows of all nodes along ``dim``."""
        if value.shape[dim] != self._num_nodes:
            raise InputError(
                f"{name} has shape {list(value.shape)}; dimension {dim} must have one entry for each of the "
                f"{self._num_nodes} nodes, as the state_dict of the plain or of a distributed model has"
            )
        return value.index_select(dim, self._rows.to(value.device))

    def _put_whole(self, key: str, dim: int, module: nn.Module, state: Any, prefix: str, metadata: object) -> None:
        state[prefix + key] = self.whole(state[prefix + key].detach(), dim)

    def _take_own(self, key: str, dim: int, module: nn.Module, state: Any, prefix: str, *_: object) -> None:
        if prefix + key in state:
            state[prefix + key] = self.part(prefix + key, state[prefix + key], dim)
