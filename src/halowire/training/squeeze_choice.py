"""The choice whether the rows that are sent once before training are deflated."""

from __future__ import annotations

from halowire.training.config import Config

FASTEST = 200.0
"""Mbit/s up to which deflating saves time: zlib reads some 60 megabytes in a second, and halves them or more."""


def squeezes(config: Config) -> bool:
    """Whether they are, under these settings."""
    if config.wire.squeeze == "auto":
        return 0 < config.wire.link <= FASTEST and not config.wire.plain
    return config.wire.squeeze == "on"
