"""The parts of one manifest must agree: what a part sends another one receives, and every node and edge is held once.

This finds parts of two cuts that were put together, or a part under another's number, without opening their files.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def disagreement(manifest: Mapping[str, Any], kind: str) -> str | None:
    """The first mistake in words, among the shards ``shard`` or ``train`` of all parts; None where there is none."""
    shards = [part[kind] for part in manifest["parts"]]
    return _lists(shards) or _exchange(shards) or _same(manifest, shards, kind) or _whole(manifest, shards, kind)


def _lists(shards: list[dict[str, Any]]) -> str | None:
    for part, shard in enumerate(shards):
        for name in ("send_counts", "recv_counts", "send_crc32", "recv_crc32"):
            if len(shard[name]) != len(shards):
                return f"part {part} has {name} for {len(shard[name])} parts, expected {len(shards)}"
    return None


def _exchange(shards: list[dict[str, Any]]) -> str | None:
    """The rows that part p sends to part q, by number and by checksum of their ids, are those that q receives."""
    for what, sent, received in (("rows", "send_counts", "recv_counts"), ("checksum", "send_crc32", "recv_crc32")):
        for part, shard in enumerate(shards):
            arriving = [peer[received][part] for peer in shards]
            if shard["send_counts"][part] != 0:
                own = shard["send_counts"][part]
                return f"part {part} sends {own} rows to itself, expected 0: are the files those of another part?"
            if shard[sent] == arriving:
                continue
            peer = next(q for q, (one, other) in enumerate(zip(shard[sent], arriving, strict=True)) if one != other)
            return (
                f"part {part} sends to part {peer} ({what} {shard[sent][peer]}) what part {peer} does not receive "
                f"({what} {arriving[peer]}): are the parts of two cuts?"
            )
    return None


def _same(manifest: Mapping[str, Any], shards: list[dict[str, Any]], kind: str) -> str | None:
    """All parts name the same graph: its nodes, its features, its numbers of training, validation and test nodes."""
    expected = {"num_nodes": manifest["num_nodes"], "num_features": manifest["num_features"]}
    expected["counts"] = shards[0]["counts"]
    if kind == "train":
        expected["num_nodes"] = shards[0]["num_nodes"]
    for part, shard in enumerate(shards):
        for name, value in expected.items():
            if shard[name] != value:
                return f"part {part} says {name} {shard[name]}, expected {value}: are the parts of two graphs?"
    return None


def _whole(manifest: Mapping[str, Any], shards: list[dict[str, Any]], kind: str) -> str | None:
    """All nodes, and of the whole graph all edges, are in the parts."""
    nodes = sum(_length(shard, "rows") for shard in shards)
    if nodes != shards[0]["num_nodes"]:
        return f"its parts own {nodes} nodes, expected all {shards[0]['num_nodes']}, each once"
    edges = sum(_length(shard, "inner_indices") + _length(shard, "halo_indices") for shard in shards)
    if kind == "shard" and edges != manifest["num_edges"]:
        return f"its parts hold {edges} edges, expected all {manifest['num_edges']}, each once"
    return None


def _length(shard: Mapping[str, Any], name: str) -> int:
    """The length of an array of a shard; 0 where it is missing, which reading the shard reports."""
    shape = shard["files"].get(name, {}).get("shape", [])
    return int(shape[0]) if shape else 0
