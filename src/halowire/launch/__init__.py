"""How workers start, find each other and end: processes, process groups, network, failures, signals."""

from halowire.launch.by_store import told_by_store
from halowire.launch.device_choice import choose_device, device_words, refuse_missing_means, refuse_other_kinds
from halowire.launch.failure import tell_launcher
from halowire.launch.folder_lock import folder_locked, lock_shared
from halowire.launch.group import joined, measure_pairs
from halowire.launch.interface import interface_to
from halowire.launch.kernels_by_rank import twins_by_rank
from halowire.launch.local import run_local, run_workers, torch_kept
from halowire.launch.place import Place, launched, named_folder, refuse_crowd, run_folder, set_threads
from halowire.launch.preparation import prepare_together
from halowire.launch.private_folder import private_folder
from halowire.launch.script import device_here, join, say_device
from halowire.launch.stop import SIGNALS, StopWish, signals_kept, stop_wish

__all__ = [
    "SIGNALS", "Place", "StopWish", "choose_device", "device_here", "device_words", "folder_locked", "interface_to",
    "join", "joined", "launched", "lock_shared", "measure_pairs", "named_folder", "prepare_together",
    "private_folder", "refuse_crowd", "refuse_missing_means", "refuse_other_kinds", "run_folder", "run_local",
    "run_workers", "say_device", "set_threads", "signals_kept", "stop_wish", "tell_launcher", "told_by_store",
    "torch_kept", "twins_by_rank",
]  # fmt: skip
