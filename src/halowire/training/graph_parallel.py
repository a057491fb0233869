"""Graph parallelism: every worker runs a whole model of this library on its own part, boundary rows first."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from halowire.events import EVAL
from halowire.layers import Inputs, Model, Rows, Sum
from halowire.partitioning import Shard
from halowire.schedules import AT_HOME, BOUNDARY_FIRST, BoundaryFirst, Complete, HaloCopies, Part, Stage, Watch, watched
from halowire.training.config import Config
from halowire.training.first_layer_choice import FIRST_EXCHANGE
from halowire.training.home_price import Surroundings
from halowire.training.model_setup import build_model, output_width, policy_for, sends_undropped
from halowire.training.row_age import sends_narrow
from halowire.training.rule import Situation
from halowire.training.rules import refuse
from halowire.training.runner import Runner, loss_gradient, overlap_of
from halowire.training.savings import choose_savings, silent
from halowire.training.task import Learnt, Task
from halowire.wire import HaloExchange, Transport

CPU = torch.device("cpu")
NOWHERE = Surroundings()


class GraphParallel(Runner):
    """Runs a whole model on this worker's own part, boundary rows first."""

    def __init__(
        self,
        train: Shard,
        whole: Shard,
        config: Config,
        transport: Transport,
        device: torch.device = CPU,
        task: Learnt | None = None,
        exchange: type[HaloExchange] = HaloExchange,
        around: Surroundings = NOWHERE,
        tell: Callable[[str], None] = silent,
    ) -> None:
        """Make the runner; all workers call this together.

        ``train`` and ``whole`` are one shard unless training leaves out nodes or edges. ``task`` replaces the task that
        the nodes' labels define. ``exchange`` carries the rows while training; a subclass can watch them. ``tell`` gets
        a line on every choice of what need not travel, which ``around`` and the settings decide, before anything does.
        """
        self._config = config
        self._ledger = transport.ledger
        self.peers = transport
        self.shard = whole
        self.num_features = whole.num_features
        outputs = output_width(config, whole.num_classes)
        narrow = sends_narrow(config)
        self.model: Model = build_model(config.model, self.num_features, outputs, config.seed, narrow).to(device)
        refuse(config, Situation(outputs=outputs))
        stage = Stage.of(self.model, 0, len(self.model.blocks), sends_undropped(config))
        self.parameters = stage.parameters
        self.savings = choose_savings(train, config, transport, stage, around)
        self.savings.say(tell)
        chosen = self.savings.settle(config)
        policy = policy_for(train, chosen, transport, self.num_features, cover=self.savings.covers)
        self.exchange = exchange(train, transport, device, policy)
        self._train = self._part(train, self.exchange)
        self._evaluation = self._train
        if train is not whole:
            self._evaluation = self._part(whole, HaloExchange(whole, transport, device, policy))
        self._stage = stage
        self._schedule = BoundaryFirst(stage)
        self._train_task = task or Task.of(train, config.task, device)
        self.task = task or Task.of(whole, config.task, device)

    def _part(self, shard: Shard, exchange: HaloExchange) -> Part:
        """Make ``shard`` ready; features that the model reads over edges cross the wire here, and only here."""
        edges = self.model.aggregation(shard, exchange)
        inputs = Inputs.of(shard, edges, self.model.aggregates_input, self.savings.at_home)
        copies = None
        if inputs.copies is not None:
            over_rows = edges.over_rows() if isinstance(edges, Sum) else edges
            copies = HaloCopies(self.model.make_entry(), inputs.copies, shard.halo_ids.to(exchange.device), over_rows)
        return Part(shard.ids.to(exchange.device), inputs, edges, copies)

    @property
    def boundary(self) -> int:
        """Number of owned rows that other workers need, or that need rows of other workers."""
        return self._train.aggregation.boundary

    @torch.no_grad()
    def forward_backward(self, epoch: int, complete: Complete) -> Tensor:
        """Run all segments forward, compute the loss, and run all segments backward."""
        rows = Rows.whole(self._train.ids, self._config.seed, epoch, training=True)
        with self._ledger.phase("forward"):
            logits, passed = self._schedule.forward(self._train, rows)
            loss, grad = loss_gradient(self._train_task, logits, epoch)
        with self._ledger.phase("backward"):
            self._schedule.backward(self._train, passed, grad, complete)
        return loss

    def logits(self) -> Tensor:
        """Logits of all owned rows."""
        with torch.no_grad(), self._ledger.account(EVAL):
            return self._schedule.forward(self._evaluation, Rows.whole(self._evaluation.ids))[0]

    @contextmanager
    def watched(self, watch: Watch) -> Iterator[None]:
        """Let all segments show ``watch`` what they write."""
        unwatched = self._schedule
        self._schedule = BoundaryFirst(watched(self._stage, watch))
        try:
            yield
        finally:
            self._schedule = unwatched

    def facts(self) -> dict[str, Any]:
        """How every exchange is hidden behind computation, the share of interior rows, and the rows that arrive."""
        overlap = overlap_of(self.model, self.peers, self._config, BOUNDARY_FIRST)
        if self._train.copies is not None:
            overlap |= {str(FIRST_EXCHANGE): AT_HOME}
        edges = self._train.aggregation
        arriving = {layer: 0 if way == AT_HOME else edges.exchange.num_halo for layer, way in overlap.items()}
        found: dict[str, Any] = {"overlap": overlap, "interior_share": edges.interior_share, "wire_rows": arriving}
        if self.peers.machines.count > 1:
            found |= dict(zip(("machine_rows", "carried_rows"), edges.exchange.machine_rows(), strict=True))
        return found
