"""A trial of the rehearsal repeats a call of the model on another graph; dropout is off, other draws are refused."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from halowire.errors import InputError
from halowire.pyg.adjacency import Adjacency
from halowire.pyg.data_part import ShardData, holds_graph, standing_in
from halowire.pyg.drop_edges import DropEdges
from halowire.pyg.edges import Edges
from halowire.pyg.hetero_data import HeteroShardData
from halowire.pyg.hetero_trial import HeteroSlots
from halowire.pyg.home_rows import Home, bare, changing, drops_by_node
from halowire.pyg.layer_sums import Noted, steady_sums
from halowire.pyg.leaves import leaves
from halowire.pyg.model_pass import ModelPass
from halowire.pyg.outputs import Belongs, Held, Output
from halowire.pyg.own_rows import plain
from halowire.pyg.pair_trial import label_of, name_among, pairs_called, shape_of
from halowire.pyg.pairs import Pairs, pair_names, refuse_ends
from halowire.pyg.row_numbers import RowNumbers
from halowire.pyg.slots import Slot, fill, form
from halowire.training import FirstLayer

DRAWS = {
    "rand", "rand_like", "randn", "randn_like", "randint", "randint_like", "randperm", "bernoulli", "bernoulli_",
    "uniform_", "normal", "normal_", "random_", "exponential_", "multinomial", "poisson", "cauchy_", "geometric_",
    "log_normal_", "rrelu", "rrelu_",
}  # fmt: skip
"""Functions that draw random numbers, other than dropout."""


def needed_inputs(model: nn.Module) -> list[str]:
    """The names of the parameters that ``model.forward`` must be given; that of ``GAE`` stands for its encoder's."""
    parameters = inspect.signature(model.forward).parameters.values()
    encoder = getattr(model, "encoder", None)
    if isinstance(encoder, nn.Module) and all(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in parameters):
        return needed_inputs(encoder)
    return [p.name for p in parameters if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD]


