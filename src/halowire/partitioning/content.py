"""What the arrays of a shard must hold, so that no number from a file is trusted by the code that computes with it.

Checksums find files that were damaged; this finds files that are whole but wrong: made by a faulty program, put
together from several cuts, or changed on purpose.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from halowire.errors import InputError
from halowire.kernels import Csr, first_outside, mark, peer_digests
from halowire.partitioning.array_files import LIMIT, REMEDY, Expected, between, finite, ordered, rising
from halowire.partitioning.shard import Shard

EDGE = "tensor_"
"""The beginning of the names of edge tensors on disk; their rows have the order of the two matrices."""
NEEDED = (
    "ids", "rows", "halo_ids", "degree", "symmetric_degree", "send_index", "inner_indptr", "inner_indices",
    "halo_indptr", "halo_indices",
)  # fmt: skip
MASKS = ("train_mask", "val_mask", "test_mask")
RUNS_OF_ROWS = "boundary and interior"
SPARSE = 64
"""Bytes of the largest table for each number that is marked in it: no number from a file decides what is allocated."""
NUMBERS = (
    "bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64",
)  # fmt: skip


def expected_arrays(manifest: Mapping[str, Any], entry: Mapping[str, Any], part: Path) -> dict[str, Expected]:
    """What each array of a shard must be, from the sizes in its ``entry`` in the manifest."""
    files = entry["files"]
    missing = [name for name in NEEDED if len(files.get(name, {}).get("shape", ())) != 1]
    if missing:
        raise InputError(f"{part / missing[0]}.npy is not listed as a list in the manifest, expected one: {REMEDY}")
    sizes = {name: files[name]["shape"][0] for name in NEEDED}
    n, h, boundary = sizes["rows"], sizes["halo_ids"], entry["num_boundary"]
    _check_sizes(entry, part, n, h)
    id_, degree = between(0, LIMIT), finite(positive=True)
    wanted = {
        "ids": Expected(("int64",), (n,), id_),
        # Rows rise within the boundary and within the interior, which the order of halos relies on.
        "rows": Expected(("int64",), (n,), ordered(manifest["num_nodes"], (boundary, n - boundary), RUNS_OF_ROWS)),
        "halo_ids": Expected(("int64",), (h,), between(0, LIMIT, entry["recv_counts"])),
        "degree": Expected(("float32",), (n,), degree),
        "symmetric_degree": Expected(("float32",), (n + h,), degree),
        "send_index": Expected(("int64",), (sum(entry["send_counts"]),), between(0, boundary)),
    }
    wanted["halo_covered"] = Expected(("bool",), (h,), between(0, 2))
    wanted |= _matrix("inner", n, n, sizes["inner_indices"]) | _matrix("halo", n, h, sizes["halo_indices"])
    wanted |= {name: Expected(("bool",), (n,), between(0, 2)) for name in MASKS}
    wanted |= _features(entry, n) | {"y": _labels(manifest, files, n)}
    edges = sizes["inner_indices"] + sizes["halo_indices"]
    tensors = [name for name in files if name.startswith(EDGE)]
    return wanted | {name: Expected(NUMBERS, (edges,), further=True) for name in tensors}


def _check_sizes(entry: Mapping[str, Any], part: Path, owned: int, halo: int) -> None:
    """The boundary is a part of the owned rows, and the halo is what the peers send."""
    boundary, received = entry["num_boundary"], sum(entry["recv_counts"])
    if boundary > owned:
        raise InputError(f"{part} has {boundary} boundary rows by the manifest, expected at most its {owned}: {REMEDY}")
    if received != halo:
        raise InputError(f"{part / 'halo_ids.npy'} holds {halo} nodes, but the manifest says {received}: {REMEDY}")


def _matrix(name: str, rows: int, cols: int, nnz: int) -> dict[str, Expected]:
    return {
        f"{name}_indptr": Expected(("int64",), (rows + 1,), rising(nnz)),
        f"{name}_indices": Expected(("int32", "int64"), (nnz,), between(0, cols)),
        f"{name}_weight": Expected(("float32",), (nnz,), finite(positive=True)),
    }


def _features(entry: Mapping[str, Any], n: int) -> dict[str, Expected]:
    """Dense features, or the arrays of sparse ones; not both, which would be one too many."""
    width, files = entry["num_features"], entry["files"]
    if "x_indices" not in files:
        # Their values are not looked at: they are most of the bytes, and the first epoch shows NaN in them.
        return {"x": Expected(("float32",), (n, width))}
    shape = files["x_indices"]["shape"]
    # Values of sparse features may be negative, weights of edges may not.
    weight = Expected(("float32",), (*shape[:1],), finite())
    return _matrix("x", n, width, shape[0] if shape else 0) | {"x_weight": weight}


def _labels(manifest: Mapping[str, Any], files: Mapping[str, Any], n: int) -> Expected:
    classes = manifest["num_classes"]
    if manifest["regression"]:
        return Expected(("float32",), (n, classes))  # NaN is a node without a value; see `check_shard`
    if manifest["multi_label"] and files.get("y", {}).get("dtype") == "float32":
        return Expected(("float32",), (n, classes), finite())
    if manifest["multi_label"]:
        return Expected(("uint8",), (n, classes), between(0, 2))
    return Expected(("int64",), (n,), between(-1, classes))


def check_shard(shard: Shard, entry: Mapping[str, Any], digests: Mapping[str, Sequence[int]], part: Path) -> None:
    """Refuse a shard whose arrays, each good by itself, do not fit each other; the values of each are in range.

    ``digests`` are the checksums of the runs of arrays, from the pass that read them.
    """
    for name, matrix in (("inner", shard.inner), ("halo", shard.halo), ("x", shard.x)):
        if isinstance(matrix, Csr):
            _check_ends(part / f"{name}_indptr.npy", matrix.indptr, matrix.nnz)
    _check_ids(shard, part)
    _check_exchange(shard, entry, digests["halo_ids"], part)
    _check_masks(shard, part)


def _check_ends(path: Path, indptr: Tensor, nnz: int) -> None:
    ends = int(indptr[0]), int(indptr[-1])
    if ends != (0, nnz):
        raise InputError(f"{path} runs from {ends[0]} to {ends[1]}, expected 0 to {nnz}: {REMEDY}")


def _check_ids(shard: Shard, part: Path) -> None:
    """No node is held twice: neither owned twice, nor as a halo of its owner, nor twice as a halo."""
    if _all_distinct([shard.ids, shard.halo_ids], shard.num_nodes):
        return
    ordered = torch.cat([shard.ids, shard.halo_ids]).sort().values
    twice = int(ordered[1:][ordered[1:] == ordered[:-1]][0])
    owned = bool((shard.ids == twice).any()) and bool((shard.halo_ids == twice).any())
    name = "halo_ids" if owned or not bool((shard.ids == twice).any()) else "ids"
    why = "which the part owns itself" if owned else "twice"
    raise InputError(f"{part / name}.npy holds node {twice}, {why}, expected every node once: {REMEDY}")


def _all_distinct(lists: Sequence[Tensor], num_nodes: int) -> bool:
    """Whether no number is twice in the ``lists``; a table is many times as fast as sorting."""
    total = sum(ids.numel() for ids in lists)
    # Most graphs number their nodes from 0; only where one does not is the largest number looked for.
    marked = _marked(lists, num_nodes) if num_nodes <= SPARSE * total else None
    if marked is not None:
        return marked == total
    largest = max((int(ids.max()) for ids in lists if ids.numel()), default=-1)
    if largest < SPARSE * total:
        return _marked(lists, largest + 1) == total
    different: int = torch.unique(torch.cat(list(lists))).numel()
    return different == total


def _marked(lists: Sequence[Tensor], size: int) -> int | None:
    """How many different numbers below ``size`` are in the ``lists``; None if one is outside."""
    table = torch.zeros(size, dtype=torch.bool)
    return _count(table) if all(mark(places, table) for places in lists) else None


def _count(flags: Tensor) -> int:
    """How many of the ``flags`` are true; NumPy counts them ten times as fast as torch."""
    return int(np.count_nonzero(flags.numpy()))


def _check_exchange(shard: Shard, entry: Mapping[str, Any], received: Sequence[int], part: Path) -> None:
    """The rows for each peer are those that it expects, and the halo's rows, ``received``, those that owners send."""
    sent = torch.zeros(shard.num_owned, dtype=torch.bool)
    lists = (
        ("send_index", "goes to", peer_digests(shard.ids, shard.send_index, shard.send_counts, sent), "send_crc32"),
        ("halo_ids", "comes from", received, "recv_crc32"),
    )
    for name, way, found, wanted in lists:
        for peer, (one, other) in enumerate(zip(found, entry[wanted], strict=True)):
            if one != other:
                raise InputError(
                    f"{part / name}.npy names other nodes for what {way} part {peer} (checksum {one}) than the "
                    f"manifest (checksum {other}), expected the same on both sides: {REMEDY}"
                )
    if _count(sent) != shard.num_boundary:
        row = int(sent.numpy().argmin())
        raise InputError(
            f"{part / 'send_index.npy'} sends row {row} to no part, expected all {shard.num_boundary} boundary rows: "
            f"{REMEDY}"
        )


