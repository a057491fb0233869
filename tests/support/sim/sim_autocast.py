"""``torch.autocast("sim")``: products of the device are computed in the type of the block, as on CUDA and the CPU."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch._C import DispatchKey, DispatchKeySet, _ExcludeDispatchKeyGuard  # type: ignore[attr-defined]
from torch.utils._pytree import tree_map

PRODUCTS = ("linear", "mm", "addmm", "bmm", "baddbmm", "matmul")
KEY = "AutocastPrivateUse1"


def cast_products(device: str) -> tuple[torch.library.Library, torch.library.Library]:
    """Cast the arguments of products within ``torch.autocast(device)``, for as long as the result is held."""
    others, products = torch.library.Library("_", "IMPL"), torch.library.Library("aten", "IMPL")
    others.fallback(torch.library.fallthrough_kernel, KEY)
    for name in PRODUCTS:
        products.impl(name, _casting(getattr(torch.ops.aten, name).default, device), KEY)
    return others, products


def _casting(operation: Any, device: str) -> Any:
    def run(*args: Any, **kwargs: Any) -> Any:
        kind = torch.get_autocast_dtype(device)

        def cast(value: Any) -> Any:
            return value.to(kind) if isinstance(value, Tensor) and value.dtype == torch.float32 else value

        with _ExcludeDispatchKeyGuard(DispatchKeySet(getattr(DispatchKey, KEY))):
            return operation(*tree_map(cast, args), **tree_map(cast, kwargs))

    return run
