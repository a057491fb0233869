"""Process groups and worker processes."""

from halowire.launch.agree import agreed
from halowire.launch.failure import tell_launcher
from halowire.launch.group import Place, choose_device, joined, launched, set_threads
from halowire.launch.interface import interface_to
from halowire.launch.local import run_local, run_workers, torch_kept
from halowire.launch.roundtrip import measure_pairs
from halowire.launch.run_folder import run_folder
from halowire.launch.session import join
from halowire.launch.stop import StopWish, stop_wish

__all__ = [
    "Place", "StopWish", "agreed", "choose_device", "interface_to", "join", "joined", "launched", "measure_pairs",
    "run_folder", "run_local", "run_workers", "set_threads", "stop_wish", "tell_launcher", "torch_kept",
]  # fmt: skip
