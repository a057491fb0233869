"""What users do with models of their own beyond a layer and a loss, on the simulated device and on the CPU.

The models and their steps are those of the tests that compare them with plain PyG.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric import nn as pyg

import halowire
from halowire.pyg.hetero_data import cut_hetero
from halowire.pyg.shard_data import cut_data
from halowire.wire import Machines, Transport
from tests.support import edge_output_cases as edge_outputs
from tests.support import graph_batch_cases as graph_batches
from tests.support import link_example_cases as link_examples
from tests.support import precision_cases as precision
from tests.support import typed_output_cases as typed_outputs
from tests.support.device_case import Outcome, torch_kernels
from tests.support.hetero_case import MODELS as TYPED_MODELS
from tests.support.hetero_case import build_hetero, make_hetero, make_owners
from tests.support.hetero_examples import EXAMPLES, build_example
from tests.support.interactions import interactions
from tests.support.list_case import EQUAL, Case, list_graph
from tests.support.node_weight_models import NODE_WEIGHTS, build
from tests.support.pyg_aggregations import AGGREGATIONS, NORMS
from tests.support.pyg_case import NODES, make_graph, make_owner, seeded
from tests.support.pyg_layers import LAYERS
from tests.support.pyg_models import MODELS, two
from tests.support.pyg_whole_models import MODELS as WHOLE_MODELS
from tests.support.random_draw_models import Infomax, Noisy, Supervised
from tests.support.sim import SIM, Counts, nccl_simulated, transport_of
from tests.support.three_layers import KINDS, Three
from tests.support.typed_pair_case import LINK_MODELS, build_link_model, graphs_of, make_rating_owners

Step = Callable[[Any, Any], Iterator[tuple[Tensor, list[Tensor]]]]
"""One epoch of a model on a part: losses, each learnt from before the next one, and what stands beside them."""
Mode = Callable[[str], AbstractContextManager[Any]]
"""The block in which a model is called on a device."""


@dataclass(frozen=True)
class Use:
    """A model, this worker's part of the graph that it learns from on a device, and one epoch.

    ``gathers``: what a model gives is gathered from all workers before it is compared.
    """

    make: Callable[[], nn.Module]
    part: Callable[[Transport, torch.device], Any]
    step: Step
    mode: Mode = lambda device: contextlib.nullcontext()
    gathers: bool = False


def part_of_graph(graph: Callable[[], dict[str, Tensor]]) -> Callable[[Transport, torch.device], Any]:
    """A part of ``graph``."""
    return lambda transport, device: cut_data(graph(), make_owner(transport.size), transport, device)


def squares(names: tuple[str, ...]) -> Step:
    """The mean square of the rows that a model gives for the tensors ``names``."""

    def step(model: Any, data: Any) -> Iterator[tuple[Tensor, list[Tensor]]]:
        out = model(*(getattr(data, name) for name in names))
        yield data.mean(out.square()), [out]

    return step


def sums(step: Callable[[Any, Any], tuple[list[Tensor], list[Tensor]]]) -> Step:
    """The sum of the means of all values that ``step`` gives; it gathers the others."""

    def whole(model: Any, data: Any) -> Iterator[tuple[Tensor, list[Tensor]]]:
        found, values = step(model, data)
        terms = data.means(values)
        yield sum(terms[1:], terms[0]), found

    return whole


def weights_of_nodes(name: str) -> Use:
    """A model with a row of weights for each node."""
    numbered = lambda: make_graph() | {"n_id": torch.arange(NODES)}  # noqa: E731
    return Use(lambda: build(name)[0], part_of_graph(numbered), squares(NODE_WEIGHTS[name][1]))


def recommendations(kind: str) -> Use:
    """PyG's ``LightGCN`` and one of its losses."""
    graph, positive, negative = interactions()
    pairs = torch.cat([positive, negative], 1)

    def part(transport: Transport, device: torch.device) -> Any:
        data = cut_data(graph, make_owner(transport.size), transport, device)
        data.both = data.pairs(pairs)
        return data

    def step(model: Any, data: Any) -> Iterator[tuple[Tensor, list[Tensor]]]:
        rank = model(data.edge_index, data.both)
        first, second = rank.chunk(2)
        if kind == "ranking":
            yield model.recommendation_loss(first, second, node_id=data.both.unique(), lambda_reg=0.1), [rank]
        else:
            yield model.link_pred_loss(rank, torch.cat([torch.ones_like(first), torch.zeros_like(second)])), [rank]

    return Use(lambda: seeded(lambda: pyg.LightGCN(NODES, 8, 2)), part, step)


def typed_pairs(name: str) -> Use:
    """Scores of pairs of two node types."""

    def part(transport: Transport, device: torch.device) -> Any:
        return cut_hetero(graphs_of(name)[0], make_rating_owners(transport.size), transport, device)

    def step(model: Any, data: Any) -> Iterator[tuple[Tensor, list[Tensor]]]:
        scores, label = LINK_MODELS[name][1](model, data), data["user", "movie"].edge_label
        loss = data.binary_cross_entropy_with_logits if LINK_MODELS[name][2] else data.mse_loss
        yield loss(scores, label.float()), [scores]

    return Use(lambda: build_link_model(name), part, step)


