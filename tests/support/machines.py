"""A transport whose workers count as spread over several machines, though one machine runs them."""

from __future__ import annotations

from halowire.training import Config
from halowire.wire import Machines, Transport


def transport_for(config: Config) -> Transport:
    """The transport of a pool's worker, on as many machines as the settings say."""
    transport = Transport()
    transport.machines = Machines.split(transport.size, config.mesh.hosts or 1)
    return transport
