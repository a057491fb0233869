"""The age of rows: which epoch's halo rows and gradients a run uses, and how late rows are corrected."""

from __future__ import annotations

from collections.abc import Collection

from halowire.errors import InputError
from halowire.partitioning import Shard
from halowire.training.config import Config, FreshnessConfig
from halowire.training.layer_rates import layer_pairs
from halowire.wire import AFFINE, FRESH, LATE, MEAN, NONE, Freshness

CORRECTIONS = (NONE, MEAN, AFFINE)
"""The kinds of correction of late rows."""

SHALLOW = 3
"""The most layers with which a model learns as well without the gradients of halo rows (see docs/theory.md)."""


def sends_narrow(config: Config) -> bool:
    """Whether a layer that narrows its rows does so before they travel; late rows are corrected as hidden rows."""
    return config.wire.rows == "narrow" or (config.wire.rows == "auto" and config.freshness.mode != "late-rows")


def gradients_of(config: Config) -> str:
    """Which gradients of halo rows a run uses: `none`, `late` or `fresh` ones."""
    fresh = config.freshness
    if fresh.gradients == "shallow":
        return NONE if config.model.layers <= SHALLOW else FRESH
    if fresh.gradients != "auto":
        return fresh.gradients
    return {"late-rows": NONE, "delayed": LATE, "adaptive": LATE}.get(fresh.mode, FRESH)


def freshness_of(config: Config, layers: Collection[int]) -> Freshness:
    """The freshness of a run in which ``layers`` exchange rows."""
    fresh = config.freshness
    late_rows = fresh.mode == "late-rows"
    corrections = layer_corrections(fresh, layers) if late_rows else {}
    return Freshness(
        delayed=late_rows or fresh.mode in ("delayed", "adaptive"),
        sync_every=fresh.sync_every,
        smoothing=fresh.smoothing,
        threshold=fresh.threshold,
        adaptive=fresh.mode == "adaptive",
        gradients=gradients_of(config),
        damping=fresh.damping,
        drift=lambda layer: corrections.get(layer, NONE),
        undropped=late_rows,
        # Where the first layer needs no rows of others, the shard keeps its halo, and only later layers go without it.
        silent=fresh.mode == "never",
    )


def layer_corrections(fresh: FreshnessConfig, layers: Collection[int]) -> dict[int, str]:
    """The correction of every layer; ``--freshness.layers`` holds those of single layers, LAYER:CORRECTION."""
    found: dict[int, str] = dict.fromkeys(layers, fresh.correction)
    form = "LAYER:CORRECTION"
    for layer, kind in layer_pairs("--freshness.layers", fresh.layers, layers, form, "mean"):
        if kind not in CORRECTIONS:
            known = ", ".join(CORRECTIONS)
            raise InputError(f"--freshness.layers gives layer {layer} the correction {kind!r}; give one of {known}")
        found[layer] = kind
    return found


def trained_part(part: Shard, config: Config) -> Shard:
    """The shard that a run trains on: ``part``, or ``part`` without its halo where no layer reads rows of others."""
    alone = config.freshness.mode == "never" and config.wire.first_layer != "local"
    return part.isolated() if alone else part
