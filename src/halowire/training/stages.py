"""The pipeline as a runner: this worker's stage of the model on its part of the graph."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from halowire.errors import InputError
from halowire.kernels import Csr
from halowire.layers import Propagation
from halowire.layers.deep import DeepModel
from halowire.layers.overlap import plain_overlap
from halowire.layers.propagation import SYMMETRIC
from halowire.partitioning import Shard
from halowire.schedules.border import Border
from halowire.schedules.chunk_spread import ChunkSpread
from halowire.schedules.chunks import Chunks, chunk_numbers, renumber
from halowire.schedules.engine import Engine, Side
from halowire.schedules.inputs import Inputs
from halowire.schedules.measure import measured_costs
from halowire.schedules.mesh import Mesh, Seat
from halowire.schedules.split import parse_split, predicted_costs, split
from halowire.schedules.spread import Spread, WholeSpread
from halowire.schedules.stage import Model, Stage, exchange_layer
from halowire.schedules.timeline import Timeline, ideal_bubble
from halowire.training.config import Config
from halowire.training.task import Learnt, Task
from halowire.training.view import build_model, policy_for
from halowire.training.wire_bytes import StageLink
from halowire.wire import ChunkExchange, HaloExchange, Policy, Routes, Transport

TIMELINE_EPOCH = 2
"""The last epoch whose timeline is recorded, and the one that is shown: the first ones warm up caches and buffers, but
a run may end with one of them."""
CPU = torch.device("cpu")


def mesh_of(config: Config, workers: int) -> Mesh:
    """The mesh that the settings ask for."""
    return Mesh.of(config.mesh.stages, config.mesh.parts, config.mesh.chunks, workers, config.model.layers)


def needs_stages(config: Config, mesh: Mesh) -> bool:
    """Whether the pipeline runs the model: all but plain GCN, GraphSAGE and GAT in graph parallelism."""
    plain = config.model.name in ("gcn", "sage", "gat") and not config.model.residual
    return not plain or mesh.stages > 1 or mesh.chunks > 1


@dataclass(frozen=True)
class ChunkLoss:
    """The loss of every chunk; apart from the pipeline, which would otherwise hold itself through its engine."""

    tasks: Sequence[Learnt]

    def __call__(self, chunk: int, logits: Tensor) -> tuple[Tensor, Tensor]:
        """See :data:`halowire.schedules.engine.Loss`."""
        with torch.enable_grad():
            leaf = logits.detach().requires_grad_()
            loss = self.tasks[chunk].loss(leaf)
            (grad,) = torch.autograd.grad(loss, leaf)
        return loss.detach(), grad


class Pipeline:
    """Trains one stage of a model on one part; see :class:`halowire.training.runner.Runner`."""

    def __init__(
        self,
        train: Shard,
        whole: Shard,
        config: Config,
        mesh: Mesh,
        transport: Transport,
        split: Sequence[int] = (),
    ) -> None:
        """``train`` and ``whole`` are one shard unless training leaves out nodes or edges; all workers call this.

        ``split``: the blocks of every stage in the run that is continued; without it they are chosen here.
        """
        self._config, self.seat, self.one_backward = config, Seat.of(mesh, transport), False
        self.recorded_epoch = TIMELINE_EPOCH
        seat = self.seat
        self.peers = seat.peers
        self.line: Transport | None = seat.line
        self.num_features, same = whole.num_features, train is whole
        self.model: Model = build_model(config.model, self.num_features, whole.num_classes, config.seed)
        self.split = tuple(split or self._choose_split(train))
        bounds = list(itertools.pairwise(itertools.accumulate(self.split, initial=0)))
        stage = Stage.of(self.model, *bounds[seat.stage])
        next_layer = 0 if seat.last else exchange_layer(self.model, bounds[seat.stage + 1][0])
        self.parameters = stage.parameters
        if not seat.first:
            train, whole = replace(train, x=None), replace(whole, x=None)
        train, chunks = self._chunk(train)
        links = self._links(train, stage, [exchange_layer(self.model, first) for first, _ in bounds[1:]])
        policy = policy_for(train, config, seat.peers, self.num_features, links)
        timeline = Timeline()
        side = self._side(train, stage, chunks, next_layer, policy, timeline)
        if same:
            whole, evaluation = train, replace(side, chunks=Chunks.whole(train.num_owned), spread=self._exact)
        else:
            alone = Chunks.whole(whole.num_owned)
            evaluation = self._side(whole, stage, alone, next_layer, policy, timeline, training=False)
        task = Task.of(train, config.task, CPU)
        loss = ChunkLoss([task.part(chunks.at(chunk)) for chunk in range(chunks.count)])
        self.shard = whole
        found = Task.of(whole, config.task, CPU)
        self.task: Learnt = found if seat.last else found.part(slice(0, 0))
        self.engine = Engine(seat, stage, side, evaluation, loss, config.mesh.keep == "all", timeline)

    def forward_backward(self, epoch: int) -> Tensor:
        """All chunks through this worker's stage and back."""
        return self.engine.forward_backward(self._config.seed, epoch, epoch <= self.recorded_epoch)

    def logits(self) -> Tensor:
        """Those of this part on the last stage, none on the others."""
        found = self.engine.logits()
        return found if self.seat.last else found.new_zeros(0, self.shard.num_classes)

    @property
    def remembers(self) -> bool:
        """Historical rows do, and the wires with delta coding or delayed rows."""
        policy = self.exchange.policy
        return self.seat.mesh.chunks > 1 or policy.decay is not None or policy.freshness.delayed

    def state(self) -> dict[str, Tensor]:
        """That of the exchange, of the stage links, and the historical rows."""
        side = self.engine.train
        return self.exchange.state() | side.border.state() | side.spread.state()

    def load_state(self, state: dict[str, Tensor]) -> None:
        """Each takes its own."""
        side = self.engine.train
        side.border.load_state(state)
        side.spread.load_state(state)
        own = ("border.", "history.", "stale.")
        self.exchange.load_state({name: value for name, value in state.items() if not name.startswith(own)})

    def facts(self) -> dict[str, Any]:
        """The split; every block launches its own exchange: only its inner product hides it."""
        overlap = {}
        if self.peers.size > 1 and self._config.freshness.mode != "never":
            words = plain_overlap("blocks of a pipeline cut at their aggregation")
            layers = (exchange_layer(self.model, block) for block in range(len(self.model.blocks)))
            overlap = {str(layer): words for layer in layers if layer}
        return {"overlap": overlap, "split": list(self.split)}

    def events(self, epoch: int) -> dict[str, Any] | None:
        """The timeline of an epoch that was recorded, and the first and the last layer of the stage."""
        if epoch > self.recorded_epoch:
            return None
        mesh, timeline, before = self.seat.mesh, self.engine.timeline, sum(self.split[: self.seat.stage])
        return {
            "stage": self.seat.stage,
            "part": self.seat.part,
            "layers": [before + 1, before + self.split[self.seat.stage]],
            "spans": timeline.spans,
            "ideal_bubble": ideal_bubble(mesh.stages, mesh.chunks),
        }

    def _choose_split(self, shard: Shard) -> list[int]:
        """How many blocks every stage takes, the same on all workers."""
        mesh, blocks, world = self.seat.mesh, len(self.model.blocks), self.seat.world
        sizes = torch.zeros(world.size, 3, dtype=torch.int64)
        sizes[world.rank] = torch.tensor([shard.num_owned, shard.num_edges, _values(shard.x)])
        world.all_reduce(sizes, "reduction of the sizes", account=None)
        mesh.refuse_impossible(blocks, int(sizes[:, 0].min()))
        nodes, edges, values = (int(size) // mesh.stages for size in sizes.sum(0))
        if self._config.mesh.split:
            return parse_split(self._config.mesh.split, mesh.stages, blocks)
        costs = torch.tensor(predicted_costs(self.model, nodes, edges, values), dtype=torch.float64)
        if self._config.mesh.costs == "measured" and mesh.stages > 1:
            if world.rank == 0:
                costs = torch.tensor(self._measure(shard), dtype=torch.float64)
            world.broadcast(costs, "sharing of the measured costs")
        return split(costs.tolist(), mesh.stages)

    def _links(self, shard: Shard, stage: Stage, layers: list[int]) -> list[StageLink]:
        """What crosses the borders of the stages, of all parts together; initial rows go beside the others."""
        nodes = torch.tensor([shard.num_owned])
        self.seat.peers.all_reduce(nodes, "reduction of the sizes", account=None)
        rows = int(nodes) * (2 if stage.initial else 1)
        return [StageLink(layer, stage.width, rows) for layer in layers]

    def _measure(self, shard: Shard) -> list[float]:
        if shard.x is None:
            raise InputError(f"graph {shard.graph!r} has no features; give it `x` (one row per node) to train on it")
        inner = (shard.symmetric() if self._kind == SYMMETRIC else shard.mean())[0]
        return measured_costs(self.model, inner, shard.x, shard.ids)

    @property
    def _kind(self) -> str:
        return self.model.normalisation if isinstance(self.model, DeepModel) else self.model.conv.normalisation

    def _chunk(self, shard: Shard) -> tuple[Shard, Chunks]:
        """The first stage of every part cuts it into chunks and tells the others."""
        seat, config = self.seat, self._config
        count = seat.mesh.chunks
        if count == 1:
            return shard, Chunks.whole(shard.num_owned)
        numbers = torch.empty(shard.num_owned, dtype=torch.int64)
        if seat.first:
            numbers = chunk_numbers(shard, count, config.seed)
        seat.line.broadcast(numbers, "sharing of the chunks")
        shard, bounds = renumber(shard, numbers, count)
        return shard, Chunks(bounds, seat.part, config.seed, config.mesh.shuffle)

    def _side(
        self,
        shard: Shard,
        stage: Stage,
        chunks: Chunks,
        next_layer: int,
        policy: Policy,
        timeline: Timeline,
        training: bool = True,
    ) -> Side:
        """``shard`` made ready for a stage; the features, where the stage needs them, cross the wire here, once."""
        seat, mesh = self.seat, self._config.mesh
        exchange = HaloExchange(shard, seat.peers, CPU, policy)
        deep = isinstance(self.model, DeepModel)
        p = Propagation.of(shard, self._kind, exchange, CPU)
        inputs = None
        if stage.entry is not None:
            inputs = Inputs.of(shard, exchange, None if deep else (p.inner, p.halo))
        spread: Spread = WholeSpread(p, timeline)
        if training:
            self.exchange, self._exact = exchange, spread
        if chunks.count > 1:
            swaps = None
            if seat.mesh.parts > 1:
                routes = Routes.of(shard, p.halo, chunks, exchange)
                swaps = ChunkExchange(routes, seat.peers, policy, shard.ids)
            widths = [block.width for block in stage.blocks]
            spread = ChunkSpread(p, swaps, chunks, widths, mesh.history, mesh.gradient_rule, timeline)
        return Side(chunks, shard.ids, inputs, spread, Border(seat, stage, next_layer, shard.ids, policy))


def _values(x: Tensor | Csr | None) -> int:
    """How many values of the features are stored."""
    if x is None:
        return 0
    return x.nnz if isinstance(x, Csr) else x.numel()
