"""Learning-rate schedules: pure functions of the epoch, so that a resumed run needs no state for them."""

from __future__ import annotations

import math

from halowire.training.config import OptimConfig


def learning_rate(config: OptimConfig, epoch: int, epochs: int) -> float:
    """The learning rate of ``epoch`` (0-based) in a run of ``epochs``.

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
