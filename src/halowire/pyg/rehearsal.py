"""The rehearsal runs a model on a small random graph, cut in two; it must equal the plain model, or it is refused."""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn

from halowire.errors import InputError
from halowire.partitioning import is_by_target, target_order
from halowire.pyg.adjacency import NAMES as SPARSE
from halowire.pyg.adjacency import plain_adjacency, take_adjacency
from halowire.pyg.data_part import ShardData
from halowire.pyg.edges import unmarked
from halowire.pyg.fast_path import use_fast_paths
from halowire.pyg.hetero_data import HeteroShardData, cut_hetero
from halowire.pyg.hetero_trial import draw_hetero, part_rows, sampled_rows, turn_hetero, whole_rows
from halowire.pyg.node_weights import NodeWeights
from halowire.pyg.outputs import Output, assembled
from halowire.pyg.pair_trial import PARTS, draw_pairs, pairs_of
from halowire.pyg.row_numbers import RowNumbers, TypedRows, numbers_in_part, numbers_of_whole
from halowire.pyg.shard_data import cut_data
from halowire.pyg.trial import Call, Notes, Outcome, Rehearsed, Size, try_pass
from halowire.pyg.whole_layers import spread_norms
from halowire.wire import InProcessTransport, run_threads

NODES = 26
EDGES = 110
"""Size of the small graph, on which gradients are compared too."""
ATTEMPTS = 3
TOLERANCE = 1e-4
"""Largest difference, relative to the largest value of a tensor."""
FULL_SIZE = 2048
"""A model whose real graph has at most this many nodes is also compared on graphs up to that size."""
SHARE = 0.4
"""Share of the nodes that belong to the second part."""
GROWTH = 2.4
"""How much larger each graph is than the one before; a model that branches on the number of nodes differs on one."""
LARGEST = 2**20
"""Numbers up to this one are tried on a graph that has nodes below and above them."""


class UncheckableError(InputError):
    """The plain model itself fails on the small graph, so there is nothing to compare with."""


class Difference(Exception):  # noqa: N818
    """The cut model does not equal the plain one; the message says where."""


SMALL = Size(NODES, EDGES, gradients=True)


def rehearse(
    model: nn.Module,
    call: Call,
    most: int,
    weights: NodeWeights,
    at_home: bool = False,
    enough: Callable[[Rehearsed], bool] | None = None,
) -> Rehearsed:
    """Compare ``model`` on whole random graphs and on the same graphs cut in two; return what is known of such a call.

    On a small graph, forward in training and evaluation mode, all weight gradients and all buffers are compared,
    element by element. A graph of 26 nodes does not show what a model does with the number 1000, so outputs are also
    compared on ever larger graphs. These grow to the size of the real graph, or until they have nodes below and above
    every number that the model hands to torch and that could be the number of a node or an edge: every number below
    ``most``, the nodes and edges of the whole graph. Those ``weights`` that have a row for each node get as many rows
    as the random graph has nodes. ``at_home``: workers compute the rows of their halo themselves, where they can.
    ``enough`` says whether what the smallest graph shows is all that is asked.
    """
    notes = Notes()
    model, call = _checkable(model, call)
    known = _majority(SMALL, lambda seed: _attempt(model, call, seed, SMALL, notes, weights, at_home))
    if enough is not None and enough(known):
        return known
    for size in _larger(_telling_size(notes.numbers, model, call, most)):
        _majority(size, lambda seed, size=size: _attempt(model, call, seed, size, Notes(), weights, at_home))  # type: ignore[misc]
    return known


def call_on_random(model: nn.Module, call: Call) -> None:
    """Call the plain ``model`` on a small random graph."""
    graph, _ = _random(call, torch.Generator().manual_seed(0), SMALL, numbered=False)
    where = next((value.device for value in model.parameters()), torch.device("cpu"))
    if isinstance(graph, dict):
        graph = SimpleNamespace(**{name: value.to(where) for name, value in graph.items()}, num_nodes=NODES)
    args, kwargs = call.on(graph)
    model(*args, **kwargs)


def in_thread(work: Callable[[], Rehearsed]) -> Rehearsed:
    """What ``work`` gives, or raises, in a thread of its own."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(work).result()


def _checkable(model: nn.Module, call: Call) -> tuple[nn.Module, Call]:
    """A float32 twin of a bf16 or float16 ``model`` and of its ``call``: rounding would hide what differs."""
    small = (torch.bfloat16, torch.float16)
    if all(value.dtype not in small for value in model.parameters()):
        return model, call
    samples = {
        name: (kind, value.float() if value.dtype in small else value) for name, (kind, value) in call.samples.items()
    }
    return copy.deepcopy(model).float(), replace(call, samples=samples)


def _larger(largest: int) -> Iterator[Size]:
    """Sizes up to ``largest``, in steps so small that a graph's smaller part has no more nodes than the last graph."""
    nodes = NODES
    while nodes < largest:
        nodes = min(int(nodes * GROWTH), largest)
        yield Size(nodes, 4 * nodes, gradients=False)


