"""The training loop, which is one code path for one and for many workers."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor

from halowire.errors import InputError, NotFiniteError
from halowire.events import EVAL, GRADIENT, LOCAL, SETUP, STAGE, TRAIN, EventLog, LedgerEntry, clock_of, is_better
from halowire.schedules import Watch
from halowire.training.adam import Adam
from halowire.training.checkpoint import Progress
from halowire.training.checkpoint_choice import Found
from halowire.training.config import Config, OptimConfig
from halowire.training.flat import FlatGradients, broadcast_parameters
from halowire.training.generators import generator_states, restore_generators
from halowire.training.not_finite import Finding, look_at_inputs, look_at_pass, share, words
from halowire.training.outcome import summarise, total_sent
from halowire.training.row_gradients import RowGradients, not_finite
from halowire.training.run_state import NOTES, RunState
from halowire.training.runner import Runner
from halowire.training.worker_memory import largest_memory, peak_memory
from halowire.wire import GradientCodec, HaloExchange, HaloExchanges, Transport

EXTRAS = 7 + NOTES
"""Numbers reduced with the gradients: loss, wish to stop, bytes, change and norm of halo rows, seconds of rank 0, how
far the writing of a checkpoint is, and whether gradients are not finite."""
LOWER = 0.5
"""What the learning rate is multiplied by where ``on_nan`` lowers it."""
MOST = 5
"""How often it is lowered in one run."""


class Observer(Protocol):
    """Is told on rank 0 how a run goes."""

    def epoch(self, epoch: int, loss: float, seconds: float, wire_bytes: int) -> None:
        """Hear that ``epoch`` is done; ``wire_bytes`` are the halo and stage bytes of all workers."""

    def evaluated(self, epoch: int, metrics: dict[str, float]) -> None:
        """Hear that the evaluation after ``epoch`` is done."""


class Silent:
    """The observer that says nothing."""

    def epoch(self, epoch: int, loss: float, seconds: float, wire_bytes: int) -> None:
        """Say nothing of an epoch."""

    def evaluated(self, epoch: int, metrics: dict[str, float]) -> None:
        """Say nothing of an evaluation."""


@dataclass(frozen=True)
class Hooks:
    """What the loop asks of its caller.

    Attributes:
        observer: is told of every epoch.
        should_stop: says whether this worker was asked to stop.
        keep: whether checkpoints are written (a timed run needs none).
        warn: is told in one sentence what a user should know.
    """

    observer: Observer
    should_stop: Callable[[], bool] = lambda: False
    keep: bool = True
    warn: Callable[[str], None] = lambda text: None


class Trainer:
    """Trains one model on this worker's shard, in step with the other workers."""

    def __init__(self, runner: Runner, config: Config, transport: Transport, run: Path) -> None:
        """Make the optimiser and the gradient buffer; all workers begin with the weights of rank 0."""
        self.config = config
        self.transport = transport
        transport.ledger.measure_by(clock_of(runner.device))
        self.run_folder = run
        self.hooks = Hooks(Silent())
        self.runner = runner
        self.model = runner.model
        self.parameters = list(runner.parameters.values())
        self.rows = RowGradients([p for name, p in runner.parameters.items() if name in runner.row_weights], transport)
        broadcast_parameters(self.rows.others(self.model.parameters()), transport)
        bits = config.rate.weights
        codec = None if bits == 32 else GradientCodec(bits, runner.peers, config.seed)
        shared, peers = self.rows.others(self.parameters), runner.peers
        self.flat = FlatGradients(shared, EXTRAS, transport, codec, peers, runner.one_backward, device=runner.device)
        self.optimiser = Adam(self.parameters, config.optim.lr, config.optim.weight_decay)
        self.progress = Progress()
        self._state = RunState(runner, self.optimiser, codec, config, transport, run)
        self._sent_before: dict[str, int] = {}
        self._random = generator_states(runner.device)
        self._news: list[dict[str, Any]] = []
        self._notes: list[float] = []

    def resume(self, found: Found | None = None, warn: Callable[[str], None] = lambda text: None) -> None:
        """Go on from the newest whole checkpoint (``found``, if it was looked for); start anew if none exists."""
        self.progress = self._state.load(found, warn) or self.progress
        self._sent_before = dict(self.progress.sent)
        before, now = self._state.settings_before, self.config.optim.lr
        if before and before["optim"]["lr"] != now:
            why = f"the run was resumed with --optim.lr {now:g} instead of {before['optim']['lr']:g}"
            self._news.append({"event": "lowered", "epoch": self.progress.epoch, "lr": now, "why": why})
        if self._state.recut:
            counts = {"before": self._state.settings_before["workers"], "workers": self.transport.size}
            self._news.append({"event": "recut", "epoch": self.progress.epoch, **counts, "why": self._state.recut})

    @property
    def recut(self) -> str:
        """How the run that was resumed had been cut, in words, if that was in another way; else empty."""
        return self._state.recut

    def run(self, hooks: Hooks | None = None) -> dict[str, Any]:
        """Train to the end, or until told to stop; return the summary, which is the same on every worker."""
        self.hooks = hooks or self.hooks
        log = EventLog(self.run_folder, self.transport.rank, self.progress.epoch or None)
        log.write("start", time=time.time(), **self._facts())
        for event in self._news:
            log.write(**event)
        status = "finished"
        if self.hooks.keep:
            self._state.start()
            self._cut_events_of_others()
        self.transport.ledger.take()
        if self._goes_back and not self.progress.epoch:
            self._checkpoint()  # so that there is a state to go back to before the first epoch that is saved
        while self.progress.epoch < self.config.epochs and status == "finished":
            try:
                status = self._step(log)
            except NotFiniteError as error:
                log = self._go_back(log, error)
        self._state.finish()
        self.settle()
        best, memory = self.progress.best_epoch, peak_memory(self.runner.device)
        log.write("end", time=time.time(), status=status, best_epoch=best, peak_memory_bytes=memory)
        log.close()
        # This reduction comes after all workers wrote their events, which rank 0 reads for the report.
        memory = largest_memory(self.transport, self.runner.device)
        metric, graph = self.runner.task.metric, self.runner.shard.graph
        facts = (metric, self.progress, memory, status, self.runner.device)
        return summarise(self.config, graph, self.transport.size, *facts)

    def _step(self, log: EventLog) -> str:
        """Train one epoch, and evaluate and save the run if that is due; return how the run stands."""
        status = "finished"
        stop = self._epoch(log)
        due = self._state.hear(self.progress.epoch, self._notes) and self.hooks.keep
        last = self.progress.epoch == self.config.epochs
        if (last or self._due(self.config.eval.every)) and self._evaluate(log):
            status = "early-stopped"
        elif stop and not last:
            status = "stopped"
        if last or status != "finished" or due:
            self._checkpoint()
        return status

    def settle(self) -> None:
        """Wait until every message under way has left or arrived, so that the buffers may be freed."""
        self.runner.peers.drain()
        self.transport.drain()

    def forward_backward(self, epoch: int) -> Tensor:
        """Run one pass forward and backward; return this worker's share of the loss.

        The weight gradients gather in ``self.flat``. Its ``reduce`` must follow: some of them are under way already.
        """
        self.flat.zero()
        self.rows.zero()
        self.flat.where = f"epoch {epoch}, weight gradients"
        return self.runner.forward_backward(epoch, self.flat.complete)

    def logits(self) -> Tensor:
        """Logits of the owned rows (no rows where another stage has the logits), evaluated exactly: float32, fresh,
        nothing dropped."""
        return self.runner.logits()

    def _epoch(self, log: EventLog) -> bool:
        """Train one epoch; return whether some worker was asked to stop."""
        epoch, ledger = self.progress.epoch, self.transport.ledger
        rate = learning_rate(self.config.optim, epoch, self.config.epochs) * LOWER**self.progress.lowered
        self._random = generator_states(self.runner.device)
        wire = self._wire_facts(epoch)
        start = time.perf_counter()
        with ledger.account(TRAIN):
            mine: list[float | Tensor] = [self.forward_backward(epoch)]
            mine += [float(self.hooks.should_stop()), float(wire_bytes(ledger.now)), *self.exchange.take_change()]
            mine += [
                self._seconds_since(start) if self.transport.rank == 0 else 0.0,
                *self._state.notes(),
                self.rows.lost(),
            ]
            with ledger.phase("reduce"):
                loss, stop, sent, change, norm, clock, *self._notes, lost = self.flat.reduce(mine, epoch)
            if lost or not math.isfinite(loss):
                raise self._not_finite(f"epoch {epoch}", self._pass_again(epoch), loss)
            self.steer(loss, clock, change, norm)
            with ledger.phase("optimise"):
                self.flat.clip(self.config.optim.clip, self.runner.line, self.rows)
                self.optimiser.lr = rate
                self.optimiser.step()
        entry = ledger.take()  # a device has done all its work of this epoch when this returns
        seconds = time.perf_counter() - start
        log.write(
            "epoch", epoch=epoch, loss=loss, lr=rate, seconds=seconds, phases=dict(entry.phases),
            wire_bytes=wire_bytes(entry), stage_bytes=entry.sent[STAGE], gradient_bytes=entry.sent[GRADIENT],
            local_bytes=entry.sent[LOCAL],
            exchanges=entry.exchange_list(), **wire,
        )  # fmt: skip
        if (more := self.runner.events(epoch)) is not None:
            log.write("timeline", epoch=epoch, **more)
        self.hooks.observer.epoch(epoch, loss, seconds, int(sent))
        self.progress.epoch = epoch + 1
        self.progress.train_loss = loss
        self.progress.epoch_seconds.append(seconds)
        self.progress.wait_seconds.append(entry.phases["wait"] + entry.phases["reduce"])
        return stop > 0

    def _seconds_since(self, start: float) -> float:
        """Seconds of this epoch's passes; on a device those of the last epoch, as these passes may still be running."""
        if self.runner.device.type == "cpu":
            return time.perf_counter() - start
        return self.progress.epoch_seconds[-1] if self.progress.epoch_seconds else 0.0

    def steer(self, loss: float, seconds: float, change: float, norm: float) -> None:
        """Decide on the next epoch's wire from this epoch's reduced numbers, which are the same on every worker."""
        policy = self.exchange.policy
        synchronise = 0 < policy.freshness.threshold * math.sqrt(norm) < math.sqrt(change)
        if policy.base is not None:
            policy.base.observe(loss, seconds)
            synchronise |= policy.freshness.adaptive and policy.base.synchronous
        self.exchange.synchronise_next = synchronise

    def _wire_facts(self, epoch: int) -> dict[str, Any]:
        """What the losses or the change of the rows decided for ``epoch``: its bits, and whether it is synchronous."""
        policy = self.exchange.policy
        bits = {} if policy.base is None else {"base_bits": policy.base.bits(epoch)}
        if not policy.freshness.delayed and policy.base is None:
            return bits
        return bits | {"synchronous": self.exchange.synchronise_next or policy.freshness.synchronous(epoch)}

    def _due(self, every: int) -> bool:
        """Whether an action that follows each ``every`` epochs is due now; never where ``every`` is 0."""
        return every > 0 and self.progress.epoch % every == 0

    def _evaluate(self, log: EventLog) -> bool:
        """Evaluate, remember the best weights, and return whether it is time to stop early."""
        self._require_finite_weights()
        progress, start = self.progress, time.perf_counter()
        logits = self.logits()
        with self.transport.ledger.account(EVAL):
            metrics = self.runner.task.evaluate(logits, self.transport)
        entry = self.transport.ledger.take()
        if math.isnan(metrics["val"]):
            raise InputError(
                f"the {self.runner.task.metric} of the validation nodes is undefined, they lack a class or are all "
                "alike; use another --task.metric or another split"
            )
        seconds = time.perf_counter() - start
        log.write("eval", epoch=progress.epoch - 1, **metrics, seconds=seconds, wire_bytes=entry.sent[EVAL])
        self.hooks.observer.evaluated(progress.epoch - 1, metrics)
        if not progress.best or is_better(self.runner.task.metric, metrics["val"], progress.best["val"]):
            progress.best = metrics
            progress.best_epoch = progress.epoch - 1
            progress.stale_evaluations = 0
            progress.best_weights = {name: value.clone() for name, value in self.model.state_dict().items()}
        else:
            progress.stale_evaluations += 1
        return 0 < self.config.early_stop <= progress.stale_evaluations

    def _cut_events_of_others(self) -> None:
        """Forget what ranks that the run no longer has wrote of epochs that are trained again."""
        for path in self.run_folder.glob("events-*.jsonl") if self._state.keeper else ():
            rank = path.stem.removeprefix("events-")
            if rank.isdecimal() and int(rank) >= self.transport.size:
                EventLog(self.run_folder, int(rank), self.progress.epoch).close()

    def _checkpoint(self) -> None:
        """Count the bytes that all workers have sent so far, and begin to save the run."""
        self._require_finite_weights()
        now = total_sent(self.transport)
        self.progress.sent = {account: self._sent_before.get(account, 0) + sent for account, sent in now.items()}
        if self.hooks.keep:
            self._state.save(self.progress)

    @property
    def _goes_back(self) -> bool:
        """Whether a value that is not finite sends the run back to its newest checkpoint."""
        return self.config.on_nan == "resume-lower-lr" and self.hooks.keep

    def _require_finite_weights(self) -> None:
        """Raise if a step made weights NaN or infinite: they are neither evaluated nor saved.

        Later epochs would show it in their loss, but the last epoch has none after it.
        """
        lost = torch.tensor([float(not_finite(self.parameters))])
        # Other stages train other weights, and every worker has rows of its own.
        if self.runner.peers.size < self.transport.size or self.rows.values:
            self.transport.all_reduce(lost, "check of the weights", account=None)
        if lost:
            after = f"after epoch {self.progress.epoch - 1}"
            raise self._not_finite(after, look_at_inputs(self.runner), self.progress.train_loss)

    def _pass_again(self, epoch: int) -> Finding:
        """Run ``epoch`` again under a watch, with the same random numbers and every row fresh."""
        self.settle()
        self.runner.forget()
        restore_generators(self._random, self.runner.device)
        watch = Watch()
        with self.transport.ledger.account(SETUP), self.runner.watched(watch):
            loss = self.forward_backward(epoch)
            self.flat.reduce([0.0] * EXTRAS, epoch)
        return look_at_pass(self.runner, watch, loss)

    def _not_finite(self, when: str, mine: Finding, loss: float) -> NotFiniteError:
        """The error for all workers, from what each of them found."""
        found = words(share(mine, self.transport)) or f"the loss is {loss}, but not when the epoch is run again"
        return NotFiniteError(
            f"{when}: {found}; try a smaller --optim.lr, which --resume takes too, --on-nan resume-lower-lr, or "
            "--optim.clip 1 in a new run"
        )

    def _go_back(self, log: EventLog, error: NotFiniteError) -> EventLog:
        """Load the newest checkpoint and halve the learning rate; raise ``error`` if that is not wished for."""
        lowered = self.progress.lowered + 1
        if self.hooks.keep:
            self._state.drop(self.progress.epoch)
        if not self._goes_back or lowered > MOST:
            log.close()
            raise error
        self.settle()
        self.runner.forget()
        loaded = self._state.load()
        assert loaded is not None, "a run that goes back saves its beginning"
        self.progress = loaded
        self.progress.lowered = lowered
        now = total_sent(self.transport)
        self._sent_before = {account: loaded.sent.get(account, 0) - sent for account, sent in now.items()}
        self.transport.ledger.take()
        log.close()
        log = EventLog(self.run_folder, self.transport.rank, loaded.epoch)
        why = str(error).partition(";")[0]
        factor = LOWER**lowered
        log.write("lowered", epoch=loaded.epoch, lr=self.config.optim.lr * factor, why=why)
        self.hooks.warn(
            f"{why}; the run goes back to epoch {loaded.epoch} and goes on with {factor:g} times the learning rate "
            f"({self.config.optim.lr * factor:g})"
        )
        return log

    @property
    def exchange(self) -> HaloExchange | HaloExchanges:
        """The exchange that training uses."""
        return self.runner.exchange

    def _facts(self) -> dict[str, Any]:
        """What the start event says about this worker."""
        shard = self.runner.shard
        return {
            "rank": self.transport.rank, "workers": self.transport.size, "graph": shard.graph,
            "recipe": self.config.recipe, "nodes": shard.num_nodes, "features": self.runner.num_features,
            "classes": shard.num_classes, "metric": self.runner.task.metric, "owned_rows": shard.num_owned,
            "halo_rows": shard.num_halo, "device": self.runner.device.type, **self.runner.facts(),
        }  # fmt: skip


def wire_bytes(entry: LedgerEntry) -> int:
    """Halo and stage bytes sent by this worker in an epoch."""
    return entry.sent[TRAIN] + entry.sent[STAGE]


def learning_rate(config: OptimConfig, epoch: int, epochs: int) -> float:
    """The learning rate of ``epoch`` (0-based) in a run of ``epochs``; a resumed run needs no state for it.

    With ``s`` the share of the run after warm-up, 0 to 1: ``cosine`` is ``lr (1 + cos(pi s)) / 2``, ``linear`` is
    ``lr (1 - s)``, ``step`` is ``lr * step_factor ** floor(epoch / step_every)``. Warm-up multiplies by
    ``(epoch + 1) / warmup`` while that is below 1.
    """
    warm = min(1.0, (epoch + 1) / config.warmup) if config.warmup else 1.0
    share = max(0, epoch - config.warmup) / max(1, epochs - config.warmup)
    factor = 1.0
    if config.schedule == "cosine":
        factor = (1 + math.cos(math.pi * share)) / 2
    elif config.schedule == "linear":
        factor = 1 - share
    elif config.schedule == "step":
        factor = config.step_factor ** (epoch // config.step_every)
    return config.lr * warm * factor
