"""The simulation itself: runs every operation on its device with the values in its own memory, by the device's rules.

Messages from memory of the device stand for NCCL: they travel over the real process group, between the simulations of
several processes. Autograd has one thread per device and process, so two workers need two processes.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode, return_and_correct_aliasing
from torch.utils._pytree import tree_leaves, tree_map

from tests.support.sim.counts import Counts
from tests.support.sim.device_module import forget_free
from tests.support.sim.fused_cells import CELLS
from tests.support.sim.rules import COPIES, INDEXING, LIKE, WAITS, DeviceError, aten
from tests.support.sim.sim_stream import is_pinned, late_copy, pin
from tests.support.sim.sim_tensor import SIM, SimTensor, install, serve_other_threads
from tests.support.sim.stream_watch import StreamWatch

FIRST_COPY = 1 << 40
"""Numbers of copies to the host, above those of all messages."""


class Simulation(TorchDispatchMode):
    """A block in which the device `sim` exists; autograd's threads inherit it, other threads enter it themselves."""

    def __init__(self, counts: Counts | None = None) -> None:
        self.module = install()
        super().__init__()
        self.counts = counts or Counts()
        self.watch: StreamWatch | None = None
        """Set where a real transport carries the device's messages: then the rules of streams hold too."""
        self._keys = itertools.count(FIRST_COPY)

    def watch_streams(self, watch: StreamWatch | None) -> None:
        """Keep the rules of streams from now on, as ``watch`` knows them, or no longer."""
        self.watch = watch
        self.module.memory.on_free = forget_free if watch is None else watch.freed

    def __enter__(self) -> Simulation:
        """Begin; ``torch.tensor(.., device="sim")`` makes a CPU tensor and copies it, as on CUDA."""
        serve_other_threads(self.__torch_dispatch__)
        self.module.note_wait = self.counts.note_wait
        torch._C._set_only_lift_cpu_tensors(True)
        super().__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        """End."""
        super().__exit__(*error)
        self.watch_streams(None)
        torch._C._set_only_lift_cpu_tensors(False)

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run one operation; those that touch no tensor of the device run as ever."""
        kwargs = dict(kwargs or {})
        tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
        held = [tensor for tensor in tensors if isinstance(tensor, SimTensor)]
        if not held and not _names(kwargs.get("device"), SIM):
            return pin(func(*args, **kwargs)) if kwargs.pop("pin_memory", False) else func(*args, **kwargs)
        if self.watch is not None and func.namespace == "aten":
            self.watch.touch(func, args, kwargs)
        if func.namespace == "c10d":
            return self._send(func, args, kwargs, len(held) == len(tensors))
        self.module.count()
        if func is aten.copy_.default and len(held) == 1 and _is_late(args, kwargs) and is_pinned(args[0]):
            return self._copy_late(args[0], args[1])
        stays = self._judge(func, args, kwargs, held, tensors)
        with self._generator_of(func, kwargs):
            out = CELLS.get(func, func)(*tree_map(_inner, args), **_on_the_host(kwargs))
        if func is aten.copy_.default:
            return args[0]
        if not stays:
            return out
        wrapped = _wrap(out, held)
        # Results that share memory with an argument must say so; of sparse tensors torch cannot know it.
        dense = all(leaf.layout == torch.strided for leaf in tree_leaves(out) if isinstance(leaf, torch.Tensor))
        return return_and_correct_aliasing(func, args, kwargs, wrapped) if held and dense else wrapped

    def _send(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], whole: bool) -> Any:
        """Let a message or a sum travel over the process group, from the values of the device's tensors."""
        if not whole:
            raise DeviceError(f"{func}: buffers of one message are on the device and on the CPU")
        if self.watch is not None:
            raise DeviceError(f"{func}: NCCL takes all-to-alls, sums, broadcasts, and sends and receives in batches")
        self.counts.note(self.counts.messages, str(func))
        return func(*tree_map(_inner, args), **tree_map(_inner, kwargs))

    def _generator_of(self, func: Any, kwargs: dict[str, Any]) -> AbstractContextManager[None]:
        """The block in which ``func`` runs: what it draws comes from the generator of the device."""
        if torch.Tag.nondeterministic_seeded not in func.tags:
            return nullcontext()
        if kwargs.get("generator") is not None:
            raise DeviceError(f"{func}: values of the device cannot be drawn from a generator of the CPU")
        return self.module.generator.drawing()

    def _judge(
        self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], held: list[SimTensor], tensors: list[Any]
    ) -> bool:
        """Count or refuse what ``func`` does by the device's rules; returns whether its results are on the device."""
        if func in COPIES:
            return self._copy(args[1], isinstance(args[0], SimTensor), _is_late(args, kwargs))
        if func is aten._to_copy.default:
            device = kwargs.get("device")
            to_device = isinstance(args[0], SimTensor) if device is None else _names(device, SIM)
            return self._copy(args[0], to_device, bool(kwargs.get("non_blocking")))
        if func in LIKE and kwargs.get("device") is not None:
            return _names(kwargs["device"], SIM)
        if func in INDEXING:
            self._index(func, args)
            tensors = [value for value in (args[0], *args[2:3]) if isinstance(value, torch.Tensor)]
        elif func in WAITS and kwargs.get("output_size") is None:
            self.counts.note(self.counts.waits, WAITS[func])
        # Numbers in CPU tensors without a dimension are passed along with the operation.
        foreign = [tensor for tensor in tensors if not isinstance(tensor, SimTensor) and tensor.dim()]
        if held and foreign:
            shapes = ", ".join(str(list(tensor.shape)) for tensor in foreign)
            raise DeviceError(f"{func}: tensors on the device and on the CPU (of shape {shapes}) meet")
        return func is not aten._local_scalar_dense.default  # whose result is a number of Python

    def _copy(self, source: torch.Tensor, to_device: bool, non_blocking: bool) -> bool:
        """Count a copy between the memories; all but a copy to the device that need not block wait for the device.

        From memory that is not pinned CUDA may block all the same, because it stages the copy, so it counts as a wait.
        """
        if isinstance(source, SimTensor) == to_device:
            return to_device
        kind = "copy to the device" if to_device else "copy to the host"
        self.counts.note(self.counts.copies, kind)
        if not (to_device and non_blocking and is_pinned(source)):
            self.counts.note(self.counts.waits, kind)
        return to_device

    def _copy_late(self, host: torch.Tensor, source: SimTensor) -> torch.Tensor:
        """Begin a copy to pinned memory of the host, in the current stream."""
        self.counts.note(self.counts.copies, "copy to the host")
        streams = self.module.streams
        stream, key, watch = streams.current, next(self._keys), self.watch
        stream.refuse_unordered(streams.computing)
        aside = watch is not None and stream is not streams.computing

        def over() -> None:
            stream.under_way.remove(deliver)
            if watch is not None and aside:
                watch.waited(key)

        deliver = late_copy(host, source.inner, over)
        stream.under_way.append(deliver)
        if watch is not None and aside:
            watch.launched(key, [source], [], "a copy to the host")
        return host

    def _index(self, func: Any, args: tuple[Any, ...]) -> None:
        """Count what index tensors cost: those of the CPU are copied, and of a mask the host must know the size."""
        for index in args[1]:
            if isinstance(index, torch.Tensor) and not isinstance(index, SimTensor):
                self.counts.note(self.counts.copies, "CPU index")
                self.counts.note(self.counts.waits, "CPU index")
            elif index is not None and index.dtype in (torch.bool, torch.uint8):
                self.counts.note(self.counts.waits, "mask as index")


def _is_late(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether a copy with these arguments need not be over when the host goes on."""
    return (len(args) > 2 and bool(args[2])) or bool(kwargs.get("non_blocking"))


def _names(device: Any, kind: str) -> bool:
    return device is not None and torch.device(device).type == kind


def _inner(value: Any) -> Any:
    return value.inner if isinstance(value, SimTensor) else value


def _on_the_host(kwargs: dict[str, Any]) -> dict[str, Any]:
    """The arguments with the values of tensors, and with the CPU in place of the device."""
    kwargs = tree_map(_inner, kwargs)
    if _names(kwargs.get("device"), SIM):
        kwargs["device"] = torch.device("cpu")
    return kwargs | ({"pin_memory": False} if kwargs.get("pin_memory") else {})


def _wrap(out: Any, held: list[SimTensor]) -> Any:
    """``out`` with its tensors on the device; a tensor that was an argument is that argument again."""
    known: dict[int, torch.Tensor] = {id(tensor.inner): tensor for tensor in held}

    def wrap(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        if id(value) not in known:
            known[id(value)] = SimTensor(value)
        return known[id(value)]

    return tree_map(wrap, out)
