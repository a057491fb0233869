"""The situation that settings are used in: who asks, on which mesh, with what beside them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from halowire.schedules import Mesh
from halowire.training.config import Config

Caller = Literal["train", "fit", "distribute", "pairs"]
"""Who uses the settings: `train` and `compare`, ``fit``, ``distribute``, or ``shard_links``."""


@dataclass(frozen=True)
class Situation:
    """What is known, beside the settings, where they are used.

    Attributes:
        mesh: stages, parts and chunks of the run; None while the number of workers is not known.
        caller: who uses the settings.
        given: names of the settings that the user gave, as opposed to those that a recipe filled.
        codec: a codec of the user's own codes the rows.
        drops: the user's model drops values or edges before its rows travel.
        outputs: columns of the model's output; None while the graph is not known.
    """

    mesh: Mesh | None = None
    caller: Caller = "train"
    given: Sequence[str] = ()
    codec: bool = False
    drops: bool = False
    outputs: int | None = None

    @property
    def own_model(self) -> bool:
        """Whether the model is the user's own."""
        return self.caller in ("fit", "distribute")

    @property
    def several_stages(self) -> bool:
        """Whether the layers are split over several stages."""
        return self.mesh is not None and self.mesh.stages > 1

    @property
    def several_chunks(self) -> bool:
        """Whether a part moves through the stages in several chunks."""
        return self.mesh is not None and self.mesh.chunks > 1

    @property
    def several_parts(self) -> bool:
        """Whether the nodes are split over several parts."""
        return self.mesh is not None and self.mesh.parts > 1

    @property
    def one_stage(self) -> bool:
        """Whether it is known that there is one stage."""
        return self.mesh is not None and self.mesh.stages == 1

    @property
    def one_chunk(self) -> bool:
        """Whether it is known that there is one chunk."""
        return self.mesh is not None and self.mesh.chunks == 1


def mesh_of(config: Config, workers: int) -> Mesh:
    """The mesh that the settings ask for."""
    return Mesh.of(config.mesh.stages, config.mesh.parts, config.mesh.chunks, workers, config.model.layers)


def pipelined(config: Config, mesh: Mesh) -> bool:
    """Whether chunks through stages is the schedule: with several of either, or where aggregates alone are kept."""
    return mesh.stages > 1 or mesh.chunks > 1 or config.mesh.keep == "aggregates"
