"""In the pipeline and the hybrid a worker runs one stage of a model on one part of the graph, chunk after chunk."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from halowire.kernels import Csr
from halowire.layers import Aggregation, Inputs, Model, Sum
from halowire.partitioning import Shard
from halowire.schedules import (
    Border,
    Chunks,
    ChunkSums,
    Complete,
    Mesh,
    Pipeline,
    Seat,
    Side,
    Stage,
    Sums,
    Timeline,
    Watch,
    WholeSums,
    chunk_numbers,
    ideal_bubble,
    measured_costs,
    parse_split,
    plain_overlap,
    predicted_costs,
    renumber,
    split,
    watched,
)
from halowire.training.config import Config
from halowire.training.model_setup import build_model, policy_for
from halowire.training.rate_plan import BorderRows
from halowire.training.rule import Situation
from halowire.training.rules import refuse
from halowire.training.runner import Runner, loss_gradient, overlap_of
from halowire.training.savings import pipeline_savings, silent
from halowire.training.task import Task
from halowire.wire import ChunkExchange, Circle, HaloExchange, Policy, Routes, Transport

TIMELINE_EPOCH = 2
"""The last epoch whose timeline is recorded, and the one that the report shows: earlier epochs warm up caches and
buffers, but are recorded too, as a run may end with one of them."""
CPU = torch.device("cpu")


class Staged(Runner):
    """Runs one stage of a model on one part, chunk after chunk."""

    one_backward = False

    def __init__(
        self,
        train: Shard,
        whole: Shard,
        config: Config,
        mesh: Mesh,
        transport: Transport,
        split: Sequence[int] = (),
        device: torch.device = CPU,
        tell: Callable[[str], None] = silent,
    ) -> None:
        """Make the runner; all workers call this together.

        ``train`` and ``whole`` are one shard unless training leaves out nodes or edges. ``split`` is how many blocks
        every stage has in a run that is resumed; otherwise the split is chosen here. ``device`` is where this worker
        computes; shards and chunks are planned on the host. ``tell`` gets a line where rows that need not travel do.
        """
        refuse(config, Situation(mesh))
        self._config = config
        self._device = device
        self.savings = pipeline_savings(config, mesh.parts)
        self.savings.say(tell)
        self.seat = Seat.of(mesh, transport)
        self.recorded_epoch = TIMELINE_EPOCH
        seat = self.seat
        self.peers = seat.peers
        self.line = seat.line
        self.num_features = whole.num_features
        self.model: Model = build_model(config.model, self.num_features, whole.num_classes, config.seed).to(device)
        self.split = tuple(split or self._choose_split(train))
        self._bounds = list(itertools.pairwise(itertools.accumulate(self.split, initial=0)))
        same = train is whole
        if not seat.first:
            train, whole = replace(train, x=None), replace(whole, x=None)
        train, chunks = self._chunk(train)
        policy = policy_for(train, config, seat.peers, self.num_features, self._links(train))
        self._stage = Stage.of(self.model, *self._bounds[seat.stage], policy.undropped)
        self.parameters = self._stage.parameters
        self._timeline = Timeline(transport.ledger)
        side, self.exchange, exact = self._side(train, chunks, policy)
        if same:
            whole, evaluation = train, replace(side, chunks=Chunks.whole(train.num_owned), sums=exact)
        else:
            evaluation = self._side(whole, Chunks.whole(whole.num_owned), policy)[0]
        self.shard = whole
        found = Task.of(whole, config.task, device)
        self.task = found if seat.last else found.part(slice(0, 0))
        self.pipeline = Pipeline(
            seat, self._stage, side, evaluation, _chunk_loss(train, chunks, config, device), config.mesh.keep == "all",
            self._timeline,
        )  # fmt: skip

    def forward_backward(self, epoch: int, complete: Complete) -> Tensor:
        """Send all chunks through this worker's stage and back; gradients are complete when the last chunk is back."""
        return self.pipeline.forward_backward(self._config.seed, epoch, epoch <= self.recorded_epoch)

    def logits(self) -> Tensor:
        """Logits of all rows of this part on the last stage; no rows on the other stages."""
        found = self.pipeline.logits()
        return found if self.seat.last else found.new_zeros(0, self.shard.num_classes)

    @property
    def remembers(self) -> bool:
        """Whether chunks use historical rows, or the exchange has a state."""
        return self.seat.mesh.chunks > 1 or super().remembers

    def state(self) -> dict[str, Tensor]:
        """The state of the exchange and of the stage links, and the historical rows."""
        side = self.pipeline.train
        return self.exchange.state() | side.border.state() | side.sums.state()

    def load_state(self, state: dict[str, Tensor]) -> None:
        """Give the border, the historical rows and the exchange their parts of ``state``."""
        side = self.pipeline.train
        side.border.load_state(state)
        side.sums.load_state(state)
        others = ("border.", "history.", "stale.")
        self.exchange.load_state({name: value for name, value in state.items() if not name.startswith(others)})

    def forget(self) -> None:
        """Forget the state of the exchange and of the stage links, and the historical rows."""
        super().forget()
        self.pipeline.train.border.forget()
        self.pipeline.train.sums.forget()

    @contextmanager
    def watched(self, watch: Watch) -> Iterator[None]:
        """Let all segments of the stage show ``watch`` what they write."""
        self.pipeline.stage = watched(self._stage, watch)
        try:
            yield
        finally:
            self.pipeline.stage = self._stage

    def facts(self) -> dict[str, Any]:
        """How the layers are split, and how every exchange is hidden: only behind the sums of its own layer."""
        overlap = overlap_of(self.model, self.peers, self._config, plain_overlap("chunks of a pipeline"))
        return {"overlap": overlap, "split": list(self.split)}

    def events(self, epoch: int) -> dict[str, Any] | None:
        """The timeline of an epoch that was recorded, and the first and the last layer of the stage."""
        if epoch > self.recorded_epoch:
            return None
        mesh, before = self.seat.mesh, sum(self.split[: self.seat.stage])
        return {
            "stage": self.seat.stage,
            "part": self.seat.part,
            "layers": [before + 1, before + self.split[self.seat.stage]],
            "spans": self._timeline.spans,
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
                alone = Transport(circle=Circle.of([world.rank]))
                costs = torch.tensor(measured_costs(self.model, shard, alone), dtype=torch.float64)
            world.broadcast(costs, "sharing of the measured costs")
        return split(costs.tolist(), mesh.stages)

    def _links(self, shard: Shard) -> list[BorderRows]:
        """The borders of the stages, with the rows of all parts; a model's initial rows travel beside the others."""
        nodes = torch.tensor([shard.num_owned])
        self.seat.peers.all_reduce(nodes, "reduction of the sizes", account=None)
        kinds, mesh = (2 if self.model.initial else 1), self.seat.mesh
        crossing = self.model.hidden_width, int(nodes) * kinds, mesh.parts * mesh.chunks * kinds
        return [BorderRows(self.model.layer_number(first), *crossing) for first, _ in self._bounds[1:]]

    def _chunk(self, shard: Shard) -> tuple[Shard, Chunks]:
        """Let the first stage of every part cut the part into chunks and tell the other stages."""
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

    def _side(self, shard: Shard, chunks: Chunks, policy: Policy) -> tuple[Side, HaloExchange, Sums]:
        """``shard`` made ready for the stage, its exchange, and the exact sums over all its rows.

        Features that the stage needs cross the wire here, and only here.
        """
        exchange = HaloExchange(shard, self.seat.peers, self._device, policy)
        edges = self.model.aggregation(shard, exchange)
        inputs = None
        if self._stage.entry is not None:
            inputs = Inputs.of(shard, edges, self.model.aggregates_input)
        exact: Sums = WholeSums(edges, self._timeline)
        sums = exact if chunks.count == 1 else self._chunk_sums(shard, chunks, edges, policy)
        seat = self.seat
        next_number = 0 if seat.last else self.model.layer_number(self._bounds[seat.stage + 1][0])
        ids = shard.ids.to(self._device)
        border = Border(seat, self._stage, next_number, ids, policy)
        return Side(chunks, ids, inputs, sums, border), exchange, exact

    def _chunk_sums(self, shard: Shard, chunks: Chunks, edges: Aggregation, policy: Policy) -> ChunkSums:
        assert isinstance(edges, Sum), "only models whose layers are sums are cut into chunks"
        mesh, swaps = self._config.mesh, None
        if self.seat.mesh.parts > 1:
            routes = Routes.of(shard, edges.halo, chunks.numbers(), chunks.count, edges.exchange)
            swaps = ChunkExchange(routes, self.seat.peers, policy, shard.ids.to(self._device))
        widths = [layer.width for layer in self._stage.layers]
        return ChunkSums(edges, swaps, chunks, widths, mesh.history, mesh.gradient_rule, self._timeline)


def _chunk_loss(
    shard: Shard, chunks: Chunks, config: Config, device: torch.device
) -> Callable[[int, Tensor], tuple[Tensor, Tensor]]:
    """The loss of every chunk; the function does not refer to the runner, which would then refer to itself."""
    task = Task.of(shard, config.task, device)
    tasks = [task.part(chunks.at(chunk)) for chunk in range(chunks.count)]
    return lambda chunk, logits: loss_gradient(tasks[chunk], logits, 0)


def _values(x: Tensor | Csr | None) -> int:
    """How many values of the features are stored."""
    if x is None:
        return 0
    return x.nnz if isinstance(x, Csr) else x.numel()