def pairs_in_forward(name: str) -> Use:
    """Scores of pairs of one node type."""
    make, step = link_examples.CASES[name]

    def graph() -> dict[str, Tensor]:
        found = link_examples.graph_of(False)
        pairs = found["train_edge_index"]
        return found | {"false_edge_index": torch.stack([pairs[0], pairs[1].flip(0)])}

    def whole(model: Any, data: Any) -> Iterator[tuple[Tensor, list[Tensor]]]:
        loss, scores = step(model, data, data)
        yield loss, [scores]

    return Use(lambda: seeded(make), part_of_graph(graph), whole)


def values_of_edges(name: str) -> Use:
    """Attention and scores of edges as outputs."""
    make, step = edge_outputs.CASES[name]
    return Use(lambda: seeded(make), part_of_graph(lambda: edge_outputs.graph_of("as it is")), sums(step), gathers=True)


def typed_values_of_edges(name: str) -> Use:
    """The same by edge type."""
    make, step = typed_outputs.CASES[name]

    def part(transport: Transport, device: torch.device) -> Any:
        return cut_hetero(typed_outputs.graph_of(False), make_owners(transport.size), transport, device)

    return Use(lambda: seeded(make), part, sums(step), gathers=True)


class Both(nn.Module):
    """An encoder that gives the means and the deviations of its rows."""

    def __init__(self) -> None:
        super().__init__()
        self.mu, self.logstd = two(pyg.GCNConv), two(pyg.GCNConv)

    def forward(self, x: Tensor, edge_index: Tensor) -> tuple[Tensor, Tensor]:
        return self.mu(x, edge_index), self.logstd(x, edge_index)


def autoencoder(kind: str) -> Use:
    """PyG's autoencoders; the adversarial ones learn to tell rows from noise first."""
    variational, adversarial = kind.endswith("VGAE") or kind == "ARGVA", kind.startswith("ARG")

    def make() -> nn.Module:
        encoder: nn.Module = Both() if variational else two(pyg.GCNConv)
        judge = [nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))] if adversarial else []
        found: nn.Module = getattr(pyg, kind)(encoder, *judge)
        return found

    def graph() -> dict[str, Tensor]:
        given, generator = make_graph(), torch.Generator().manual_seed(4)
        pairs = [torch.randint(NODES, (2, 120), generator=generator) for _ in range(2)]
        kept = {name: given[name] for name in ("x", "edge_index")}
        return kept | {"pos_edge_label_index": pairs[0], "neg_edge_label_index": pairs[1]}

    def step(model: Any, data: Any) -> Iterator[tuple[Tensor, list[Tensor]]]:
        z = model.encode(data.x, data.edge_index)
        if adversarial:
            yield model.discriminator_loss(z), [z]
        loss = model.recon_loss(z, data.pos_edge_label_index, data.neg_edge_label_index)
        loss = loss + model.reg_loss(z) if adversarial else loss
        yield loss + model.kl_loss() / data.num_whole_nodes if variational else loss, [z]

    return Use(lambda: seeded(make), part_of_graph(graph), step)


def of_batches(name: str) -> Use:
    """Features of several times, norms over graphs of a batch, attention over all nodes."""
    make, names = graph_batches.CASES[name]
    return Use(lambda: seeded(make), part_of_graph(lambda: graph_batches.graph_of(name)), squares(names))


def of_precision(name: str) -> Use:
    """Other types than float32, autocast, and layers that are computed again in backward."""
    make, kind, _, _ = precision.CASES[name]

    def mode(device: str) -> AbstractContextManager[Any]:
        cast = torch.autocast(device, dtype=torch.bfloat16) if name == "autocast" else contextlib.nullcontext()
        stack = contextlib.ExitStack()
        stack.enter_context(torch.backends.mkldnn.flags(enabled=False))  # see test_precision.py
        stack.enter_context(cast)
        return stack

    graph = part_of_graph(lambda: precision.graph_of(kind))
    return Use(lambda: seeded(make).to(kind), graph, squares(("x", "edge_index")), mode)


def with_draws(make: Callable[[], nn.Module]) -> Use:
    """Random numbers of nodes and edges in forward."""
    return Use(lambda: seeded(make), part_of_graph(make_graph), squares(("x", "edge_index")))


def listed(case: Case) -> Use:
    """A model of one of the lists of PyG's layers and models."""
    return Use(case.build, part_of_graph(lambda: list_graph(sort=case.sorted_only)), squares(case.inputs))


def three_layers(name: str) -> Use:
    """Layers the first of which can be computed at home, with dropout by node."""
    return Use(lambda: seeded(lambda: Three(KINDS[name])), part_of_graph(make_graph), squares(("x", "edge_index")))


