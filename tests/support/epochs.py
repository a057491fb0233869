"""What epochs of training leave behind, by name: the loss, the logits, every weight gradient; recorded and compared.

A reference has ``epoch(number) -> (loss, gradients)``, which trains, and ``logits(None)``, which evaluates.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from halowire.events import LOCAL, TRAIN
from halowire.training import EXTRAS, Trainer

Epochs = list[dict[str, np.ndarray]]
"""Of every epoch, by name: ``loss``, ``logits`` after it, and the gradients of its weights."""

EXACT = 1e-4


def train_epochs(trainer: Trainer, count: int, steering: Sequence[float] = ()) -> dict[str, Any]:
    """Train ``count`` epochs: the rows of this worker, what it recorded, and the bytes that it sent in every epoch,
    over the network and within its machine.

    Where ``steering`` is given, its values are told to what follows the loss.
    """
    ledger, epochs, sent, local = trainer.transport.ledger, [], [], []
    for epoch in range(count):
        before = dict(ledger.totals)
        with ledger.account(TRAIN):
            loss = trainer.forward_backward(epoch)
        sent.append(ledger.totals[TRAIN] - before[TRAIN])
        local.append(ledger.totals[LOCAL] - before[LOCAL])
        total = trainer.flat.reduce([float(loss)] + [0.0] * (EXTRAS - 1))[0]
        if steering:
            trainer.steer(steering[epoch], 1.0, 0.0, 0.0)
        trainer.flat.clip(trainer.config.optim.clip, trainer.runner.line)
        found = {name: p.grad.numpy().copy() for name, p in trainer.runner.parameters.items()}
        trainer.optimiser.step()
        # An evaluation between two epochs leaves no trace in them.
        epochs.append(found | {"loss": np.array([total]), "logits": trainer.logits().numpy().copy()})
    trainer.settle()  # a worker that only sends may be done before its last message has left
    return {"rows": trainer.runner.shard.rows.numpy(), "epochs": epochs, "sent": sent, "local": local}


def reference_epochs(reference: Any, count: int) -> Epochs:
    """The same of a reference."""
    found = []
    for epoch in range(count):
        loss, grads = reference.epoch(epoch)
        with torch.no_grad():
            logits = reference.logits(None)
        tensors = {"loss": torch.tensor([loss]), "logits": logits} | grads
        found.append({name: value.detach().numpy() for name, value in tensors.items()})
    return found


def compare(results: list[dict[str, Any]], want: Epochs, tolerance: float = EXACT) -> None:
    """Every worker recorded what the reference did, element by element; together they have every weight and row."""
    last = [result for result in results if len(result["epochs"][0]["logits"])]
    rows = np.concatenate([result["rows"] for result in last])
    assert np.array_equal(np.sort(rows), np.arange(len(want[0]["logits"])))
    whole = np.stack([epoch["logits"] for epoch in want])
    whole[:, rows] = np.concatenate([[epoch["logits"] for epoch in result["epochs"]] for result in last], 1)
    for result in results:
        got = [epoch | {"logits": logits} for epoch, logits in zip(result["epochs"], whole, strict=True)]
        words = difference(got, want, tolerance)
        assert not words, words
    assert set().union(*(result["epochs"][0] for result in results)) == want[0].keys()


def difference(got: Epochs, want: Epochs, tolerance: float) -> str:
    """Where |a - b| <= tolerance max|b| does not hold; empty where it does; ``got`` may have only some weights."""
    for epoch, (mine, other) in enumerate(zip(got, want, strict=True)):
        for name, value in mine.items():
            words = too_far(f"{name} of epoch {epoch}", value, other[name], tolerance)
            if words:
                return words
    return ""


def too_far(name: str, got: np.ndarray, want: np.ndarray, tolerance: float) -> str:
    """By how much ``got`` differs from ``want``, where that is too much."""
    worst, limit = float(np.abs(got - want).max()), tolerance * float(np.abs(want).max())
    return "" if worst <= limit else f"{name}: differs by {worst}, allowed {limit}"


def assert_close(name: str, got: np.ndarray, want: np.ndarray) -> None:
    """|a - b| <= 1e-4 max|b|, element by element."""
    words = too_far(name, got, want, EXACT)
    assert not words, words
