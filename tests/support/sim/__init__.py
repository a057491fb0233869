"""A simulated device `sim` for a machine without a GPU: real numbers, and the rules of a separate memory.

Within a :class:`Simulation`, tensors on the device `sim` have values that only the simulation can reach. What CUDA
refuses is refused, and every time that the host waits for the device is counted by file and line.
"""

from tests.support.sim.counts import Counts
from tests.support.sim.fake_nccl import FakeNccl
from tests.support.sim.rules import DeviceError
from tests.support.sim.sim_tensor import SIM, SimTensor, have_device
from tests.support.sim.sim_transport import (
    SimTransport,
    nccl_here,
    nccl_simulated,
    pinned_simulated,
    transport_of,
)
from tests.support.sim.simulation import Simulation
from tests.support.sim.stream_watch import StreamWatch

__all__ = [
    "SIM", "Counts", "DeviceError", "FakeNccl", "SimTensor", "SimTransport", "Simulation", "StreamWatch",
    "have_device", "nccl_here", "nccl_simulated", "pinned_simulated", "transport_of",
]  # fmt: skip
