"""NCCL's rule of streams: from its launch to its wait, a message owns its buffers, whatever the host does meanwhile.

A collective runs on a stream of its own. Work that the host gives to the device in the meantime may run before it,
after it or beside it. So until the wait nobody may write what is sent, and nobody may touch what arrives; and somebody
must hold these tensors, for memory that is let go is given to the next tensor at once. The same holds for a copy to the
host in a stream of its own, until the host has waited for it.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch.utils._pytree import tree_leaves

from tests.support.sim.rules import LIKE, DeviceError, aten
from tests.support.sim.sim_tensor import SimTensor

UNREAD = {*LIKE, aten._unsafe_view.default}
"""Operations that read no values of their tensor."""


class Held(NamedTuple):
    """The bytes ``first`` to ``last`` of a message about ``label``; ``arrives``: they arrive, else they are sent."""

    first: int
    last: int
    arrives: bool
    label: str


class StreamWatch:
    """Knows the buffers of all messages under way, and refuses operations that touch them too early."""

    def __init__(self) -> None:
        self._held: dict[int, list[Held]] = {}
        self._let_go: list[str] = []
        self._lock = threading.RLock()  # memory can be let go at any moment, also within this class

    def launched(self, key: int, sent: Sequence[SimTensor], arriving: Sequence[SimTensor], label: str) -> None:
        """Watch over the buffers of the message ``key``."""
        parts = [(tensor, False) for tensor in sent] + [(tensor, True) for tensor in arriving]
        held = [Held(*span_of(tensor), arrives, label) for tensor, arrives in parts if tensor.numel()]
        for span in held:
            # Two messages may send from one buffer, but nothing may arrive where another message is under way.
            self._judge("a launch", span.first, span.last, span.arrives)
        with self._lock:
            self._held[key] = held

    def waited(self, key: int) -> None:
        """From now on the buffers of the message ``key`` are free."""
        with self._lock:
            self._held.pop(key, None)
        self.refuse_let_go()

    def freed(self, first: int, last: int) -> None:
        """Hear that no tensor holds the bytes ``first`` to ``last`` any longer; the next operation is refused."""
        with self._lock:
            held = [each for message in self._held.values() for each in message]
            found = [each for each in held if each.first < last and first < each.last]
            self._let_go += [f"race: memory of {each.label} is let go before its wait" for each in found]

    def refuse_let_go(self) -> None:
        """Refuse to go on, once memory was let go too early."""
        if self._let_go:
            raise DeviceError(self._let_go[0])

    def touch(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Refuse ``func`` if it touches a buffer that is not free."""
        self.refuse_let_go()
        if not self._held or func in UNREAD:
            return
        schema = func._schema.arguments
        named = [(each, kwargs[each.name]) for each in schema if each.name in kwargs]
        for argument, value in [*zip(schema, args, strict=False), *named]:
            alias = argument.alias_info
            if alias is not None and not alias.is_write:
                continue  # a view reads nothing
            for tensor in tree_leaves(value):
                if isinstance(tensor, SimTensor) and tensor.inner.layout == torch.strided and tensor.numel():
                    self._judge(str(func), *span_of(tensor), alias is not None)

    def _judge(self, what: str, first: int, last: int, writes: bool) -> None:
        with self._lock:
            held = [each for message in self._held.values() for each in message]
        for each in held:
            if each.first < last and first < each.last and (writes or each.arrives):
                touches, way = ("writes" if writes else "reads"), ("arrives" if each.arrives else "is sent")
                raise DeviceError(f"race: {what} {touches} memory that {way} in {each.label}, before its wait")


def span_of(tensor: SimTensor) -> tuple[int, int]:
    """The first address of the values of ``tensor``, and the one after the last."""
    inner = tensor.inner
    reach = sum((size - 1) * stride for size, stride in zip(inner.shape, inner.stride(), strict=True))
    return inner.data_ptr(), inner.data_ptr() + (reach + 1) * inner.element_size()
