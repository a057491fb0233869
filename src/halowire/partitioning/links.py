"""The pairs of link prediction beside the shards on disk: each part's pairs, and the owner and row of every node."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from halowire.errors import InputError, in_one_line
from halowire.files import write_json
from halowire.graph import SPLITS, LinkSplit
from halowire.inputs import read_json
from halowire.partitioning.array_files import Expected, between, entries_check, read_arrays, write_arrays
from halowire.partitioning.manifest import read_manifest
from halowire.partitioning.schema import listed, number, record, whole
from halowire.partitioning.store import read_shard

NAME = "links.json"


@dataclass(frozen=True, eq=False)
class PartLinks:
    """The pairs whose source one part owns.

    Attributes:
        train, ranked, negatives: pairs and nodes by their rows in the whole graph; see :class:`LinkSplit`.
        owner, place: for every node of the graph, its part and its row in that part, int32 ``[N]``.
        num_train: number of training pairs of all parts.
    """

    train: Tensor
    ranked: dict[str, Tensor]
    negatives: dict[str, Tensor]
    owner: Tensor
    place: Tensor
    num_train: int


def cut_links(split: LinkSplit, owner: Tensor, place: Tensor, part: int) -> PartLinks:
    """The pairs of ``part``: those whose source it owns, in the order of ``split``."""

    def mine(pairs: Tensor) -> Tensor:
        return owner[pairs[0]] == part

    return PartLinks(
        split.train[:, mine(split.train)],
        {name: pairs[:, mine(pairs)] for name, pairs in split.ranked.items()},
        {name: split.negatives[name][mine(pairs)] for name, pairs in split.ranked.items()},
        owner,
        place,
        split.train.shape[1],
    )


def write_links(split: LinkSplit, folder: Path) -> None:
    """Write the pairs of every part of the shards in ``folder`` to ``links/``, and at last ``links.json``."""
    target = folder / "links"
    shutil.rmtree(target, ignore_errors=True)
    manifest = read_manifest(folder)
    owner, place = torch.full((2, manifest["num_nodes"]), -1, dtype=torch.int32)
    for part in range(manifest["num_parts"]):
        rows = read_shard(folder, part, verify=False).rows
        owner[rows] = part
        place[rows] = torch.arange(rows.numel(), dtype=torch.int32)
    parts = []
    for part in range(manifest["num_parts"]):
        own = cut_links(split, owner, place, part)
        arrays = {"train": own.train}
        for name in SPLITS:
            arrays |= {f"{name}_pairs": own.ranked[name], f"{name}_negatives": own.negatives[name]}
        parts.append(write_arrays(target / f"part-{part}", arrays))
    words = {
        "num_train": split.train.shape[1], "negatives": split.num_negatives, "seed": split.seed,
        "val_share": split.val_share, "test_share": split.test_share, "parts": parts,
        "nodes": write_arrays(target / "nodes", {"owner": owner, "place": place}),
    }  # fmt: skip
    write_json(folder / NAME, words)


def links_record(folder: Path | str) -> Mapping[str, Any]:
    """The contents of ``links.json``, checked for completeness and types."""
    path = Path(folder) / NAME
    try:
        words: dict[str, Any] = read_json(path)
    except FileNotFoundError:
        raise InputError(
            f"{folder} holds shards without held-out edges; give `halowire train --task link` the graph itself, which "
            "splits its edges before it cuts it"
        ) from None
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read ({in_one_line(error)}): train from the graph again") from None
    count = whole()
    fields = {
        **dict.fromkeys(("num_train", "negatives", "seed"), count), "val_share": number, "test_share": number,
        "nodes": entries_check(), "parts": listed(entries_check()),
    }  # fmt: skip
    if mismatch := record(fields)(words, ""):
        raise InputError(f"{path} is damaged: {mismatch}; train from the graph again")
    return words


def read_links(folder: Path | str, rank: int) -> PartLinks:
    """The pairs of part ``rank``, memory-mapped, once every node in them was found in the graph and in this part."""
    words, place, manifest = links_record(folder), Path(folder) / "links", read_manifest(folder)
    try:
        nodes = read_arrays(place / "nodes", words["nodes"], True, _expected_nodes(manifest))
        wanted = _expected_pairs(manifest, words, rank)
        own = read_arrays(place / f"part-{rank}", words["parts"][rank], True, wanted)
        ranked = {name: own[f"{name}_pairs"] for name in SPLITS}
        negatives = {name: own[f"{name}_negatives"] for name in SPLITS}
        links = PartLinks(own["train"], ranked, negatives, nodes["owner"], nodes["place"], words["num_train"])
    except (KeyError, IndexError) as error:
        raise InputError(f"{Path(folder) / NAME} is damaged ({error!r}): train from the graph again") from None
    _check_owners(links, manifest, place, rank)
    return links


def _expected_nodes(manifest: Mapping[str, Any]) -> dict[str, Expected]:
    count = manifest["num_nodes"]
    return {
        "owner": Expected(("int32",), (count,), between(0, manifest["num_parts"])),
        "place": Expected(("int32",), (count,), between(0, count)),
    }


def _expected_pairs(manifest: Mapping[str, Any], words: Mapping[str, Any], rank: int) -> dict[str, Expected]:
    """Pairs and negatives are nodes of the graph, with as many negatives as ``links.json`` says for every pair."""
    node, entries = between(0, manifest["num_nodes"]), words["parts"][rank]
    wanted = {"train": Expected(("int64",), (2, None), node)}
    for name in SPLITS:
        count = entries[f"{name}_pairs"]["shape"][1]
        wanted[f"{name}_pairs"] = Expected(("int64",), (2, count), node)
        wanted[f"{name}_negatives"] = Expected(("int64",), (count, words["negatives"]), node)
    return wanted


def _check_owners(links: PartLinks, manifest: Mapping[str, Any], place: Path, rank: int) -> None:
    """Every node has a row in its part, and this part owns the sources of its pairs."""
    sizes = torch.tensor([part["shard"]["files"]["rows"]["shape"][0] for part in manifest["parts"]])
    beyond = links.place >= sizes[links.owner.long()]
    if bool(beyond.any()):
        node = int(beyond.nonzero()[0])
        part, size = int(links.owner[node]), int(sizes[int(links.owner[node])])
        raise InputError(
            f"{place / 'nodes' / 'place.npy'} puts node {node} at row {int(links.place[node])} of part {part}, "
            f"expected a row below {size}: train from the graph again"
        )
    for name, pairs in {
        "train": links.train,
        **{f"{name}_pairs": pairs for name, pairs in links.ranked.items()},
    }.items():
        foreign = links.owner[pairs[0]] != rank
        if bool(foreign.any()):
            node = int(pairs[0][foreign][0])
            raise InputError(
                f"{place / f'part-{rank}' / name}.npy holds a pair of node {node}, which part {int(links.owner[node])} "
                f"owns, expected sources of part {rank}: train from the graph again"
            )