@dataclass
class Call:
    """The arguments of a call, ``args`` and ``kwargs``, where a `Slot` stands for a tensor of the graph.

    ``samples`` are the tensors of the graph by name, each with its kind: ``node``, ``edge``, ``pair`` for pairs of
    nodes and ``label`` for what has a row for each of these; in a graph of several types, the kind is the type of the
    nodes or edges. ``entry`` is the path from the model to what is called: empty for
    the model itself, else a method or a module of it (``encode``). ``doubt`` says why the call must be refused.
    """

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    data: ShardData | HeteroShardData
    samples: dict[str, tuple[Any, Tensor]] = field(default_factory=dict)
    entry: str = ""
    doubt: InputError | None = None

    @staticmethod
    def of(
        args: tuple[Any, ...], kwargs: Mapping[str, Any], data: ShardData | HeteroShardData, entry: str = ""
    ) -> Call:
        """The call with a `Slot` in place of every tensor that has one row for each node or edge.

        A call without edges reads them from the part itself, which stands outside of the model.
        """
        if isinstance(data, HeteroShardData):
            slots = HeteroSlots(data)
            filled = slots.of(args), {name: slots.of(value, name) for name, value in kwargs.items()}
            return Call(*filled, data, slots.samples, entry, slots.doubt)
        call = Call((), {}, data, entry=entry)
        edges = [value for value in (*args, *kwargs.values()) if isinstance(value, Edges)]
        num_edges = edges[0].shape[-1] if edges else data.edge_index.shape[1]
        call.args = tuple(call._slot(value, num_edges) for value in args)
        call.kwargs = {name: call._slot(value, num_edges) for name, value in kwargs.items()}
        if not holds_graph((args, kwargs)):
            call._slot(data, num_edges)
        return call

    def function(self, model: nn.Module) -> Callable[..., Any]:
        """What is called: ``model``, or a method or a module of it."""
        found: Callable[..., Any] = attrgetter(self.entry)(model) if self.entry else model
        return found

    def key(self) -> str:
        """A text that is equal for calls that differ only in the values of their tensors and numbers.

        Features that never change need no exchange, and others do, so that they make other calls.
        """
        shapes = {
            name: (kind, value.dtype, *shape_of(kind, value), value.requires_grad)
            for name, (kind, value) in self.samples.items()
        }
        return repr((self.entry, str(self.doubt), form(self.args), form(self.kwargs), shapes, self.kept_names))

    @property
    def with_gradient(self) -> dict[str, str]:
        """Names and kinds of the graph's tensors whose gradient is asked for."""
        asked = {name: kind for name, (kind, value) in self.samples.items() if value.requires_grad}
        if asked and isinstance(self.data, HeteroShardData):
            raise InputError(
                f"the model is called with {next(iter(asked))} that requires a gradient, which is not supported for "
                "graphs of several types; make it a weight of the model"
            )
        return asked

    @property
    def kept_names(self) -> list[str]:
        """Names of the graph's tensors whose halo rows are kept: features that never change."""
        if not isinstance(self.data, ShardData):
            return []
        return [name for name, (_, value) in self.samples.items() if self.data.bridge.keeps(value)]

    def on(self, graph: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """``args`` and ``kwargs`` with the tensors of another ``graph``, which has them as attributes."""
        args = tuple(fill(value, graph) for value in self.args)
        return args, {name: fill(value, graph) for name, value in self.kwargs.items()}

    def _slot(self, value: Any, num_edges: int) -> Any:
        if isinstance(value, ShardData):
            for name in value.keys:
                self._sample(name, getattr(value, name), value.edge_index.shape[1])
            return Slot("")
        if isinstance(value, Pairs):
            return Slot(self._pairs(value))
        if isinstance(value, Adjacency):
            name = next(
                (key for key in self.data.keys if self.data[key] is value), "adj_t" if value.by_target else "adj"
            )
            self._sample(name, value, num_edges)
            return Slot(name)
        if not isinstance(value, Tensor):
            return value
        label = label_of(self.data.tensors, value) if isinstance(self.data, ShardData) else None
        if label is not None:
            return Slot(self._label(label, value))
        name = "edge_index" if isinstance(value, Edges) else f"sample{len(self.samples)}"
        return Slot(name) if self._sample(name, value, num_edges) else value

    def _pairs(self, value: Pairs) -> str:
        """Add pairs of nodes to the samples; return their name."""
        refuse_ends(value)
        assert isinstance(self.data, ShardData)
        name = name_among(self.data.tensors, value, f"sample{len(self.samples)}")
        self.samples[name] = ("pair", value)
        return name

    def _label(self, name: str, value: Tensor) -> str:
        """Add the labels of pairs to the samples, and the pairs themselves; return their name."""
        assert isinstance(self.data, ShardData)
        self._pairs(self.data.tensors[pair_names(self.data.tensors)[name]])
        self.samples[name] = ("label", value)
        return name

    def _sample(self, name: str, value: Any, num_edges: int) -> bool:
        """Add ``value`` to the samples; return False if it is no tensor of the graph."""
        assert isinstance(self.data, ShardData)
        if isinstance(value, Pairs):
            return bool(self._pairs(value))
        if label_of(self.data.tensors, value) is not None:
            return bool(self._label(name, value))
        if isinstance(value, Adjacency):
            weight = value.value
            self.samples[name] = ("edge", torch.ones(num_edges) if weight is None else weight)
            return True
        if isinstance(value, Edges):
            return len(value.sources) == 2
        return isinstance(value, Tensor) and value.dim() > 0 and self._rows(name, value, num_edges)

    def _rows(self, name: str, value: Tensor, num_edges: int) -> bool:
        """Add ``value`` to the samples if it has one row for each node or edge."""
        num_nodes = self.data.num_nodes
        assert isinstance(self.data, ShardData)
        known = [key.startswith("edge_") for key in self.data.keys if getattr(self.data, key) is value]
        like_edge = any(known) if known else value.shape[0] == num_edges != num_nodes
        if value.shape[0] != (num_edges if like_edge else num_nodes):
            return False
        self.samples[name] = ("edge" if like_edge else "node", plain(value))
        return True


@dataclass
class Notes:
    """What was noted while passes ran.

    ``numbers`` are all numbers that torch was given: each may be the number of a node or of an edge. ``drops`` has an
    entry for each dropout that would have dropped values: how many exchanges came before it.
    """

    numbers: set[float] = field(default_factory=set)
    drops: set[int] = field(default_factory=set)


@dataclass(frozen=True)
class Rehearsed:
    """What is known of a kind of call: the ``widths`` of its coded exchanges, whether values or edges are dropped
    before one of them (``drops``), and the names of the ``halos`` whose rows they carry.

    ``saved`` are the widths of the exchanges that are not needed because workers compute the rows of their halo
    themselves. ``summing`` are the names of the layers that get the same edges and weights in every pass, so that
    partial sums can travel to them, ``sums`` the numbers of their coded exchanges.
    ``forms`` say what the outputs belong to, in training and in evaluation. ``summed`` and ``drawn`` are those of
    `Home`, ``sums_anew`` says that sums of features would come from their owners in every pass. ``at_home`` is what is
    known with the halo's rows computed at home, where that is still to be chosen, and ``first`` the choice.
    """

    widths: tuple[int, ...]
    drops: bool
    halos: tuple[str, ...] = ()
    forms: tuple[tuple[Belongs, ...], ...] = field(default=((), ()), compare=False)
    saved: tuple[int, ...] = ()
    summing: tuple[str, ...] = ()
    sums: tuple[int, ...] = ()
    summed: bool = False
    drawn: bool = False
    sums_anew: bool = False
    at_home: Rehearsed | None = field(default=None, compare=False)
    first: FirstLayer | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Size:
    """How large a random graph is, and whether ``gradients`` are compared on it."""

    nodes: int
    edges: int
    gradients: bool


@dataclass
class Outcome:
    """The results of a pass over the nodes ``rows``.

    ``outputs`` are the outputs in training and evaluation, and the gradients of the graph's tensors; ``trace`` holds
    the results of all modules by name and number of the call; ``gradients`` and ``buffers`` are those of the model.
    """

    outputs: list[Output]
    trace: dict[tuple[str, int], Tensor]
    gradients: dict[str, Tensor | None]
    buffers: dict[str, Tensor]
    rows: RowNumbers
    known: Rehearsed


def try_pass(
    model: nn.Module, call: Call, graph: Any, rows: RowNumbers, size: Size, notes: Notes, at_home: bool = False
) -> Outcome:
    """Run forward and, if asked for, backward in training mode, then forward in evaluation mode, on the CPU.

    Args:
        model: the model; it is changed by the pass.
        call: what the model is called with.
        graph: the tensors of ``call`` as attributes: a part of a graph, or a whole one.
        rows: the numbers of the graph's nodes in the whole graph.
        size: the size of the whole graph.
        notes: takes the notes of this pass.
        at_home: whether a worker computes the rows of its halo itself, where it can.
    """
    model.cpu()
    trace: dict[tuple[str, int], Tensor] = {}
    for name, module in model.named_modules():
        module.register_forward_hook(_tracer(name, trace))
    leaf_tensors = {name: getattr(graph, name).detach().clone().requires_grad_() for name in call.with_gradient}
    for name, leaf in leaf_tensors.items():
        setattr(graph, name, leaf)
    if at_home and isinstance(graph, ShardData):
        for name in call.kept_names:
            graph.bridge.keep(plain(getattr(graph, name)))
    passing: ModelPass | None = getattr(graph, "passing", None)

    held = Held.of(graph, rows, size.nodes, size.edges, pairs_called(call.samples, graph))

    passes: list[list[Noted]] = []  # of a part; the whole graph has no other workers

    def run() -> list[Output]:
        home = Home(graph.bridge) if at_home and isinstance(graph, ShardData) else None
        given = call.on(graph)  # anew for each pass: a model may change the dictionaries that it is called with
        given = given if home is None else home.welcome(given)
        if passing is not None:
            passing.begin(home=home)
            noted: list[Noted] = []
            passing.noted = noted if isinstance(graph, ShardData) else None
            passes.append(noted)
        with Still(notes, lambda: 0 if passing is None else len(passing.coded_widths)):
            with standing_in(call.data, graph):
                out = call.function(model)(*given[0], **given[1])
            return held.outputs(bare(out))

    model.train()
    with torch.set_grad_enabled(size.gradients):
        outputs = run()
        known = _known(model, passing, notes)
        # Backward starts from a weighted sum of all outputs; the weights are random and depend on the node or edge.
        generator = torch.Generator().manual_seed(size.nodes)
        for output in outputs:
            if output.values.requires_grad:
                output.values.backward(output.weights(generator), retain_graph=True)  # type: ignore[no-untyped-call]
    given = [
        _gradient_of(leaf, held, kind)
        for leaf, kind in zip(leaf_tensors.values(), call.with_gradient.values(), strict=True)
    ]
    model.eval()
    with torch.no_grad():
        evaluated = run()
    summing, sums = steady_sums(passes) if passes else ((), ())
    forms = tuple(tuple(output.belongs for output in found) for found in (outputs, evaluated))
    # What the pass before it did not leave behind would travel in every pass.
    anew = passing is not None and passing.home is not None and passing.home.sums_anew
    known = replace(known, forms=forms, summing=summing, sums=sums, sums_anew=anew)
    gradients = {name: _dense(parameter.grad) for name, parameter in model.named_parameters()}
    everything = [replace(output, values=output.values.detach()) for output in (*outputs, *given, *evaluated)]
    return Outcome(everything, trace, gradients, dict(model.named_buffers()), rows, known)


def _gradient_of(leaf: Tensor, held: Held, kind: str) -> Output:
    """The gradient of a tensor of the graph, whose rows are nodes or edges."""
    grad = torch.zeros_like(leaf) if leaf.grad is None else leaf.grad
    found = held.of_nodes(grad) if kind == "node" else held.of_edges(grad)
    assert found is not None
    return found


def _dense(grad: Tensor | None) -> Tensor | None:
    return grad.to_dense() if grad is not None and grad.is_sparse else grad


class Still(TorchFunctionMode):
    """Inside the block, dropout returns its input and every other random draw is refused; ``notes`` are taken.

    ``count_exchanges`` tells how many exchanges the pass has had so far.
    """

    def __init__(self, notes: Notes, count_exchanges: Callable[[], int]) -> None:
        super().__init__()
        self._notes = notes
        self._count_exchanges = count_exchanges

    def __torch_function__(
        self, func: Callable[..., Any], types: Sequence[type], args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Call ``func``, unless it draws random numbers."""
        kwargs, name = kwargs or {}, getattr(func, "__name__", "")
        if "dropout" in name:
            given = args[0] if args else kwargs["input"]
            if _drops(args, kwargs):
                self._notes.drops.add(self._count_exchanges())
                # Any other dropout gives the owned rows alone, drawn by torch.
                return changing(given) if drops_by_node(name, args, kwargs) else bare(given)
            return given
        if name in DRAWS:
            raise InputError(
                f"the model's forward draws random numbers (torch's `{name}`), and every worker would draw others; for "
                "randomly dropped edges use halowire.DropEdges, for dropped values torch's dropout, for numbers of "
                "nodes and edges, shuffled rows and negative pairs halowire.Random; draw anything else before forward"
            )
        for value in leaves((args, kwargs)):
            numbers = (value.start, value.stop) if isinstance(value, slice) else (value,)
            self._notes.numbers.update(number for number in numbers if isinstance(number, int | float))
        return func(*args, **kwargs)


def _drops(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether a call of dropout, with ``(input, p, training)`` by position or by name, drops any value."""
    p = kwargs.get("p", args[1] if len(args) > 1 else 0.5)
    training = kwargs.get("training", kwargs.get("train", args[2] if len(args) > 2 else True))
    return bool(training) and p > 0


def _known(model: nn.Module, passing: ModelPass | None, notes: Notes) -> Rehearsed:
    widths = () if passing is None else tuple(passing.coded_widths)
    halos = () if passing is None else tuple(passing.coded_halos)
    drops_edges = any(isinstance(module, DropEdges) and module.p > 0 for module in model.modules())
    drops_values = min(notes.drops, default=len(widths)) < len(widths)
    home = None if passing is None else passing.home
    known = Rehearsed(widths, bool(widths) and (drops_edges or drops_values), halos)
    if home is None:
        return known
    return replace(known, saved=tuple(home.saved), summed=home.summed, drawn=home.drawn)


def _tracer(name: str, trace: dict[tuple[str, int], Tensor]) -> Callable[[nn.Module, Any, Any], None]:
    calls = itertools.count()

    def note(module: nn.Module, args: Any, out: Any) -> None:
        if isinstance(out, Tensor) and not isinstance(out, Edges):
            label = f"{name} ({type(module).__name__})" if name else "the output"
            trace[label, next(calls)] = bare(out).detach().clone()

    return note
