"""Damaged files: checkpoints, shards and graph files whose bytes, length or content are not what they were."""

from __future__ import annotations

import os
import shutil
import sys
import time
import zlib
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

from bench.soak.ground import Case, Ground
from bench.soak.outcome import SURVIVED, BadEndError
from bench.soak.result import checkpoints, epochs_done
from bench.soak.subject import APART, COMMANDS, EXACT
from halowire.graph import block_model
from halowire.graph.npz import write_npz
from halowire.partitioning.manifest import read_manifest, write_manifest

SHARD = "damaged shard"
CONTENT = "shard with bad content and good checksum"
GRAPH_FILE = "damaged graph file"
PREDICT = "predict from a damaged checkpoint"


def flip(ground: Ground, file: Path) -> None:
    """Flip one bit somewhere in a file."""
    data = bytearray(file.read_bytes())
    data[ground.random.randrange(len(data))] ^= 1 << ground.random.randrange(8)
    file.write_bytes(data)


def truncate(ground: Ground, file: Path) -> None:
    """Cut a file short."""
    file.write_bytes(file.read_bytes()[: ground.random.randrange(file.stat().st_size)])


def remove(ground: Ground, file: Path) -> None:
    """Remove a file."""
    file.unlink()


def write(file: Path, text: str) -> None:
    """Write ``text`` in the place of what was there."""
    file.write_text(text)


DAMAGES: dict[str, Callable[[Ground, Path], None]] = {
    "flipped bit": flip, "truncated": truncate, "missing file": remove,
}  # fmt: skip


def checkpoint(ground: Ground, kind: str) -> None:
    """The newest checkpoint of a stopped run is damaged; --resume skips it, or says which to delete."""
    ground.wholes.half(ground.subject, ground.run)
    *_, before, newest = checkpoints(ground.run)
    files = sorted(path for path in newest.rglob("*") if path.is_file() and path.stat().st_size)
    done = epochs_done(ground.run)
    fault = ground.fault(f"damaged checkpoint: {kind}")
    DAMAGES[kind](ground, ground.random.choice(files))
    program, recovered = ground.resume()
    fault.detect = recovered
    if not program.runs and program.process.returncode == 2:
        ground.refused_each(fault, program, [2], "checkpoint")
        shutil.rmtree(newest)  # as the message says
        program, recovered = ground.resume()
    fault.recover = recovered
    fault.lost = done - int(before.name.removeprefix("epoch-"))
    ground.finish(program)
    fault.outcome = fault.outcome or SURVIVED


def predicted(ground: Ground) -> None:
    """`predict` skips a damaged checkpoint with a warning; where all are damaged, it refuses."""
    ground.wholes.half(ground.subject, ground.run)
    words = [sys.executable, "-m", "halowire", "predict", str(ground.run), "--out"]
    newest, *others = reversed(checkpoints(ground.run))
    fault = ground.fault(PREDICT)
    _damage_weights(ground, newest)
    end = ground.begin([*words, "out.npy"]).wait()
    if end.code != 0 or "is skipped" not in end.said:
        raise BadEndError("wrong result", f"exit code {end.code}, expected a skipped checkpoint: {end.said}")
    fault.outcome = SURVIVED
    fault = ground.fault(PREDICT)
    for folder in others:
        _damage_weights(ground, folder)
    ground.refused_each(fault, ground.begin([*words, "none.npy"]), [2], "checkpoint")
    if (ground.folder / "none.npy").exists():
        raise BadEndError("wrong result", "predictions were written from damaged weights")