def drawn(name: str) -> Use:
    """A layer some of whose weights PyG leaves as it finds them in memory: here all are drawn."""

    def make() -> nn.Module:
        model = LAYERS[name].build()
        generator = torch.Generator().manual_seed(2)
        for value in model.parameters():
            nn.init.normal_(value, std=0.3, generator=generator)
        return model

    return Use(make, part_of_graph(lambda: list_graph(sort=False)), squares(LAYERS[name].inputs))


def of_zoo(name: str) -> Use:
    """A model of the list of those that the tests distribute."""
    make, names = MODELS[name]
    return Use(lambda: seeded(make), part_of_graph(make_graph), squares(names))


def of_types(name: str) -> Use:
    """A model of several node types."""
    inputs = ("edge_attr_dict",) if "edge features" in name else ()

    def part(transport: Transport, device: torch.device) -> Any:
        return cut_hetero(make_hetero(), make_owners(transport.size), transport, device)

    def step(model: Any, data: Any) -> Iterator[tuple[Tensor, list[Tensor]]]:
        more = {key: getattr(data, key) for key in inputs}
        out = model(data.x_dict, data.edge_index_dict, **more)
        rows = list(out.values()) if isinstance(out, dict) else [out]
        terms = [data.mean(value.square()) for value in rows]
        yield sum(terms[1:], terms[0]), rows

    make = (lambda: build_example(name, make_hetero())) if name in EXAMPLES else (lambda: build_hetero(name))
    return Use(make, part, step)


def _uses() -> Iterator[tuple[str, Callable[[], Use]]]:
    groups: dict[str, tuple[Callable[[Any], Use], Iterable[str]]] = {
        "weights": (weights_of_nodes, NODE_WEIGHTS),
        "LightGCN": (recommendations, ("ranking", "links")),
        "typed pairs": (typed_pairs, LINK_MODELS),
        "pairs": (pairs_in_forward, link_examples.CASES),
        "edges": (values_of_edges, edge_outputs.CASES),
        "typed edges": (typed_values_of_edges, typed_outputs.CASES),
        "autoencoder": (autoencoder, ("GAE", "VGAE", "ARGA", "ARGVA")),
        "batches": (of_batches, graph_batches.CASES),
        "precision": (of_precision, precision.CASES),
        "model": (of_zoo, MODELS),
        "three layers": (three_layers, KINDS),
        "types": (of_types, (*TYPED_MODELS, *EXAMPLES)),
    }
    for group, (make, names) in groups.items():
        for name in names:
            yield f"{group}: {name}", partial(make, name)
    for draws in (Noisy, Infomax, Supervised):
        yield f"draws: {draws.__name__}", partial(with_draws, draws)
    for cases in (WHOLE_MODELS, AGGREGATIONS, NORMS):
        for name, case in cases.items():
            if case.outcome == EQUAL:
                yield f"listed: {name}", partial(listed, case)

    for name in ("GatedGraphConv", "SAGEConv lstm"):
        yield f"listed: {name}", partial(listed, LAYERS[name])
    for name in ("RGATConv", "RGATConv multiplicative"):
        yield f"drawn: {name}", partial(drawn, name)


USES: dict[str, Callable[[], Use]] = dict(_uses())
"""All uses by their names."""


Settings = Mapping[str, Any]


def use_on(device: str, name: str, recipe: str, settings: Settings, counts: Counts, epochs: int = 3) -> Outcome:
    """Train ``epochs`` epochs on ``device``, with the waits of each, and evaluate."""
    use, transport, where = USES[name](), transport_of(device), torch.device(device)
    transport.machines = Machines.split(transport.size, settings.get("mesh.hosts", 1))
    data = use.part(transport, where)
    model = halowire.distribute(use.make().to(device), data, recipe, settings=settings).train()
    optimiser = torch.optim.SGD(model.parameters(), lr=0.01)
    torch.manual_seed(5 + transport.rank)
    waits: list[Counter[tuple[str, str]]] = []
    for _ in range(epochs):
        before = Counter(counts.waits)
        with use.mode(device):
            for loss, _ in use.step(model, data):
                optimiser.zero_grad()
                loss.backward()
                optimiser.step()
        waits.append(counts.waits - before)
    last = float(loss.detach())
    with torch.no_grad(), use.mode(device):
        found = [value for _, outputs in use.step(model.eval(), data) for value in outputs]
    transport.drain()
    if use.gathers:
        found = [data.gather(value) for value in found]
    tensors = dict(model.state_dict()) | {f"out {place}": value for place, value in enumerate(found)}
    arrays = {key: value.detach().cpu().double().numpy().copy() for key, value in tensors.items() if value.numel()}
    return Outcome(last, {}, arrays, waits, dict(transport.ledger.totals))


def use_on_both(rank: int, name: str, recipe: str, settings: Settings) -> tuple[Outcome, Outcome]:
    """The same on the simulated device and, with the same torch code, on the CPU."""
    with nccl_simulated() as simulation:
        device = use_on(SIM, name, recipe, settings, simulation.counts)
    with torch_kernels():
        return device, use_on("cpu", name, recipe, settings, Counts())
