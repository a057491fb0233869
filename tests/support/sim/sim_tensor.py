"""A tensor on the device `sim`: its values are in a CPU tensor that only the simulation reads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import torch
from torch.autograd import Function
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

from tests.support.sim.device_module import SimModule
from tests.support.sim.rules import DeviceError
from tests.support.sim.sim_autocast import cast_products

SIM = "sim"
FAR = 1 << 62
"""Added to addresses: native code that followed one would crash, as it would with an address of a GPU's memory."""
Dispatch = Callable[[Any, Sequence[type], tuple[Any, ...], dict[str, Any] | None], Any]
_without_mode: list[Dispatch] = []


@cache
def install() -> SimModule:
    """Register the device `sim`, once per process; from then on torch believes that it has an accelerator.

    Autograd counts the devices at its first backward pass, so this must come before it.
    """
    module = SimModule()
    _setup_privateuseone_for_python_backend(SIM, backend_module=module)
    module.casts = cast_products(SIM)
    return module


def have_device(rank: int) -> None:
    """Give the worker process ``rank`` the device, before it does anything else."""
    install()


def serve_other_threads(dispatch: Dispatch) -> None:
    """Let ``dispatch`` run the operations of threads that did not enter a simulation."""
    _without_mode[:] = [dispatch]


class SimTensor(torch.Tensor):
    """A tensor whose values are those of ``inner``; no operation but the simulation's may read ``inner``."""

    inner: torch.Tensor
    __slots__ = ("inner",)

    @staticmethod
    def __new__(cls: type[SimTensor], inner: torch.Tensor) -> SimTensor:
        """Wrap ``inner``, dense or sparse."""
        layout: dict[str, Any] = {}
        if inner.layout == torch.strided:
            layout = {"strides": inner.stride(), "storage_offset": inner.storage_offset()}
        made = torch.Tensor._make_wrapper_subclass(
            cls, inner.shape, dtype=inner.dtype, device=torch.device(SIM, 0), requires_grad=False, **layout
        )
        made.inner = inner
        install().memory.hold(made, inner)
        return made

    @classmethod
    def __torch_dispatch__(
        cls, func: Any, types: Sequence[type], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run ``func`` for a thread that did not enter the simulation."""
        return _without_mode[0](func, types, args, kwargs)

    def as_subclass(self, cls: type[torch.Tensor]) -> torch.Tensor:
        """The same values as a tensor of the device that is also a ``cls``; gradients pass."""
        return _Mark.apply(self, _both(cls))

    @property
    def data(self) -> torch.Tensor:
        """The same values without a gradient."""
        return self.detach()

    @data.setter
    def data(self, values: SimTensor) -> None:
        """Take the shape and the memory of ``values``; the tensor stays the same object."""
        torch.Tensor.data.__set__(self, values)  # type: ignore[attr-defined]
        memory = install().memory
        memory.let_go(self)
        self.inner = values.inner
        memory.hold(self, self.inner)

    def data_ptr(self) -> int:
        """An address that tells tensors apart, and that nobody can read from."""
        return self.inner.data_ptr() | FAR

    def untyped_storage(self) -> Any:
        """The memory of the values, which reversible layers give back until backward computes them again."""
        return self.inner.untyped_storage()

    def numpy(self, *args: Any, **kwargs: Any) -> Any:
        """Refuse, as CUDA does."""
        raise DeviceError("numpy() of a device tensor: copy it to the host first")

    def tolist(self) -> Any:
        """The values as Python numbers; the host waits for them."""
        return self.detach().cpu().tolist()

    def __deepcopy__(self, memo: dict[int, Any]) -> torch.Tensor:
        """A copy on the device; a parameter stays one."""
        made = self.detach().clone()
        copy = torch.nn.Parameter(made, self.requires_grad) if isinstance(self, torch.nn.Parameter) else made
        memo[id(self)] = copy.requires_grad_(self.requires_grad)
        return copy

    def __repr__(self, **kwargs: Any) -> str:
        """The type and shape; values would need a wait."""
        return f"SimTensor({self.inner.dtype}, {list(self.inner.shape)})"


class _Mark(Function):
    """Makes a tensor of the device one of another class, as ``as_subclass`` does for others."""

    @staticmethod
    def forward(ctx: Any, values: SimTensor, kind: type[SimTensor]) -> torch.Tensor:
        return kind(values.inner)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor, None]:
        return grads[0], None


@cache
def _both(cls: type[torch.Tensor]) -> type[SimTensor]:
    """The class of tensors that are on the device and of ``cls``, whose rules for functions they keep."""
    if cls is torch.Tensor:
        return SimTensor
    own = {"__new__": SimTensor.__new__, "__torch_dispatch__": SimTensor.__torch_dispatch__}
    return type(f"Sim{cls.__name__}", (cls, SimTensor), own)