def _damage_weights(ground: Ground, folder: Path) -> None:
    """Flip a bit in a weight, which no format notices by itself."""
    weights = folder / "state.safetensors"
    data = bytearray(weights.read_bytes())
    data[-ground.random.randrange(1, len(data) // 4)] ^= 1
    weights.write_bytes(data)


def shard(ground: Ground, kind: str) -> None:
    """A shard of a stopped run is damaged; --resume refuses it, and goes on when the shard is whole again."""
    ground.wholes.half(ground.subject, ground.run)
    shards = ground.run / "shards"
    whole = ground.folder / "whole-shards"
    shutil.copytree(shards, whole)
    name = ground.random.choice(sorted(BAD_CONTENT) if kind == "content" else ["x", "inner_indices", "ids", "degree"])
    file = shards / f"part-{ground.random.randrange(2)}" / f"{name}.npy"
    fault = ground.fault(CONTENT if kind == "content" else SHARD)
    if kind == "content":
        _spoil(file, BAD_CONTENT[name])
    else:
        DAMAGES[kind](ground, file)
    ground.refused_each(fault, ground.start("--resume"), [2], name.split("_")[0])
    shutil.rmtree(shards)
    shutil.copytree(whole, shards)
    program, fault.recover = ground.resume()
    ground.finish(program)
    fault.lost = 0


BAD_CONTENT: dict[str, Callable[[np.ndarray], None]] = {
    "inner_indices": lambda values: values.__setitem__(3, 10**6),
    "inner_indptr": lambda values: values.__setitem__(5, values[5] + 10**6),
    "halo_indices": lambda values: values.__setitem__(0, -1),
    "send_index": lambda values: values.__setitem__(-1, 10**6),
    "y": lambda values: values.__setitem__(2, 77),
}
"""What is written into which array, past its rules."""


def _spoil(file: Path, change: Callable[[np.ndarray], None]) -> None:
    """Change the content of a shard's array and make its checksum and the manifest's right again."""
    values = np.load(file)
    change(values)
    np.save(file, values)
    folder = file.parents[1]
    told = read_manifest(folder)
    part = int(file.parent.name.removeprefix("part-"))
    entry = told["parts"][part]["shard"]["files"][file.stem]
    entry["crc32"] = zlib.crc32(file.read_bytes())
    write_manifest(folder, told)


GRAPH_DAMAGES: dict[str, Callable[[Ground, Path], None]] = {
    "flip": flip,
    "truncate": truncate,
    "empty": lambda _, file: os.truncate(file, 0),
    "text": lambda _, file: write(file, "this is no graph\n" * 100),
    "range": lambda _, file: _change_npz(file, "edge_index", lambda v: v.__setitem__((0, 3), 10**9)),
    "infinite": lambda _, file: _change_npz(file, "x", lambda v: v.__setitem__((2, 2), np.nan)),
    "shape": lambda _, file: _change_npz(file, "y", lambda v: None, cut=7),
}


def graph_file(ground: Ground, kind: str) -> None:
    """A graph file is damaged; the command refuses it, and writes nothing."""
    file = ground.folder / "graph.npz"
    write_npz(block_model(400, 2400, 8, 3, seed=0), file)
    good = file.read_bytes()
    fault = ground.fault(GRAPH_FILE)
    for _ in range(20):  # a flipped bit may be in a place that says nothing, such as the time of a file in an archive
        file.write_bytes(good)
        GRAPH_DAMAGES[kind](ground, file)
        if kind != "flip" or _unreadable(file):
            break
    fault.at = time.time()
    ground.refused_each(fault, ground.start(graph=str(file)), [2])
    if ground.run.exists():
        raise BadEndError("left over", "a run folder for a graph that was refused")


def _unreadable(file: Path) -> bool:
    try:
        with np.load(file) as arrays:
            for name in arrays.files:
                arrays[name]
    except Exception:
        return True
    return False


def _change_npz(file: Path, name: str, change: Callable[[np.ndarray], None], cut: int = 0) -> None:
    with np.load(file) as found:
        arrays = {key: found[key].copy() for key in found.files}
    arrays[name] = arrays[name].astype(np.float32 if name == "x" else np.int64)
    change(arrays[name])
    arrays[name] = arrays[name][: len(arrays[name]) - cut]
    np.savez(file, **arrays)


def cases() -> list[Case]:
    """Every damage of a checkpoint for every way of moving rows; of shards for some, of graph files once."""
    found = [
        Case(f"checkpoint-{kind.split()[0]}-{subject.name}", subject, partial(checkpoint, kind=kind))
        for subject in APART
        for kind in list(DAMAGES)[: 1 if subject.workers > 2 else None]
    ]
    found += [Case(f"predict-{s.name}", s, predicted) for s in COMMANDS[:2]]
    shards = [("flipped bit", 0), ("truncated", 1), ("missing file", 3), ("content", 0), ("content", 1)]
    found += [
        Case(f"shard-{kind.split()[0]}-{COMMANDS[place].name}", COMMANDS[place], partial(shard, kind=kind))
        for kind, place in shards
    ]
    return found + [Case(f"graph-{kind}", EXACT, partial(graph_file, kind=kind)) for kind in GRAPH_DAMAGES]