def _check_masks(shard: Shard, part: Path) -> None:
    """Nodes to learn or to measure have labels, and there are not more of them than in the whole graph."""
    lacks = _rows_without_label(shard)
    for name in MASKS:
        mask: Tensor | None = getattr(shard, name)
        if mask is None:
            continue
        held, most = _count(mask), shard.counts.get(name.removesuffix("_mask"), 0)
        if held > most:
            raise InputError(f"{part / name}.npy marks {held} nodes, expected at most {most} of all parts: {REMEDY}")
        if shard.y is None and held:
            raise InputError(f"{part / name}.npy marks nodes, but {part / 'y.npy'} is not there: {REMEDY}")
        bare = None if lacks is None else np.logical_and(mask.numpy(), lacks.numpy())
        if shard.y is not None and bare is not None and bare.any():
            row = int(bare.argmax())
            raise InputError(
                f"{part / 'y.npy'} holds {shard.y[row].tolist()} for row {row}, which is in {name}, expected a "
                f"label: {REMEDY}"
            )


def _rows_without_label(shard: Shard) -> Tensor | None:
    """Bool ``[n]``: the rows without a class or a value; None where every row has one, or may have several labels."""
    if shard.y is None:
        return None
    if shard.regression:
        return ~shard.y.isfinite().all(1)
    if shard.y.dim() > 1 or first_outside(shard.y, 0, shard.num_classes) is None:
        return None
    return shard.y < 0
