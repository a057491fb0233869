"""Refusals of attention: settings that have no meaning for GAT, or none without it."""

from __future__ import annotations

from halowire.errors import InputError
from halowire.kernels import MOST_HEADS
from halowire.schedules.mesh import Mesh
from halowire.training.config import Config, ModelConfig


def refuse_gat(config: Config, mesh: Mesh) -> None:
    """Refuse heads that cannot be or are not used, and what attention cannot do."""
    model, rate = config.model, config.rate
    if model.name != "gat":
        if model.heads != ModelConfig().heads:
            raise InputError(f"--model.heads has no effect on --model.name {model.name}; leave it out, or use gat")
        return
    if not 1 <= model.heads <= MOST_HEADS:
        raise InputError(f"--model.heads is {model.heads}; it must lie in 1 to {MOST_HEADS}")
    if model.layers > 1 and model.hidden % model.heads:
        raise InputError(
            f"--model.heads {model.heads} does not divide --model.hidden {model.hidden}, the heads' columns together; "
            "change one of them"
        )
    if mesh.stages > 1 or mesh.chunks > 1:
        raise InputError(
            "--model.name gat runs in one stage and one chunk: its softmax needs all edges of a row at once; "
            "use --mesh.stages 1 and --mesh.chunks 1, or another model"
        )
    if rate.rows < 1:
        raise InputError(
            "--rate.rows has no meaning for --model.name gat: a row that does not arrive has no score, and scaling the "
            "others would change theirs; use fewer bits or columns"
        )
    if rate.resend_input:
        raise InputError("--rate.resend-input belongs to gcn and sage in one stage; leave it out")
