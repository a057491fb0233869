"""The rehearsal: a model on a small random graph, cut in two, must equal the plain model there, or it is refused."""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn

from halowire.exchange.in_process import InProcessTransport, run_threads
from halowire.kernels import InputError
from halowire.nn.foreign.edges import Edges, plain
from halowire.nn.foreign.native import use_native
from halowire.nn.foreign.prepare import spread_norms
from halowire.nn.foreign.shard_data import ShardData, cut_data
from halowire.nn.foreign.still import Still

NODES, EDGES, PARTS, ATTEMPTS = 26, 110, 2, 3
TOLERANCE = 1e-4


class UncheckableError(InputError):
    """The plain model itself fails on the small graph, so there is nothing to compare with."""


class Difference(Exception):  # noqa: N818
    """The cut model does not equal the plain one; the message says where."""


@dataclass
class Call:
    """What a model is called with: ``args`` and ``kwargs``, where a `Slot` stands for a tensor of the graph."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    data: ShardData
    samples: dict[str, tuple[str, Tensor]] = field(default_factory=dict)

    @staticmethod
    def of(args: tuple[Any, ...], kwargs: Mapping[str, Any], data: ShardData) -> Call:
        """Replace every tensor in a call by the name of a sample of its rows."""
        call = Call((), {}, data)
        edges = [value for value in (*args, *kwargs.values()) if isinstance(value, Edges)]
        num_edges = edges[0].shape[-1] if edges else data.edge_index.shape[1]
        call.args = tuple(call._slot(value, num_edges) for value in args)
        call.kwargs = {name: call._slot(value, num_edges) for name, value in kwargs.items()}
        return call

    def key(self) -> str:
        """The same for calls that differ in the values of their tensors only."""
        shapes = {
            name: (kind, value.dtype, tuple(value.shape[1:]), value.shape[0] == 0)
            for name, (kind, value) in self.samples.items()
        }
        return repr((self.args, self.kwargs, shapes))

    def on(self, graph: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The call on another graph, an object whose attributes are the samples."""
        return tuple(_fill(value, graph) for value in self.args), {k: _fill(v, graph) for k, v in self.kwargs.items()}

    def _slot(self, value: Any, num_edges: int) -> Any:
        if isinstance(value, ShardData):
            for name in value.keys:
                self._sample(name, getattr(value, name), value.edge_index.shape[1])
            return Slot("")
        if not isinstance(value, Tensor):
            return value
        name = "edge_index" if isinstance(value, Edges) else f"sample{len(self.samples)}"
        return Slot(name) if self._sample(name, value, num_edges) else value

    def _sample(self, name: str, value: Any, num_edges: int) -> bool:
        if isinstance(value, Edges):
            return len(value.sources) == 2
        if not isinstance(value, Tensor) or value.dim() == 0:
            return False
        known = [key for key in self.data.keys if getattr(self.data, key) is value]
        like_edge = any(key.startswith("edge_") for key in known) or (
            value.shape[0] == num_edges != self.data.num_nodes and not known
        )
        extent = num_edges if like_edge else self.data.num_nodes
        if value.shape[0] != extent:
            return False
        self.samples[name] = ("edge" if like_edge else "node", value)
        return True


@dataclass(frozen=True)
class Slot:
    """The place of a graph's tensor in a call; without a name, of the graph itself."""

    name: str


@dataclass
class Outcome:
    """What a pass gave: outputs in training and evaluation, traces of all modules, gradients, buffers."""

    outputs: list[Any]
    trace: list[tuple[str, Tensor]]
    gradients: dict[str, Tensor | None]
    buffers: dict[str, Tensor]
    rows: Tensor
    widths: list[int]


def rehearse(model: nn.Module, call: Call) -> list[int]:
    """Compare ``model`` with itself on a small graph cut in two; the widths of the coded exchanges of a pass.

    Forward in training and evaluation mode, all weight gradients and all buffers, element by element. A cut model
    that is right may still fail by chance (a sum that is almost zero before a ReLU), so the majority of three decides.
    """
    failures: list[Difference] = []
    for attempt in range(ATTEMPTS):
        try:
            widths = _attempt(model, call, attempt)
        except Difference as error:
            failures.append(error)
        if len(failures) > ATTEMPTS // 2:
            raise InputError(
                f"on a small random graph cut in two the model does not equal the whole model: {failures[0]}. "
                "A layer that looks at all nodes at once (pooling, a mean over the graph, a norm of its own) sees only "
                "the nodes of its worker: replace it, or train on one worker with plain PyG"
            ) from None
        if attempt + 1 - len(failures) > ATTEMPTS // 2 or (attempt == 0 and not failures):
            break
    return widths


