"""How a layer of a foreign model runs while training: by halowire's kernels or by PyG's general path, and why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from halowire.layers.overlap import NOT_HIDDEN, plain_overlap

NATIVE, GENERAL, BOTH, UNUSED = "native", "general", "native and general", "not trained yet"


@dataclass
class LayerPath:
    """What served one layer's calls in training passes.

    ``kind`` is its class, ``native`` and ``general`` count the calls that halowire's kernels and PyG's own code served
    (a layer that propagates several times is called as often), ``reason`` is why the last general one was not native.
    ``known`` is false of a layer without a fast path, whose calls are not counted; ``sums`` is true of one whose
    kernels sum own edges while the halo's rows fly.
    """

    kind: str
    native: int = 0
    general: int = 0
    reason: str = ""
    known: bool = True
    sums: bool = False

    def count(self, layer: nn.Module, obstacle: str) -> None:
        """A call was served, in general because of the ``obstacle``, natively if there was none."""
        if not (layer.training and torch.is_grad_enabled()):
            return
        if obstacle:
            self.general, self.reason = self.general + 1, obstacle
        else:
            self.native += 1

    @property
    def path(self) -> str:
        """``native``, ``general``, ``native and general`` (it changed from call to call) or ``not trained yet``."""
        if not self.known:
            return GENERAL
        if self.native and self.general:
            return BOTH
        return NATIVE if self.native else GENERAL if self.general else UNUSED

    @property
    def overlap(self) -> str:
        """How its exchange was hidden."""
        if self.sums and self.path == NATIVE:
            return plain_overlap("foreign model")
        reason = "attention takes all rows at once" if self.path == NATIVE else "PyG's own code takes all rows at once"
        return f"{NOT_HIDDEN}: {reason}"

    def record(self) -> dict[str, Any]:
        """As it is written to ``summary.json``."""
        return {"kind": self.kind, "path": self.path, "reason": self.reason}


def foreign_overlap(paths: dict[str, LayerPath]) -> dict[str, str]:
    """How the exchange of every layer was hidden, for the report; of a model without PyG layers, as a whole."""
    if not paths:
        return {"all": f"{NOT_HIDDEN}: the model's own code takes all rows at once"}
    return {name or "all": path.overlap for name, path in paths.items() if path.path != UNUSED}


def first_of(*found: tuple[bool, str]) -> str:
    """The words of the first condition that holds; empty where none does."""
    return next((words for holds, words in found if holds), "")
