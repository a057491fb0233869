"""Process groups and worker processes."""

from halowire.launch.group import Place, choose_device, joined, launched, set_threads
from halowire.launch.interface import interface_to
from halowire.launch.local import FAILED, INTERRUPTED, USAGE, run_local
from halowire.launch.stop import StopWish, stop_wish

__all__ = [
    "FAILED", "INTERRUPTED", "USAGE", "Place", "StopWish", "choose_device", "interface_to", "joined", "launched",
    "run_local", "set_threads", "stop_wish",
]  # fmt: skip
