"""The mesh: workers as stages x parts, and the groups of workers that exchange messages."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import torch.distributed as dist

from halowire.errors import InputError
from halowire.wire import Circle, Transport, pairs_of

CHUNKS_PER_STAGE = 4


@dataclass(frozen=True)
class Mesh:
    """``stages`` x ``parts`` workers; worker ``stage * parts + part`` holds some blocks of the model and one part.

    Each part moves through the stages in ``chunks`` chunks. One stage is graph parallelism, one part is GNNPipe.
    """

    stages: int = 1
    parts: int = 1
    chunks: int = 1

    @staticmethod
    def of(stages: int, parts: int, chunks: int, workers: int, blocks: int | None = None) -> Mesh:
        """The mesh of ``workers``. 0 stages or parts: found from the other number; 0 chunks: 4 x stages, or one.

        ``blocks`` is the model's number of blocks, if known: an error names no mesh with more stages as possible.
        """
        for name, value in (("stages", stages), ("parts", parts), ("chunks", chunks)):
            if value < 0:
                raise InputError(f"--mesh.{name} is {value}; it must be at least 1, or 0 to let halowire choose")
        given = {"stages": stages, "parts": parts}
        if not stages and not parts:
            stages = 1
        stages = stages or max(1, workers // parts)
        parts = parts or max(1, workers // stages)
        if stages * parts != workers:
            asked = " and ".join(f"--mesh.{name} {value}" for name, value in given.items() if value)
            possible = _possible(workers, workers if blocks is None else blocks)
            raise InputError(f"a mesh of {workers} workers cannot have {asked}; possible stages x parts: {possible}")
        return Mesh(stages, parts, chunks or (CHUNKS_PER_STAGE * stages if stages > 1 else 1))

    @property
    def workers(self) -> int:
        """Number of workers."""
        return self.stages * self.parts

    def rank(self, stage: int, part: int) -> int:
        """The rank of the worker at ``stage`` and ``part``."""
        return stage * self.parts + part

    def place(self, rank: int) -> tuple[int, int]:
        """Stage and part of a worker."""
        return divmod(rank, self.parts)

    def refuse_impossible(self, blocks: int, least_nodes: int) -> None:
        """Refuse more stages than the model has blocks, and more chunks than the smallest part has nodes."""
        if self.stages > blocks:
            raise InputError(
                f"{self.stages} stages cannot share {blocks} blocks, each stage needs one; possible stages x parts "
                f"for {self.workers} workers: {_possible(self.workers, blocks)}; or give the model more --model.layers"
            )
        if self.chunks > max(1, least_nodes):
            raise InputError(
                f"{self.chunks} chunks ({CHUNKS_PER_STAGE} x stages where nothing is said) cannot share the smallest "
                f"part's {least_nodes} nodes; use --mesh.chunks 1 to {max(1, least_nodes)}, or fewer parts"
            )


def _possible(workers: int, most_stages: int) -> str:
    """The meshes of ``workers`` with at most ``most_stages`` stages, as text: ``1 x 4, 2 x 2``."""
    return ", ".join(f"{s} x {workers // s}" for s in range(1, min(workers, most_stages) + 1) if workers % s == 0)


@dataclass(frozen=True, eq=False)
class Seat:
    """One worker's place in the mesh, and its transports.

    Attributes:
        world: the transport to all workers, for loss, counts and the wish to stop.
        peers: the transport to the other parts of the same stage, for weight gradients and halos.
        line: the transport to the other stages of the same part, for chunks on their way through the model.
    """

    mesh: Mesh
    stage: int
    part: int
    world: Transport
    peers: Transport
    line: Transport

    @staticmethod
    def of(mesh: Mesh, world: Transport) -> Seat:
        """This worker's seat; all workers must call this together."""
        stage, part = mesh.place(world.rank)
        if mesh.workers == 1:
            return Seat(mesh, 0, 0, world, world, world)
        stages, lines = _circles(dist.group.WORLD, mesh.stages, mesh.parts, world.deadline)
        peers, line = (
            world if mesh.workers == circle_size else world.among(circle)
            for circle, circle_size in ((stages[stage], mesh.parts), (lines[part], mesh.stages))
        )
        if line.has_pairs and mesh.stages > 1:
            borders = _pairs(dist.group.WORLD, mesh.stages, mesh.parts, world.deadline)[part]
            near = {stage - 1: borders[stage - 1] if stage else None, stage + 1: (*borders, None)[stage]}
            line.use_pairs({other: group for other, group in near.items() if group is not None})
        return Seat(mesh, stage, part, world, peers, line)

    @property
    def first(self) -> bool:
        """Whether this worker's stage reads the features."""
        return self.stage == 0

    @property
    def last(self) -> bool:
        """Whether this worker's stage computes the loss."""
        return self.stage == self.mesh.stages - 1


def forget_circles() -> None:
    """Drop the process groups of all meshes, before the default group is destroyed."""
    _circles.cache_clear()
    _pairs.cache_clear()


@cache
def _circles(world: dist.ProcessGroup, stages: int, parts: int, deadline: float) -> tuple[list[Circle], list[Circle]]:
    """The circle of every stage and of every line of stages; all seats of a process share one set of groups."""
    mesh = Mesh(stages, parts)
    if stages == 1 or parts == 1:
        whole = Circle(tuple(range(mesh.workers)), None, None)
        alone = [Circle((rank,), None, None) for rank in range(mesh.workers)]
        return ([whole], alone) if stages == 1 else (alone, [whole])
    by_stage = [Circle.of([mesh.rank(stage, part) for part in range(parts)], deadline) for stage in range(stages)]
    by_part = [Circle.of([mesh.rank(stage, part) for stage in range(stages)], deadline) for part in range(parts)]
    return by_stage, by_part


@cache
def _pairs(world: dist.ProcessGroup, stages: int, parts: int, deadline: float) -> list[list[dist.ProcessGroup | None]]:
    """For every part, a process group for the two workers at each border of its stages, see :func:`pairs_of`."""
    mesh = Mesh(stages, parts)
    return [pairs_of([mesh.rank(stage, part) for stage in range(stages)], deadline) for part in range(parts)]