def _majority(size: Size, attempt: Callable[[int], Rehearsed]) -> Rehearsed:
    """The result of most attempts: a correct model may differ by chance, as where a sum before a ReLU is almost 0."""
    failures: list[Difference] = []
    known = Rehearsed((), False)
    for seed in range(ATTEMPTS):
        try:
            known = attempt(seed)
        except Difference as error:
            failures.append(error)
        if len(failures) > ATTEMPTS // 2:
            raise InputError(
                f"on a random graph of {size.nodes} nodes cut in two the model does not equal the whole model: "
                f"{failures[0]}. A layer that looks at all nodes at once (pooling, a mean over the graph, a norm of "
                "its own) sees only the nodes of its worker, and a constant in the code (x[:1000]) means other nodes "
                "on every worker: replace it, or train on one worker with plain PyG"
            ) from None
        if seed + 1 - len(failures) > ATTEMPTS // 2 or (seed == 0 and not failures):
            break
    return known


def _telling_size(numbers: set[float], model: nn.Module, call: Call, most: int) -> int:
    """How many nodes a graph needs to show the effect of every constant of the model that could be a node's number."""
    given = {int(abs(number)): isinstance(number, int) for number in numbers if NODES / 2 <= abs(number) < most}
    for name, buffer in model.named_buffers():
        if buffer.numel() and not buffer.is_floating_point() and not name.endswith("num_batches_tracked"):
            given.setdefault(int(buffer.abs().max()), False)
    large = [number for number, whole in given.items() if number > LARGEST and whole]
    if large:
        raise InputError(
            f"the model's forward uses the number {large[0]}, which could be that of a node, and a graph so large "
            "cannot be tried out; make it a feature or a mask of the nodes (data.kind) and pass that"
        )
    nodes = call.data.most_nodes
    full = min(nodes, FULL_SIZE)
    # A node's number needs a graph of more nodes; a number above all nodes can only be an edge's: four per node.
    beyond = [number for number in given if number <= LARGEST and number >= (full if number < nodes else 3 * full)]
    largest = max((number for number in beyond if number < most), default=0)
    return max(full, largest + largest // 4 + NODES if largest else 0)


def _attempt(
    model: nn.Module, call: Call, seed: int, size: Size, notes: Notes, weights: NodeWeights, at_home: bool
) -> Rehearsed:
    """Compare the model on one random graph of ``size``; raises `Difference` where the cut model differs."""
    generator = torch.Generator().manual_seed(seed)
    graph, owner = _random(call, generator, size, bool(weights.dims))
    model = weights.resized(model, size.nodes, generator)
    whole = torch.arange(size.nodes) if isinstance(graph, dict) else whole_rows(graph)
    want = _plain_pass(model, call, graph, whole, size, notes)
    rounding = _rounding(model, call, graph, want, weights) if size.gradients else {}

    def work(transport: InProcessTransport) -> Outcome:
        part, rows = _cut(graph, owner, transport)
        own = copy.deepcopy(model)
        weights.place(own, rows)
        spread_norms(own, part.passing)
        use_fast_paths(own)
        take_adjacency(own)
        return try_pass(own, call, part, rows, size, Notes(), at_home)

    try:
        parts = run_threads(PARTS, work)
    except InputError:
        raise
    except Exception as error:
        raise InputError(f"the model runs on a whole graph, but not on a shard ({_short(error)})") from error
    _compare(want, parts, rounding, weights)
    # Which list of edges an output follows shows on the whole graph, which has self loops if the real one has.
    known: Rehearsed = parts[0].known
    return replace(known, forms=want.known.forms)


def _cut(
    graph: Any, owner: Any, transport: InProcessTransport
) -> tuple[ShardData, Tensor] | tuple[HeteroShardData, TypedRows]:
    """This thread's part of a random graph, and the numbers of its rows."""
    if isinstance(graph, dict):
        part = cut_data(graph, owner, transport)
        return part, part.rows
    typed = cut_hetero(graph, owner, transport)
    return typed, part_rows(typed)


def _random(call: Call, generator: torch.Generator, size: Size, numbered: bool) -> tuple[Any, Any]:
    """A random graph and random owners; its rows are sampled from the real graph, so that their values are possible.

    Where nodes are ``numbered``, a tensor that holds the nodes' own numbers does so in the random graph too.
    """
    if isinstance(call.data, HeteroShardData):
        return draw_hetero(call, generator, size)

    def draw(high: int, *shape: int) -> Tensor:
        return torch.randint(max(high, 1), shape, generator=generator)

    edges = draw(size.nodes, 2, size.edges)
    if not bool((unmarked(call.data.edge_index)[0] == unmarked(call.data.edge_index)[1]).any()):
        edges[1] = torch.where(edges[0] == edges[1], (edges[1] + 1) % size.nodes, edges[1])
    if is_by_target(unmarked(call.data.edge_index)):
        edges = edges[:, target_order(edges)]
    graph: dict[str, Any] = {"edge_index": edges}
    owner = (torch.rand(size.nodes, generator=generator) < SHARE).long()
    owner[:PARTS] = torch.arange(PARTS)
    pairs = [name for name, (kind, _) in call.samples.items() if kind == "pair"]
    for place, name in enumerate(pairs):
        graph[name] = draw_pairs(owner, size.nodes, size.nodes + size.edges, place, generator)
    for name, (kind, value) in call.samples.items():
        if kind == "pair":
            continue
        count = {"node": size.nodes, "edge": size.edges}.get(kind) or graph[pairs_of(name, pairs) or ""].shape[1]
        if numbered and kind == "node" and _is_numbering(value, call.data.rows):
            graph[name] = torch.arange(size.nodes)
        else:
            graph[name] = sampled_rows(value, count, kind == "node", generator)
    return graph, owner


def _is_numbering(value: Tensor, rows: Tensor) -> bool:
    """Whether ``value`` holds the numbers of the nodes themselves, in the whole graph (``rows``) or on this worker."""
    if value.dtype != torch.int64 or value.shape != rows.shape:
        return False
    return any(torch.equal(value.cpu(), numbers) for numbers in (rows, torch.arange(rows.numel())))


def _plain_pass(model: nn.Module, call: Call, graph: Any, rows: RowNumbers, size: Size, notes: Notes) -> Outcome:
    """A pass of a copy of ``model`` over the whole random ``graph``, whose nodes have the numbers ``rows``."""
    whole = _whole_data(graph, size.nodes) if isinstance(graph, dict) else graph
    try:
        return try_pass(copy.deepcopy(model), call, whole, rows, size, notes)
    except InputError:
        raise
    except Exception as error:
        raise UncheckableError(
            f"the model cannot be checked: it fails on a random graph of {size.nodes} nodes ({_short(error)}); it "
            f"must not depend on the number of nodes or on tensors that it was not called with{_advice(call)}"
        ) from error


def _advice(call: Call) -> str:
    """What to write where the model is called with the numbers of all nodes; empty where it is not."""
    numbered = not isinstance(call.data, HeteroShardData) and any(
        kind == "node" and _is_numbering(value, call.data.rows) for kind, value in call.samples.values()
    )
    return ", and rows come in the order of the nodes: write x, not x[n_id]" if numbered else ""


def _whole_data(graph: dict[str, Any], num_nodes: int) -> Any:
    """The graph as the plain model knows it: PyG's ``Data``, where PyG is in use."""
    sparse = {
        name: plain_adjacency(graph["edge_index"], graph[name], num_nodes, name)
        for name in SPARSE.keys() & graph.keys()
    }
    graph = graph | sparse
    package = sys.modules.get("torch_geometric.data")
    return (SimpleNamespace if package is None else package.Data)(**graph, num_nodes=num_nodes)


def _rounding(model: nn.Module, call: Call, graph: Any, want: Outcome, weights: NodeWeights) -> dict[str, float]:
    """How much the plain model's gradients change when the nodes are numbered backwards.

    A gradient that should be 0, such as that of a bias before a norm, is only rounding, and may differ by as much.
    """
    backwards = want.rows.flipped() if isinstance(want.rows, TypedRows) else want.rows.flip(0)
    model = copy.deepcopy(model)
    weights.keep(model, backwards)
    again = _plain_pass(model, call, _turned(call, graph), backwards, SMALL, Notes())
    turned_back = {
        name: grad.flip(weights.dims[name]) if grad is not None and name in weights.dims else grad
        for name, grad in again.gradients.items()
    }
    return {
        name: float((turned_back[name] - grad).abs().max())  # type: ignore[operator]
        for name, grad in want.gradients.items()
        if grad is not None and grad.numel()
    }


def _turned(call: Call, graph: Any) -> Any:
    """The same random graph with its nodes numbered backwards."""
    if not isinstance(graph, dict):
        return turn_hetero(graph)
    turned = dict(graph)
    for name, (kind, _) in call.samples.items():
        if kind in ("node", "pair"):
            turned[name] = graph[name].flip(0) if kind == "node" else NODES - 1 - graph[name]
    turned["edge_index"] = NODES - 1 - graph["edge_index"]
    if not is_by_target(graph["edge_index"]):
        return turned
    order = target_order(turned["edge_index"])
    edges = {name: turned[name][order] for name, (kind, _) in call.samples.items() if kind == "edge"}
    return turned | edges | {"edge_index": turned["edge_index"][:, order]}


def _compare(want: Outcome, parts: list[Outcome], rounding: dict[str, float], weights: NodeWeights) -> None:
    """Raise `Difference` where the outcomes of the ``parts`` together do not equal that of the whole graph.

    If they differ, the first module whose rows differ is named. A module inside may see its rows in another order.
    """
    try:
        _compare_results(want, parts, rounding, weights)
    except Difference:
        _compare_trace(want, parts)
        raise


def _compare_results(want: Outcome, parts: list[Outcome], rounding: dict[str, float], weights: NodeWeights) -> None:
    """Raise `Difference` where outputs, gradients or buffers differ."""
    for number, output in enumerate(want.outputs):
        _same_rows("the output", [part.outputs[number] for part in parts], output)
    _compare_gradients(want, parts, rounding, weights)
    for name, value in want.buffers.items():
        for part in parts:
            if value.is_floating_point() and value.shape == part.buffers[name].shape:
                _same(f"the buffer {name}", part.buffers[name], value)


def _compare_trace(want: Outcome, parts: list[Outcome]) -> None:
    """Compare the results of all modules that give one row per node, and name the first that differs."""
    for key, value in want.trace.items():
        # On a shard a native kernel may serve a layer, and then the layer's inner modules do not run.
        pieces = [part.trace[key] for part in parts if key in part.trace]
        own = None if value.dim() == 0 else numbers_in_part(want.rows, value.shape[0])
        if own is None or len(pieces) != len(parts):
            continue
        rows = [numbers_of_whole(part.rows, value.shape[0]) for part in parts]
        if all(found is not None and piece.shape[:1] == found.shape for piece, found in zip(pieces, rows, strict=True)):
            held = [Output(piece, found, 0) for piece, found in zip(pieces, rows, strict=True) if found is not None]
            _same_rows(key[0], held, Output(value, own, 0))


def _compare_gradients(want: Outcome, parts: list[Outcome], rounding: dict[str, float], weights: NodeWeights) -> None:
    largest = (float(grad.abs().max()) for grad in want.gradients.values() if grad is not None and grad.numel())
    scale = max(largest, default=0.0)
    for name, grad in want.gradients.items():
        found = [part.gradients[name] for part in parts]
        if grad is None or any(piece is None for piece in found):
            if grad is not None and float(grad.abs().max()):
                raise Difference(f"the gradient of {name} is missing on a shard")
            continue
        given = [piece for piece in found if piece is not None]
        if name in weights.dims:
            total = weights.assembled(name, given, [part.rows for part in parts if isinstance(part.rows, Tensor)])
        else:
            total = torch.stack(given).sum(0)
        # Rounding is small beside the other gradients, so the slack has a limit.
        slack = min(10 * rounding.get(name, 0.0), 10 * TOLERANCE * scale)
        _same(f"the gradient of {name}", total, grad, scale, slack)


def _same_rows(name: str, pieces: list[Output], want: Output) -> None:
    """Raise unless the rows of all parts, put together, are those of the whole graph."""
    for piece in pieces:
        if piece.values.shape[1:] != want.values.shape[1:]:
            shapes = list(piece.values.shape[1:]), list(want.values.shape[1:])
            raise Difference(f"an output has rows of shape {shapes[0]}, expected {shapes[1]}")
    got, value = assembled(pieces), assembled([want])
    if got.shape != value.shape:
        raise Difference(f"an output has {got.shape[0]} rows on all workers, expected {value.shape[0]}")
    _same(name, got, value)


def _same(name: str, got: Tensor, want: Tensor, scale: float = 0.0, slack: float = 0.0) -> None:
    """Raise unless ``|got - want| <= 1e-4 max(max|want|, 0.1 scale) + slack``, element by element."""
    if not want.numel():
        return
    got, want = got.double(), want.double()
    worst = float((got - want).abs().max())
    limit = TOLERANCE * max(float(want.abs().max()), 0.1 * scale) + slack
    if not worst <= limit and not torch.equal(got.nan_to_num(), want.nan_to_num()):
        raise Difference(f"{name} differs by {worst:.2g}, of at most {float(want.abs().max()):.2g}")


def _short(error: Exception) -> str:
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0] if text else 'no message'}"