def _attempt(model: nn.Module, call: Call, seed: int) -> list[int]:
    generator = torch.Generator().manual_seed(seed)
    graph, owner = _small(call, generator)
    weights: list[Tensor] = []
    want = _plain_pass(model, call, graph, weights, generator)
    rounding = _rounding(model, call, graph, weights, want)

    def work(transport: InProcessTransport) -> Outcome:
        part = cut_data(graph, owner, transport)
        own = copy.deepcopy(model)
        spread_norms(own, part.link)
        use_native(own)
        return _pass(own, call, part, [weight[part.rows] for weight in weights], part.rows)

    try:
        parts = run_threads(PARTS, work)
    except InputError:
        raise
    except Exception as error:
        raise InputError(f"the model runs on a whole graph, but not on a shard ({_short(error)})") from error
    _compare(want, parts, rounding)
    return list[int](parts[0].widths)


def _small(call: Call, generator: torch.Generator) -> tuple[dict[str, Any], Tensor]:
    """A random graph with rows sampled from the real one, so that their values are possible, and random owners."""

    def draw(high: int, *shape: int) -> Tensor:
        return torch.randint(max(high, 1), shape, generator=generator)

    edges = draw(NODES, 2, EDGES)
    if not bool((plain(call.data.edge_index)[0] == plain(call.data.edge_index)[1]).any()):
        edges[1] = torch.where(edges[0] == edges[1], (edges[1] + 1) % NODES, edges[1])
    graph: dict[str, Any] = {"edge_index": edges}
    for name, (kind, value) in call.samples.items():
        count = NODES if kind == "node" else EDGES
        if value.shape[0]:
            rows = value.detach()[draw(value.shape[0], count).to(value.device)].cpu().clone()
            if kind == "node" and rows.is_floating_point():
                # Equal rows, of a part of few nodes, would leave a norm nothing but rounding to divide by.
                rows *= 0.5 + torch.rand(rows.shape, generator=generator)
            graph[name] = rows
        else:
            graph[name] = torch.ones(count, *value.shape[1:], dtype=value.dtype)
    owner = (torch.rand(NODES, generator=generator) < 0.4).long()
    owner[:PARTS] = torch.arange(PARTS)
    return graph, owner


def _plain_pass(
    model: nn.Module, call: Call, graph: dict[str, Any], weights: list[Tensor], generator: torch.Generator | None
) -> Outcome:
    try:
        return _pass(copy.deepcopy(model), call, SimpleNamespace(**graph, num_nodes=NODES), weights, None, generator)
    except InputError:
        raise
    except Exception as error:
        raise UncheckableError(
            f"the model cannot be checked: it fails on a small random graph of {NODES} nodes ({_short(error)}); it "
            "must not depend on the number of nodes or on tensors that it was not called with"
        ) from error


def _pass(
    model: nn.Module, call: Call, graph: Any, weights: list[Tensor], rows: Tensor | None,
    generator: torch.Generator | None = None,
) -> Outcome:  # fmt: skip
    """Forward and backward in training mode, then forward in evaluation mode, on the CPU."""
    model.cpu()
    trace: list[tuple[str, Tensor]] = []
    for name, module in model.named_modules():
        module.register_forward_hook(_tracer(name, trace))
    args, kwargs = call.on(graph)
    count = NODES if rows is None else rows.numel()
    link = getattr(graph, "link", None)

    def run() -> Any:
        if link is not None:
            link.begin()
        with Still():
            return model(*args, **kwargs)

    model.train()
    with torch.enable_grad():
        outputs = _tensors(run(), count)
        widths = [] if link is None else list(link.coded_widths)
        differentiable = [value for value in outputs if value.requires_grad]
        if generator is not None:
            weights += [torch.randn(value.shape, generator=generator) for value in differentiable]
        for value, weight in zip(differentiable, weights, strict=True):
            value.backward(weight, retain_graph=True)  # type: ignore[no-untyped-call]
    model.eval()
    with torch.no_grad():
        outputs += _tensors(run(), count)
    return Outcome(
        [value.detach() for value in outputs],
        trace,
        {name: parameter.grad for name, parameter in model.named_parameters()},
        dict(model.named_buffers()),
        torch.arange(NODES) if rows is None else rows,
        widths,
    )


def _tracer(name: str, trace: list[tuple[str, Tensor]]) -> Any:
    def note(module: nn.Module, args: Any, out: Any) -> None:
        if isinstance(out, Tensor) and not isinstance(out, Edges):
            trace.append((f"{name} ({type(module).__name__})" if name else "the output", out.detach().clone()))

    return note


