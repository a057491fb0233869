"""The choice whether rows cross the network once per machine: what forbids it."""

from __future__ import annotations

from halowire.training.config import Config

PUBLISHED = ("sylvie-", "varco", "pipegcn", "bns", "gnnpipe")
"""How the names of recipes begin that run as they were published."""


def against_once(config: Config) -> str:
    """Why every worker must get its rows itself under these settings; empty where a machine can get them once."""
    if config.rate.nodes == "degree":
        return "--rate.nodes degree gives a row other bits for every worker that needs it"
    if config.rate.sums:
        return "--rate.sums gives partial sums other bits than rows"
    if config.rate.rows < 1:
        return "--rate.rows samples other rows for every worker"
    return ""


def use_once(config: Config) -> bool:
    """Whether workers that share a machine get a row of another one once, if that saves rows.

    Gradients that are added up before they are coded are not those of a published recipe: there a setting must ask.
    """
    if config.mesh.hosts == 0 and (config.wire.plain or config.recipe.startswith(PUBLISHED)):
        return False
    return config.mesh.hosts != 1 and not against_once(config)
