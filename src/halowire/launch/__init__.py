"""Process groups and worker processes."""

from halowire.launch.agree import agreed
from halowire.launch.failure import FAILED, INTERRUPTED, USAGE, WorkerError, system_error, tell_launcher
from halowire.launch.group import Place, choose_device, joined, launched, set_threads
from halowire.launch.interface import interface_to
from halowire.launch.local import run_local
from halowire.launch.stop import StopWish, stop_wish

__all__ = [
    "FAILED", "INTERRUPTED", "USAGE", "Place", "StopWish", "WorkerError", "agreed", "choose_device", "interface_to",
    "joined", "launched", "run_local", "set_threads", "stop_wish", "system_error", "tell_launcher",
]  # fmt: skip
