"""How a layer of a PyG model runs while training: by halowire's kernels or by PyG's own code, and why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from halowire.schedules import NOT_HIDDEN, plain_overlap

NATIVE = "native"
GENERAL = "general"
BOTH = "native and general"
UNUSED = "not trained yet"


@dataclass
class LayerPath:
    """What served one layer's calls in training passes.

    ``kind`` is the layer's class. ``native`` and ``general`` count the calls that halowire's kernels and PyG's own code
    served (a layer that propagates several times is called as often); ``reason`` is why the last general call was not
    native. ``known`` is false for a layer without a fast path, whose calls are not counted; ``sums`` is true for a
    layer whose kernels sum the edges between owned nodes while the halo's rows are under way.
    """

    kind: str
    native: int = 0
    general: int = 0
    reason: str = ""
    known: bool = True
    sums: bool = False

    def count(self, layer: nn.Module, obstacle: str) -> None:
        """Count a training call of ``layer``: served by PyG's own code because of the ``obstacle``, else natively."""
        if not (layer.training and torch.is_grad_enabled()):
            return
        if obstacle:
            self.general += 1
            self.reason = obstacle
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
        """How the layer's exchange was hidden behind computation."""
        if self.sums and self.path == NATIVE:
            return plain_overlap("foreign model")
        reason = "attention takes all rows at once" if self.path == NATIVE else "PyG's own code takes all rows at once"
        return f"{NOT_HIDDEN}: {reason}"

    def record(self) -> dict[str, Any]:
        """The layer's entry in ``summary.json``."""
        return {"kind": self.kind, "path": self.path, "reason": self.reason}


def foreign_overlap(paths: dict[str, LayerPath]) -> dict[str, str]:
    """By layer, how its exchange was hidden, for the report; one entry for a model without PyG layers."""
    if not paths:
        return {"all": f"{NOT_HIDDEN}: the model's own code takes all rows at once"}
    return {name or "all": path.overlap for name, path in paths.items() if path.path != UNUSED}


def first_of(*found: tuple[bool, str]) -> str:
    """The words of the first condition in ``found`` that holds; empty where none does."""
    return next((words for holds, words in found if holds), "")