def _tensors(out: Any, count: int) -> list[Tensor]:
    """All tensors of an output; each must have one row per node."""
    if isinstance(out, dict):
        return [tensor for value in out.values() for tensor in _tensors(value, count)]
    if isinstance(out, tuple | list):
        return [tensor for value in out for tensor in _tensors(value, count)]
    if not isinstance(out, Tensor):
        return []
    if isinstance(out, Edges) or out.dim() == 0 or out.shape[0] != count:
        raise InputError(
            f"the model's output has shape {list(out.shape)} on {count} nodes; a distributed model gives one "
            "row per node: pool and reduce outside of it, over all workers (data.mean)"
        )
    return [out]


def _rounding(
    model: nn.Module, call: Call, graph: dict[str, Any], weights: list[Tensor], want: Outcome
) -> dict[str, float]:
    """How far the plain model's gradients are from themselves when the nodes are numbered backwards.

    A gradient that is zero, such as that of a bias before a norm, consists of rounding, and no more can be asked of it.
    """
    turned = {
        name: value.flip(0) if call.samples.get(name, ("", value))[0] == "node" else value
        for name, value in graph.items()
    }
    turned["edge_index"] = NODES - 1 - graph["edge_index"]
    again = _plain_pass(model, call, turned, [weight.flip(0) for weight in weights], None)
    return {
        name: float((again.gradients[name] - grad).abs().max())  # type: ignore[operator]
        for name, grad in want.gradients.items()
        if grad is not None and grad.numel()
    }


def _compare(want: Outcome, parts: list[Outcome], rounding: dict[str, float]) -> None:
    traces = [_numbered(part.trace) for part in parts]
    for key, value in _numbered(want.trace).items():
        # A layer's inner modules may be bypassed on a shard, where a native kernel serves it.
        pieces = [trace[key] for trace in traces if key in trace]
        is_rows = value.dim() > 0 and value.shape[0] == NODES and len(pieces) == len(parts)
        if is_rows and all(piece.shape[:1] == part.rows.shape for piece, part in zip(pieces, parts, strict=True)):
            _same(key[0], _assembled(value, pieces, parts), value)
    for number, value in enumerate(want.outputs):
        pieces = [part.outputs[number] for part in parts]
        _same("the output", _assembled(value, pieces, parts), value)
    given = [grad for grad in want.gradients.values() if grad is not None and grad.numel()]
    scale = max((float(grad.abs().max()) for grad in given), default=0.0)
    for name, grad in want.gradients.items():
        found = [part.gradients[name] for part in parts]
        if grad is None or any(piece is None for piece in found):
            if grad is not None and float(grad.abs().max()):
                raise Difference(f"the gradient of {name} is missing on a shard")
            continue
        total = torch.stack([piece for piece in found if piece is not None]).sum(0)
        # Rounding is small beside the other gradients; what is not small is a difference.
        _same(f"the gradient of {name}", total, grad, scale, min(10 * rounding.get(name, 0.0), 10 * TOLERANCE * scale))
    for name, value in want.buffers.items():
        for part in parts:
            if value.is_floating_point() and value.shape == part.buffers[name].shape:
                _same(f"the buffer {name}", part.buffers[name], value)


def _numbered(trace: list[tuple[str, Tensor]]) -> dict[tuple[str, int], Tensor]:
    """The results of every module by its name and the number of its call."""
    calls: dict[str, int] = defaultdict(int)
    found = {}
    for name, value in trace:
        found[name, calls[name]] = value
        calls[name] += 1
    return found


def _assembled(like: Tensor, pieces: list[Tensor], parts: list[Outcome]) -> Tensor:
    whole = torch.empty_like(like)
    for piece, part in zip(pieces, parts, strict=True):
        if piece.shape[1:] != like.shape[1:]:
            raise Difference(f"an output has rows of shape {list(piece.shape[1:])}, expected {list(like.shape[1:])}")
        whole[part.rows] = piece
    return whole


def _same(name: str, got: Tensor, want: Tensor, scale: float = 0.0, slack: float = 0.0) -> None:
    if not want.numel():
        return
    got, want = got.double(), want.double()
    worst = float((got - want).abs().max())
    limit = TOLERANCE * max(float(want.abs().max()), 0.1 * scale) + slack
    if not worst <= limit and not torch.equal(got.nan_to_num(), want.nan_to_num()):
        raise Difference(f"{name} differs by {worst:.2g}, of at most {float(want.abs().max()):.2g}")


def _fill(value: Any, graph: Any) -> Any:
    if not isinstance(value, Slot):
        return value
    return getattr(graph, value.name) if value.name else graph


def _short(error: Exception) -> str:
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0] if text else 'no message'}"
