"""What torch finds as ``torch.sim``: events in the stream of the device's work, its memory and its generator.

The device's clock counts operations, so that seconds of the host cannot pass for seconds of the device: every operation
takes one millisecond.
"""

from __future__ import annotations

import threading
import weakref
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch.utils.backend_registration import _DummyBackendModule

from tests.support.sim.device_generator import DeviceGenerator
from tests.support.sim.sim_stream import SimStream, Streams


class SimEvent:
    """A place in the stream of the device's work; its time is known only when the host has waited for it."""

    def __init__(self, module: SimModule) -> None:
        self._module = module
        self._at: int | None = None
        self._copies: list[Callable[[], None]] = []

    def record(self, stream: SimStream | None = None) -> None:
        """Put the event behind all operations so far, and behind the copies of ``stream``."""
        self._at = self._module.operations
        self._copies = list((stream or self._module.streams.current).under_way)

    def query(self) -> bool:
        """Whether the device has come to this event: it computes at once."""
        return True

    def synchronize(self) -> None:
        """Let the host wait until the device has come to this event."""
        assert self._at is not None, "the event was never recorded"
        self._module.note_wait("event")
        self._module.reached = max(self._module.reached, self._at)
        for deliver in self._copies:
            deliver()

    def elapsed_time(self, end: SimEvent) -> float:
        """Milliseconds from this event to ``end``; both must have been waited for, as on CUDA."""
        assert self._at is not None and end._at is not None, "the event was never recorded"
        if max(self._at, end._at) > self._module.reached:
            raise RuntimeError("both events must be completed before calculating elapsed time")
        return float(end._at - self._at)


class SimModule(_DummyBackendModule):
    """The module of the device."""

    def __init__(self) -> None:
        self.operations = 0
        self.reached = 0
        self.note_wait: Callable[[str], None] = lambda kind: None
        self.capacity = 1 << 40
        self.memory = DeviceMemory()
        self.generator = DeviceGenerator()
        self.streams = Streams()
        self.casts: tuple[torch.library.Library, ...] = ()
        """What ``torch.autocast`` does on the device."""

    def get_amp_supported_dtype(self) -> list[torch.dtype]:
        """The types that ``torch.autocast`` computes products in."""
        return [torch.bfloat16, torch.float16]

    def count(self) -> None:
        """Count an operation of the current stream."""
        self.operations += 1
        self.streams.current.operations += 1

    def get_rng_state(self, device: object = None) -> torch.Tensor:
        """The state of the generator."""
        return self.generator.state.clone()

    def set_rng_state(self, state: torch.Tensor, device: object = None) -> None:
        """Go on from ``state``."""
        self.generator.state = state.clone()

    def manual_seed_all(self, seed: int) -> None:
        """Begin anew from ``seed``; ``torch.manual_seed`` calls this."""
        self.generator.seed(seed)

    def Event(self, enable_timing: bool = False) -> SimEvent:  # noqa: N802 - torch's name
        """An event that was not recorded yet."""
        return SimEvent(self)

    def Stream(self, device: object = None) -> SimStream:  # noqa: N802 - torch's name
        """A stream of its own."""
        return SimStream(device)

    def current_stream(self, device: object = None) -> SimStream:
        """The stream that gets the work of this thread."""
        return self.streams.current

    def stream(self, stream: SimStream) -> AbstractContextManager[None]:
        """A block whose work ``stream`` gets."""
        return self.streams.use(stream)

    def synchronize(self, device: object = None) -> None:
        """Let the host wait for all work."""
        self.note_wait("synchronize")
        self.reached = self.operations

    def get_device_name(self, device: object = None) -> str:
        """What the device calls itself."""
        return "simulated device"

    def mem_get_info(self, device: object = None) -> tuple[int, int]:
        """Bytes that are free, and all bytes."""
        return self.capacity - self.memory.held, self.capacity

    def memory_allocated(self, device: object = None) -> int:
        """Bytes that tensors hold."""
        return self.memory.held

    def memory_reserved(self, device: object = None) -> int:
        """Bytes that tensors hold: the device keeps none for later."""
        return self.memory.held

    def max_memory_allocated(self, device: object = None) -> int:
        """The most bytes that tensors held at once."""
        return self.memory.peak

    def reset_peak_memory_stats(self, device: object = None) -> None:
        """Count the most bytes from now on."""
        self.memory.peak = self.memory.held


class DeviceMemory:
    """Counts the bytes of all storages that tensors of the device hold; views share a storage."""

    def __init__(self) -> None:
        self.held = 0
        self.peak = 0
        self.on_free: Callable[[int, int], None] = forget_free
        """Hears of memory that no tensor holds any longer: its first address, and the one after the last."""
        self._tensors: Counter[int] = Counter()
        self._refs: dict[int, tuple[weakref.ref[Any], list[tuple[int, int]]]] = {}
        self._lock = threading.RLock()

    def hold(self, tensor: torch.Tensor, inner: torch.Tensor) -> None:
        """Count the storage of ``inner`` for as long as ``tensor``, or another that shares it, lives."""
        stores = [part.untyped_storage() for part in _dense_parts(inner)]
        keys = [(store.data_ptr(), store.nbytes()) for store in stores if store.nbytes()]
        number = id(tensor)
        with self._lock:
            for key, nbytes in keys:
                self.held += nbytes if not self._tensors[key] else 0
                self._tensors[key] += 1
            self.peak = max(self.peak, self.held)
            self._refs[number] = weakref.ref(tensor, lambda _: self._release(number, keys)), keys

    def let_go(self, tensor: torch.Tensor) -> None:
        """Count no longer what ``tensor`` holds, which gets other memory."""
        with self._lock:
            self._release(id(tensor), self._refs[id(tensor)][1])

    def _release(self, number: int, keys: list[tuple[int, int]]) -> None:
        with self._lock:
            del self._refs[number]
            for key, nbytes in keys:
                self._tensors[key] -= 1
                if not self._tensors[key]:
                    del self._tensors[key]
                    self.held -= nbytes
                    self.on_free(key, key + nbytes)


def forget_free(first: int, last: int) -> None:
    """Do nothing about memory that no tensor holds any longer."""


def _dense_parts(inner: torch.Tensor) -> list[torch.Tensor]:
    """The dense tensors that hold the values of ``inner``."""
    if inner.layout == torch.sparse_csr:
        return [inner.crow_indices(), inner.col_indices(), inner.values()]
    if inner.layout != torch.strided:
        return []
    return [inner]
