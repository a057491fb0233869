"""One pass of the rehearsal, without chance and watched: dropout does nothing, other random draws are refused."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from halowire.errors import InputError
from halowire.pyg.bridge import Bridge
from halowire.pyg.call import Call
from halowire.pyg.drop_edges import DropEdges
from halowire.pyg.edges import Edges
from halowire.pyg.nested import leaves

DRAWS = {
    "rand", "rand_like", "randn", "randn_like", "randint", "randint_like", "randperm", "bernoulli", "bernoulli_",
    "uniform_", "normal", "normal_", "random_", "exponential_", "multinomial", "poisson", "cauchy_", "geometric_",
    "log_normal_", "rrelu", "rrelu_",
}  # fmt: skip
"""Functions that draw random numbers, other than dropout."""


@dataclass
class Notes:
    """What passes were seen to do.

    ``numbers`` are all that torch was handed: one of them may be the number of a node or of an edge. ``drops`` has an
    entry for each dropout that would have dropped values: how many exchanges came before it.
    """

    numbers: set[float] = field(default_factory=set)
    drops: set[int] = field(default_factory=set)


@dataclass(frozen=True)
class Rehearsed:
    """What is known of a kind of call: the ``widths`` of its coded exchanges, and whether values or edges are dropped
    before one of them (``drops``)."""

    widths: tuple[int, ...]
    drops: bool


@dataclass
class Outcome:
    """What a pass over the nodes ``rows`` gave.

    ``outputs`` are those of training and evaluation, and gradients of node tensors; ``trace`` are the results of all
    modules by name, ``gradients`` and ``buffers`` those of the model.
    """

    outputs: list[Tensor]
    trace: list[tuple[str, Tensor]]
    gradients: dict[str, Tensor | None]
    buffers: dict[str, Tensor]
    rows: Tensor
    known: Rehearsed


def try_pass(
    model: nn.Module, call: Call, graph: Any, rows: Tensor, weights: list[Tensor], *,
    with_backward: bool, generator: torch.Generator | None = None, notes: Notes | None = None,
) -> Outcome:  # fmt: skip
    """Forward and, if asked for, backward in training mode, then forward in evaluation mode, on the CPU.

    Args:
        model: the model; it is changed by the pass.
        call: what the model is called with.
        graph: the tensors of ``call`` as attributes: a part of a graph, or a whole one.
        rows: the numbers of the graph's nodes in the whole graph.
        weights: of the sum of each output's entries that is differentiated; one tensor in the shape of each output.
        with_backward: whether there are gradients.
        generator: draws ``weights``, which are empty so far.
        notes: what is seen is noted here.
    """
    model.cpu()
    trace: list[tuple[str, Tensor]] = []
    for name, module in model.named_modules():
        module.register_forward_hook(_tracer(name, trace))
    leaf_tensors = {name: getattr(graph, name).detach().clone().requires_grad_() for name in call.with_gradient}
    for name, leaf in leaf_tensors.items():
        setattr(graph, name, leaf)
    args, kwargs = call.on(graph)
    bridge: Bridge | None = getattr(graph, "bridge", None)
    seen = notes or Notes()

    def run() -> list[Tensor]:
        if bridge is not None:
            bridge.begin()
        with Still(seen, lambda: 0 if bridge is None else len(bridge.coded_widths)):
            return _rows(model(*args, **kwargs), rows.numel())

    model.train()
    with torch.set_grad_enabled(with_backward):
        outputs = run()
        known = _known(model, () if bridge is None else tuple(bridge.coded_widths), seen)
        differentiable = [value for value in outputs if value.requires_grad]
        if generator is not None:
            weights += [torch.randn(value.shape, generator=generator) for value in differentiable]
        for value, weight in zip(differentiable, weights, strict=True):
            value.backward(weight, retain_graph=True)  # type: ignore[no-untyped-call]
    outputs += [
        torch.zeros_like(leaf) if leaf.grad is None else leaf.grad
        for name, leaf in leaf_tensors.items()
        if call.with_gradient[name] == "node"
    ]
    model.eval()
    with torch.no_grad():
        outputs += run()
    gradients = {name: parameter.grad for name, parameter in model.named_parameters()}
    return Outcome([value.detach() for value in outputs], trace, gradients, dict(model.named_buffers()), rows, known)


class Still(TorchFunctionMode):
    """Inside the block, dropout gives its input back and every other draw is refused; ``notes`` are taken.

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
            if _drops(args, kwargs):
                self._notes.drops.add(self._count_exchanges())
            return args[0] if args else kwargs["input"]
        if name in DRAWS:
            raise InputError(
                f"the model's forward draws random numbers (torch's `{name}`), and every worker would draw others; for "
                "randomly dropped edges use halowire.DropEdges, for dropped values torch's dropout; draw anything else "
                "before the forward"
            )
        for value in leaves((args, kwargs)):
            numbers = (value.start, value.stop) if isinstance(value, slice) else (value,)
            self._notes.numbers.update(number for number in numbers if isinstance(number, int | float))
        return func(*args, **kwargs)


def _drops(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether a call of dropout, ``(input, p, training)`` by place or by name, drops anything."""
    p = kwargs.get("p", args[1] if len(args) > 1 else 0.5)
    training = kwargs.get("training", kwargs.get("train", args[2] if len(args) > 2 else True))
    return bool(training) and p > 0


def _known(model: nn.Module, widths: tuple[int, ...], notes: Notes) -> Rehearsed:
    drops_edges = any(isinstance(module, DropEdges) and module.p > 0 for module in model.modules())
    drops_values = min(notes.drops, default=len(widths)) < len(widths)
    return Rehearsed(widths, bool(widths) and (drops_edges or drops_values))


def _tracer(name: str, trace: list[tuple[str, Tensor]]) -> Callable[[nn.Module, Any, Any], None]:
    def note(module: nn.Module, args: Any, out: Any) -> None:
        if isinstance(out, Tensor) and not isinstance(out, Edges):
            trace.append((f"{name} ({type(module).__name__})" if name else "the output", out.detach().clone()))

    return note


def _rows(out: Any, count: int) -> list[Tensor]:
    """All tensors of an output; each must have one row for each of ``count`` nodes."""
    found = [leaf for leaf in leaves(out) if leaf is not None]
    for value in found:
        if not isinstance(value, Tensor):
            raise InputError(
                f"the model's forward gives {type(value).__name__}, which cannot be compared; give a tensor, or "
                "tuples, lists and dictionaries of tensors and None"
            )
        if isinstance(value, Edges) or value.dim() == 0 or value.shape[0] != count:
            raise InputError(
                f"the model's output has shape {list(value.shape)} on {count} nodes; a distributed model gives one "
                "row per node: pool and reduce outside of it, over all workers (data.mean)"
            )
    if not found:
        raise InputError("the model's forward gives no tensor; a distributed model gives one row per node")
    return found
