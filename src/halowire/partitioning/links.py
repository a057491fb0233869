"""The pairs of link prediction beside the shards on disk: each part's pairs, and the owner and row of every node."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from halowire.errors import InputError
from halowire.files import write_json
from halowire.graph import SPLITS, LinkSplit
from halowire.partitioning.manifest import entries_check, read_arrays, read_manifest, write_arrays
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
        words: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(
            f"{folder} holds shards without held-out edges; give `halowire train --task link` the graph itself, which "
            "splits its edges before it cuts it"
        ) from None
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read ({error}): train from the graph again") from None
    count = whole()
    fields = {
        **dict.fromkeys(("num_train", "negatives", "seed"), count), "val_share": number, "test_share": number,
        "nodes": entries_check(), "parts": listed(entries_check()),
    }  # fmt: skip
    if mismatch := record(fields)(words, ""):
        raise InputError(f"{path} is damaged: {mismatch}; train from the graph again")
    return words


def read_links(folder: Path | str, rank: int) -> PartLinks:
    """The pairs of part ``rank``, memory-mapped."""
    words, place = links_record(folder), Path(folder) / "links"
    try:
        own = read_arrays(place / f"part-{rank}", words["parts"][rank], verify=True)
        nodes = read_arrays(place / "nodes", words["nodes"], verify=False)
        ranked = {name: own[f"{name}_pairs"] for name in SPLITS}
        negatives = {name: own[f"{name}_negatives"] for name in SPLITS}
        return PartLinks(own["train"], ranked, negatives, nodes["owner"], nodes["place"], words["num_train"])
    except (KeyError, IndexError) as error:
        raise InputError(f"{Path(folder) / NAME} is damaged ({error!r}): train from the graph again") from None
