"""Agreement: before the first epoch all workers compare what they were started with; a difference ends all of them.

Workers with another learning rate, seed or partition would train on without an error, and wrongly.
"""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from typing import Any

import torch
from torch import Tensor, nn

from halowire.errors import InputError
from halowire.events import SETUP
from halowire.kernels import kernels_in_use
from halowire.partitioning import is_shard_folder, read_manifest
from halowire.training.config import Config
from halowire.training.job import Job
from halowire.training.rule import mesh_of
from halowire.training.telling import gather_bytes
from halowire.wire import Transport

MAY_DIFFER = ("threads", "deadline", "device", "graph.root", "graph.features", "graph.labels")
"""Settings that may differ between machines: how fast each computes, how long it waits, and where its files lie.

Instead of the setting ``device``, the device in use is compared. The run folder, ``--quiet`` and ``--tensorboard`` are
no settings of the run, and are not compared either. All other settings are.
"""
BY_METIS = ("auto", "metis")
WEIGHT = "parameter "
"""How the facts about the weights of a model begin."""
WEIGHTS = (
    "; a model whose weights count nodes is made before halowire.shard, or with data.num_whole_nodes instead of "
    "data.num_nodes, and a weight of data.num_edges values outside of the model, which is called with it"
)
"""The way out where the weights differ, as they do where their number is that of a part's rows."""
WHERE = "agreement of the workers"
DIGEST_BYTES = 32
MOST_BYTES = 1 << 20
"""Most bytes of facts that a worker tells the others."""
Facts = Mapping[str, Any]
"""What a worker was started with: plain values by name."""


def agree(facts: Facts, transport: Transport) -> None:
    """Refuse to go on, on all workers, unless all of them have the same ``facts``; every difference is named.

    A digest of 32 bytes is compared first; the facts themselves travel only if digests differ.
    """
    if transport.size == 1:
        return
    said = json.dumps(facts, sort_keys=True).encode()
    digests = gather_bytes(hashlib.sha256(said).digest(), DIGEST_BYTES, transport, WHERE)
    if all(digest == digests[0] for digest in digests):
        return
    lengths = torch.zeros(transport.size, dtype=torch.int64)
    lengths[transport.rank] = min(len(said), MOST_BYTES)
    transport.all_reduce(lengths, WHERE, SETUP)
    told = gather_bytes(said[:MOST_BYTES], int(lengths.max()), transport, WHERE)
    found = differences([_read(one[: int(length)]) for one, length in zip(told, lengths, strict=True)])
    more = WEIGHTS if any(each.startswith(WEIGHT) for each in found) else ""
    raise InputError(
        f"the workers disagree: {'; '.join(found)}; start all with the same settings, files and versions{more}"
    )


def differences(facts: Sequence[Facts]) -> list[str]:
    """What differs among the ``facts`` of the ranks, a phrase for each name: every value, and which ranks have it."""
    found = []
    for name in sorted({name for each in facts for name in each}):
        ranks: dict[str, list[int]] = {}
        for rank, each in enumerate(facts):
            ranks.setdefault(_text(each[name]) if name in each else "not known", []).append(rank)
        if len(ranks) > 1:
            found.append(f"{name} is {_listed([f'{value} on {_ranks(who)}' for value, who in ranks.items()])}")
    return found or ["they were started with different things, which they cannot name"]


def job_facts(job: Job, size: int, device: torch.device, cuts: bool) -> dict[str, Any]:
    """What the workers of ``job`` must agree on; ``cuts``: the shards in the run folder are still to be made."""
    mesh = mesh_of(job.config, size)
    facts = setting_facts(job.config) | version_facts()
    facts |= {"device": device.type, "workers": job.workers, "resume": job.resume}
    if cuts and job.shards.parent == job.run and job.config.partition.method in BY_METIS:
        facts |= {"pymetis": version("pymetis")}  # every machine cuts for itself, and must come to the same parts
    facts |= {"mesh": f"{mesh.stages} x {mesh.parts}, {mesh.chunks} chunks"}
    if not job.source.startswith("/"):
        facts["graph"] = job.source  # the path of a file may differ; its content is compared as shards
    if is_shard_folder(job.shards) and not (cuts and job.shards.parent == job.run):
        parts = json.dumps(read_manifest(job.shards)["parts"], sort_keys=True)
        facts["partition"] = hashlib.sha256(parts.encode()).hexdigest()[:16]
    return facts


def model_facts(model: nn.Module, config: Config, device: torch.device, codec: object) -> dict[str, Any]:
    """What the workers of a user's own training loop must agree on.

    The values of the weights are not compared: all workers begin with those of rank 0.
    """
    facts = setting_facts(config) | version_facts() | {"device": device.type, "model": type(model).__name__}
    facts |= {"codec": "none" if codec is None else type(codec).__name__}
    facts |= {f"{WEIGHT}{name}": _shape(value) for name, value in model.named_parameters()}
    return facts | {f"in-degrees given to {name}": found for name, found in _degrees(model)}


def _degrees(model: nn.Module) -> Iterator[tuple[str, str]]:
    """The mean in-degrees that PyG's degree scalers, as in ``PNAConv``, were made with; a part has others."""
    for name, module in model.named_modules():
        means = [getattr(module, f"init_avg_deg_{kind}", None) for kind in ("lin", "log")]
        if all(isinstance(mean, float) for mean in means):
            yield name, " and ".join(f"{mean:.6g}" for mean in means)


def setting_facts(config: Config) -> dict[str, Any]:
    """All settings but those that may differ."""
    return {name: value for name, value in config.flat().items() if name not in MAY_DIFFER}


def version_facts() -> dict[str, Any]:
    """The versions that decide how a run goes; the build of torch (CPU or CUDA) may differ."""
    return {
        "halowire": version("halowire"),
        "torch": torch.__version__.partition("+")[0],
        "Python": ".".join(platform.python_version_tuple()[:2]),
        "numpy": version("numpy"),
        "safetensors": version("safetensors"),
        "kernels": kernels_in_use(),
    }


def _read(data: bytes) -> Facts:
    """The facts in ``data``, which came over the network; none where it cannot be read."""
    try:
        facts = json.loads(data)
    except (ValueError, RecursionError):
        return {}
    return facts if isinstance(facts, dict) else {}


def _shape(value: Tensor) -> str:
    kind = str(value.dtype).removeprefix("torch.")
    return f"{kind} {list(value.shape)}{'' if value.requires_grad else ', frozen'}"


def _text(value: Any) -> str:
    return value if isinstance(value, str) and value else json.dumps(value)


def _ranks(ranks: Sequence[int]) -> str:
    return f"rank{'' if len(ranks) == 1 else 's'} {', '.join(map(str, ranks))}"


def _listed(words: Sequence[str]) -> str:
    return f"{', '.join(words[:-1])} and {words[-1]}"
