"""How workers start, find each other and end: processes, process groups, network, failures, signals."""

from halowire.launch.failure import agreed, tell_launcher
from halowire.launch.group import interface_to, join, joined, measure_pairs
from halowire.launch.local import run_local, run_workers, torch_kept
from halowire.launch.place import Place, choose_device, launched, run_folder, set_threads
from halowire.launch.stop import StopWish, stop_wish

__all__ = [
    "Place", "StopWish", "agreed", "choose_device", "interface_to", "join", "joined", "launched", "measure_pairs",
    "run_folder", "run_local", "run_workers", "set_threads", "stop_wish", "tell_launcher", "torch_kept",
]  # fmt: skip
