"""The choice whether rows cross the network once per machine: what forbids it."""

from __future__ import annotations

from halowire.training.config import Config


def against_once(config: Config) -> str:
    """Why every worker must get its rows itself under these settings; empty where a machine can get them once."""
    if config.rate.nodes == "degree":
        return "--rate.nodes degree gives a row other bits for every worker that needs it"
    if config.rate.rows < 1:
        return "--rate.rows samples other rows for every worker"
    return ""


def use_once(config: Config) -> bool:
    """Whether workers that share a machine get a row of another one once, if that saves rows."""
    return config.mesh.hosts != 1 and not against_once(config)
