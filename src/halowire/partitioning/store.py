"""Shards on disk: a manifest and one folder of arrays per part, so that a worker reads only its own part."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from halowire.errors import InputError
from halowire.files import folder_written_whole
from halowire.graph import Graph
from halowire.kernels import Csr, peer_digests
from halowire.partitioning.array_files import read_arrays, write_arrays
from halowire.partitioning.content import EDGE, MASKS, check_shard, expected_arrays
from halowire.partitioning.manifest import read_manifest, require_free, write_manifest
from halowire.partitioning.partition import Partition
from halowire.partitioning.quality import Quality, measure
from halowire.partitioning.shard import Shard, cut_each

TENSORS = ("ids", "rows", "halo_ids", "degree", "symmetric_degree", "send_index")
"""The tensors that every shard has, stored unchanged."""
FEATURES = "x"
"""The name of dense features on disk; sparse ones are three arrays."""
OF_GRAPH = ("num_nodes", "num_edges", "num_features", "num_classes", "multi_label", "regression")
OF_PARTITION = ("num_parts", "method", "asked", "metis", "balance", "seed")
"""The fields of the graph and of the partition that the manifest holds."""


def write_shards(
    graph: Graph,
    partition: Partition,
    folder: Path | str,
    inductive: bool = False,
    *,
    quality: Quality | None = None,
) -> Path:
    """Cut ``graph`` and write ``manifest.json`` and ``part-<k>/``; the folder appears complete or not at all.

    Args:
        graph: the whole graph.
        partition: its owners.
        folder: where to write; shards that are there are replaced, anything else is refused.
        inductive: also write ``part-<k>/train/``, the shards of the subgraph of training nodes (same owners).
        quality: the quality of the partition, for the manifest; measured here if not given.
    """
    target = Path(folder).absolute()
    require_free(Path(folder))
    with folder_written_whole(target) as temporary:
        parts = _write_parts(temporary, graph, partition, inductive)
        fields = {"graph": graph.name, **{name: getattr(graph, name) for name in OF_GRAPH}}
        fields |= {name: getattr(partition, name) for name in OF_PARTITION}
        trained = [part.get("train", part["shard"]) for part in parts]
        exchanged = (
            sum(sum(entry["recv_counts"]) for entry in trained), sum(sum(entry["cover_counts"]) for entry in trained),
        )  # fmt: skip
        quality = quality or measure(graph, partition)
        quality = quality.with_cover([sum(part["shard"]["cover_counts"]) for part in parts], exchanged)
        fields |= {"inductive": inductive, "quality": quality.to_json(), "parts": parts}
        write_manifest(temporary, fields)
    return target


def _write_parts(folder: Path, graph: Graph, partition: Partition, inductive: bool) -> list[dict[str, Any]]:
    """Write the shards of all parts; returns the entry of every part in the manifest."""
    training, kept = _training_graph(graph) if inductive else (None, None)
    parts = [{"shard": _write(folder / f"part-{shard.rank}", shard)} for shard in cut_each(graph, partition)]
    if training is not None and kept is not None:
        owners = replace(partition, owner=partition.owner[kept])
        for shard in cut_each(training, owners):
            # ``rows`` always counts in the user's graph, also where the shard was cut from a subgraph.
            entry = _write(folder / f"part-{shard.rank}" / "train", replace(shard, rows=kept[shard.rows]))
            parts[shard.rank]["train"] = entry
    return parts


def read_shard(folder: Path | str, rank: int, verify: bool = True, train: bool = False) -> Shard:
    """The shard of part ``rank``, memory-mapped; only this part's files are opened.

    Args:
        folder: a shard folder.
        rank: the part.
        verify: check every file against its checksum and look at its values, which reads the part once; types and
            sizes are always checked.
        train: the shard of the training subgraph (folders written with ``inductive``) instead of the whole graph's.
    """
    manifest, part = read_manifest(folder), Path(folder) / f"part-{rank}"
    if not 0 <= rank < manifest["num_parts"]:
        raise InputError(f"{folder} has parts 0..{manifest['num_parts'] - 1}, but part {rank} was asked for")
    if train and not manifest["inductive"]:
        raise InputError(f"{folder} has no training subgraph: partition the graph again with inductive shards")
    try:
        place, entry = (part / "train" if train else part), manifest["parts"][rank]["train" if train else "shard"]
        shard = _read(manifest, entry, place, rank, verify)
    except (KeyError, TypeError, AttributeError) as error:
        raise InputError(f"the manifest of {folder} is damaged ({error!r}): partition the graph again") from None
    return shard


def _read(manifest: Mapping[str, Any], entry: Mapping[str, Any], place: Path, rank: int, verify: bool) -> Shard:
    """The shard in the folder ``place``; its arrays are compared with each other while the dense features are read."""
    wanted, files = expected_arrays(manifest, entry, place), entry["files"]
    arrays = read_arrays(place, {name: files[name] for name in files if name != FEATURES}, verify, wanted)
    shard = _assemble(manifest, entry, arrays, rank)
    # The main thread has the long file, because it is the one that Ctrl-C interrupts.
    with ThreadPoolExecutor(1) as aside:
        compared = aside.submit(check_shard, shard, entry, arrays.digests, place) if verify else None
        dense = read_arrays(place, {name: files[name] for name in files if name == FEATURES}, verify, wanted)
        if compared is not None:
            compared.result()
    return replace(shard, x=dense[FEATURES]) if dense else shard


def _training_graph(graph: Graph) -> tuple[Graph, Tensor]:
    """The subgraph of training nodes, and their rows in ``graph``."""
    if graph.train_mask is None or not bool(graph.train_mask.any()):
        raise InputError("inductive shards need training nodes, but the graph has none: give it a train_mask")
    return graph.subgraph(graph.train_mask), graph.train_mask.nonzero().flatten()


def _write(folder: Path, shard: Shard) -> dict[str, Any]:
    """Write the arrays of a shard; returns its entry in the manifest."""
    arrays = {name: value for name in TENSORS + MASKS if (value := getattr(shard, name)) is not None}
    arrays |= _csr_arrays("inner", shard.inner) | _csr_arrays("halo", shard.halo)
    if isinstance(shard.x, Csr):
        arrays |= _csr_arrays("x", shard.x)
    elif shard.x is not None:
        arrays[FEATURES] = shard.x
    arrays |= {f"{EDGE}{name}": value for name, value in shard.edge_tensors.items()}
    if shard.halo_covered is not None:
        arrays["halo_covered"] = shard.halo_covered
    if shard.y is not None:
        arrays["y"] = _compact(shard.y) if shard.multi_label else shard.y
    sizes = {name: getattr(shard, name) for name in ("num_nodes", "num_features", "num_boundary", "counts")}
    per_peer = {name: list(getattr(shard, name)) for name in ("send_counts", "recv_counts")}
    # Both sides of every message have the same checksum: parts of two cuts do not go together unnoticed.
    per_peer["send_crc32"] = peer_digests(shard.ids, shard.send_index, shard.send_counts)
    per_peer["recv_crc32"] = peer_digests(shard.halo_ids, None, shard.recv_counts)
    per_peer["cover_counts"] = list(shard.cover_counts())
    return {**sizes, **per_peer, "files": write_arrays(folder, arrays)}


def _assemble(manifest: Mapping[str, Any], entry: Mapping[str, Any], arrays: Mapping[str, Tensor], rank: int) -> Shard:
    owned, halo = arrays["rows"].numel(), arrays["halo_ids"].numel()
    x = _csr("x", arrays, entry["num_features"]) if "x_indptr" in arrays else None
    y = arrays.get("y")
    fields: dict[str, Any] = {name: manifest[name] for name in ("graph", "num_parts", "num_classes", "multi_label")}
    fields |= {name: entry[name] for name in ("num_nodes", "num_boundary", "counts")}
    fields |= {name: tuple(entry[name]) for name in ("send_counts", "recv_counts")}
    fields |= {name: arrays[name] for name in TENSORS} | {name: arrays.get(name) for name in MASKS}
    return Shard(
        **fields,
        rank=rank,
        inner=_csr("inner", arrays, owned),
        halo=_csr("halo", arrays, halo),
        x=x,
        y=y.float() if y is not None and manifest["multi_label"] else y,
        regression=manifest["regression"],
        halo_covered=arrays.get("halo_covered"),
        edge_tensors={name.removeprefix(EDGE): value for name, value in arrays.items() if name.startswith(EDGE)},
    )


def _csr_arrays(name: str, matrix: Csr) -> dict[str, Tensor]:
    arrays = {f"{name}_indptr": matrix.indptr, f"{name}_indices": matrix.indices}
    return arrays if matrix.weight is None else arrays | {f"{name}_weight": matrix.weight}


def _csr(name: str, arrays: Mapping[str, Tensor], num_cols: int) -> Csr:
    return Csr(arrays[f"{name}_indptr"], arrays[f"{name}_indices"], arrays.get(f"{name}_weight"), num_cols)


def _compact(y: Tensor) -> Tensor:
    """Labels of 0 and 1 as bytes, a quarter of the size; anything else as it is."""
    small = y.to(torch.uint8)
    return small if torch.equal(small.to(y.dtype), y) else y
