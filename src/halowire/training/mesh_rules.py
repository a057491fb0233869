"""The rules of the mesh and of the models on it: what stages and chunks need, and what a model's traits allow."""

from __future__ import annotations

from dataclasses import replace

from halowire.kernels import MOST_HEADS
from halowire.layers import MODELS, Shape
from halowire.schedules import parse_split
from halowire.training.config import Config, MeshConfig
from halowire.training.cover_choice import against_cover
from halowire.training.first_layer_choice import against_home
from halowire.training.machine_choice import against_once
from halowire.training.recipes import RECIPES
from halowire.training.row_age import sends_narrow
from halowire.training.rule import UNKNOWN, Situation, excludes, idle, needs, pipelined, readable, within
from halowire.training.squeeze_choice import squeezes
from halowire.training.wire_rules import changes, late


def with_trait(trait: str) -> str:
    """The names of the models whose class has ``trait``, in words such as *gcn and sage*."""
    *others, last = sorted(name for name, model in MODELS.items() if getattr(model, trait))
    return f"{', '.join(others)} and {last}" if others else last


def _has(config: Config, trait: str) -> bool:
    return bool(getattr(MODELS[config.model.name], trait))


def _pipelined(config: Config, here: Situation) -> bool:
    return here.mesh != UNKNOWN and pipelined(config, here.mesh)


def _stages_fit(config: Config, here: Situation) -> None:
    if here.mesh != UNKNOWN:
        here.mesh.refuse_impossible(config.model.layers, here.mesh.chunks)


def _split_fits(config: Config, here: Situation) -> None:
    if here.mesh.stages > 1 and config.mesh.split:
        parse_split(config.mesh.split, here.mesh.stages, config.model.layers)


def _chunk_halos(here: Situation) -> bool:
    """Whether halo rows travel chunk by chunk."""
    return here.mesh.chunks > 1 and here.mesh.parts > 1


def _can_resend_input(config: Config, here: Situation) -> bool:
    """Whether the halo's raw features can be sent in every epoch: the model sums features, and has one stage."""
    return _has(config, "sums_input") and config.model.residual <= 0 and not _pipelined(config, here)


def _local(config: Config) -> bool:
    """Whether every worker computes the first hidden rows of its halo itself, whatever that costs."""
    return config.wire.first_layer == "local"


def _instead_of_local(config: Config) -> str:
    """What runs in stages and chunks: a recipe with its first layer at home is made for whole parts throughout."""
    recipe = RECIPES.get(config.recipe)
    if recipe is None or recipe.config.wire.first_layer != "local":
        return "--wire.first-layer exchange"
    staged = [name for name, other in RECIPES.items() if other.config.mesh.stages != 1]
    return f"a recipe that is made for stages: {', '.join(staged)}"


def _only_narrowed_rows(config: Config, outputs: int | None) -> bool:
    """Whether the only rows that travel are those of the second layer, which its weights have made narrower."""
    if outputs is None or replace(config.mesh, hosts=0) != MeshConfig() or config.model.layers != 2:
        return False
    sizes = 1, config.model.hidden, outputs, config.model.layers
    shape = Shape(*sizes, heads=config.model.heads, narrow=sends_narrow(config))
    return all(width < config.model.hidden for width in MODELS[config.model.name].sent_widths(shape))


LATE_MODES = "freshness.mode=delayed freshness.mode=adaptive freshness.mode=late-rows"
"""The settings with which rows of the last epoch are used."""
MESH = (
    readable("mesh.stages", "be at most --model.layers", _stages_fit),
    needs("task.kind=link", "one stage and one chunk", lambda c, here: c.task.kind == "link" and _pipelined(c, here),
        "--task link runs in one stage and one chunk: a pair needs rows of all chunks at once", "leave --mesh.* out"),
    needs("mesh.parts", "workers for two stages or more, where --mesh.stages is 0",
        lambda c, here: not c.mesh.stages and c.mesh.parts > 1 and here.mesh.stages == 1,
        "--mesh.parts {mesh.parts} leaves one stage to {workers} workers, so that nothing is pipelined",
        "use {enough} workers or more, or --mesh.stages 1 if that is what you want",
        lambda c, here: {"workers": here.mesh.workers, "enough": 2 * c.mesh.parts}),
    idle("mesh.split", "without more than one stage", lambda c, here: here.mesh.stages == 1),
    idle("mesh.costs", "without more than one stage, split by halowire",
        lambda c, here: here.mesh.stages == 1 or (here.mesh != UNKNOWN and bool(c.mesh.split))),
    idle("mesh.shuffle mesh.history mesh.gradient_rule", "without more than one chunk",
        lambda c, here: here.mesh.chunks == 1),
    readable("mesh.split", "name a number of layers for every stage, which add up to --model.layers", _split_fits),
)  # fmt: skip
MODEL = (
    needs("model.residual", "a model that takes it, with 3 layers or more",
        lambda c, here: c.model.residual > 0 and (not _has(c, "takes_residual") or c.model.layers < 3),
        "--model.residual belongs to hidden layers of {models}: use one of them, with 3 layers or more",
        words=lambda c, here: {"models": with_trait("takes_residual")}),
    idle("model.heads", "on a model without attention", lambda c, here: not _has(c, "takes_heads"),
        way_out="leave it out, or use {models}", words=lambda c, here: {"models": with_trait("takes_heads")}),
    within("model.heads", f"lie in 1 to {MOST_HEADS}", lambda heads: 1 <= heads <= MOST_HEADS),
    needs("model.heads", "a --model.hidden that it divides",
        lambda c, here: _has(c, "takes_heads") and c.model.layers > 1 and c.model.hidden % c.model.heads > 0,
        "--model.heads {model.heads} does not divide --model.hidden {model.hidden}, the heads' columns together",
        "change one of them"),
    needs("mesh.stages mesh.chunks mesh.keep=aggregates", "a model that can be split",
        lambda c, here: _pipelined(c, here) and not _has(c, "can_split"),
        "--model.name {model.name} runs in one stage and one chunk: it needs all edges of a row at once",
        "use --mesh.stages 1, --mesh.chunks 1 and --mesh.keep all, or another model"),
    excludes("rate.rows", "models of attention", lambda c, here: c.rate.rows < 1 and not _has(c, "can_sample"),
        "--rate.rows has no meaning for --model.name {model.name}: a row that does not arrive has no score, and "
        "scaling the others would change theirs",
        "use fewer bits or columns"),
    excludes("wire.cover=on", "rows that must travel themselves",
        lambda c, here: c.wire.cover == "on" and bool(against_cover(c)),
        "--wire.cover on sends sums of rows, but {why}", "use --wire.cover off",
        lambda c, here: {"why": against_cover(c)}),
    excludes("wire.cover=on", "several stages or chunks",
        lambda c, here: c.wire.cover == "on" and _pipelined(c, here),
        "--wire.cover on needs all halo rows of a layer at once, but chunks and stages send theirs one after another",
        "use --wire.cover off, or one stage and one chunk"),
    idle("rate.sums", "in several stages or chunks, where no partial sums travel", _pipelined),
    within("mesh.hosts", "be at least 1, or 0: as torchrun says", lambda hosts: hosts >= 0),
    needs("mesh.hosts", "as many workers", lambda c, here: 0 < here.mesh.workers < c.mesh.hosts,
        "--mesh.hosts {mesh.hosts} asks for more machines than there are workers, {workers}", "use fewer",
        lambda c, here: {"workers": here.mesh.workers}),
    excludes("mesh.hosts", "rows that every worker must get itself",
        lambda c, here: c.mesh.hosts > 1 and bool(against_once(c)),
        "--mesh.hosts {mesh.hosts} sends a row to a machine once, but {why}", "use --mesh.hosts 1",
        lambda c, here: {"why": against_once(c)}),
    excludes("mesh.hosts", "several stages or chunks", lambda c, here: c.mesh.hosts > 1 and _pipelined(c, here),
        "--mesh.hosts {mesh.hosts} shares the halo rows of a whole part among the workers of a machine, but chunks and "
        "stages send theirs one after another",
        "use --mesh.hosts 1, or one stage and one chunk"),
    needs("rate.resend_input", "a model that sums its input, without --model.residual, in one stage and one chunk",
        lambda c, here: c.rate.resend_input and not _can_resend_input(c, here),
        "--rate.resend-input belongs to plain {models} in one stage", "leave it out",
        lambda c, here: {"models": with_trait("sums_input")}),
    idle("rate.decay", "where all rows that travel are products with narrowing weights",
        lambda c, here: changes(c) and _only_narrowed_rows(c, here.outputs),
        sentence="--rate.decay {value:g} has no effect: of 2 layers, only the products with the narrowing weights of "
        "the last one travel, {outputs} columns instead of {model.hidden}, and those as they are",
        way_out="leave it out (instead of the recipe delta, use two-levels)",
        words=lambda c, here: {"outputs": here.outputs}),
)  # fmt: skip
FIRST_LAYER = (
    excludes("wire.first_layer=local", "rows that must be exchanged",
        lambda c, here: _local(c) and not here.own_model and bool(against_home(c)),
        "--wire.first-layer local computes the halo's first rows on every worker, but {why}",
        "use --wire.first-layer exchange", lambda c, here: {"why": against_home(c)}),
    needs("wire.first_layer=local", "one stage and one chunk", lambda c, here: _local(c) and _pipelined(c, here),
        "--wire.first-layer local runs in one stage and one chunk", "leave --mesh.* out, or use {instead}",
        lambda c, here: {"instead": _instead_of_local(c)}),
    idle("wire.first_layer", "on a model of one layer, which exchanges no rows",
        lambda c, here: _local(c) and not here.own_model and c.model.layers == 1 and _has(c, "aggregates_input")),
    excludes("wire.first_layer=local wire.plain", "", lambda c, here: c.wire.plain and _local(c),
        "--wire.plain sends the rows of every layer, and --wire.first-layer local those of the first one never",
        "drop one"),
    excludes("wire.plain wire.cover=on", "", lambda c, here: c.wire.plain and c.wire.cover == "on",
        "--wire.plain sends all rows themselves, and --wire.cover on sums of them", "drop one"),
    excludes("wire.plain wire.squeeze=on", "", lambda c, here: c.wire.plain and c.wire.squeeze == "on",
        "--wire.plain sends all rows as they are, and --wire.squeeze on deflates those that are sent once", "drop one"),
    idle("wire.squeeze", "on a model of one's own, whose features travel as they are",
        lambda c, here: here.own_model),
    idle("wire.squeeze", "in stages of one part, which have no halo",
        lambda c, here: here.mesh.stages > 1 and here.mesh.parts == 1),
    idle("wire.link", "without --wire.first-layer auto and, up to 200, --wire.squeeze auto",
        lambda c, here: (c.wire.plain or c.wire.first_layer != "auto" or bool(against_home(c)))
        and (c.wire.squeeze != "auto" or here.own_model or not squeezes(c))),
    within("wire.link", "be at least 0 and finite", lambda speed: 0 <= speed < float("inf")),
)  # fmt: skip
WIRE_ON_MESH = (
    excludes(LATE_MODES, "several stages",
        lambda c, here: here.mesh.stages > 1 and late(c),
        "--freshness.mode {freshness.mode} has no meaning between stages: a stage cannot go on without its input",
        "use fresh rows, or one stage"),
    excludes("rate.rows", "several stages", lambda c, here: here.mesh.stages > 1 and c.rate.rows < 1,
        "--rate.rows has no meaning between stages: a row that does not arrive has no value to go on with",
        "use fewer bits or columns, or one stage"),
    excludes("rate.nodes=degree", "several stages or chunks",
        lambda c, here: c.rate.nodes == "degree" and (here.mesh.stages > 1 or here.mesh.chunks > 1),
        "--rate.nodes degree ranks the halo nodes of whole parts, which neither stages nor chunks send",
        "use one stage and --mesh.chunks 1"),
    idle("rate.weights", "with several stages of one part: only the parts of a stage add up their weight gradients",
        lambda c, here: here.mesh.stages > 1 and here.mesh.parts == 1,
        sentence="--rate.weights {value} has no effect with one part: only the parts of a stage add up their weight "
        "gradients",
        way_out="leave it out, or use more parts"),
    excludes("rate.schedule=budget", "several chunks in several parts",
        lambda c, here: c.rate.schedule == "budget" and _chunk_halos(here),
        "--rate.schedule budget cannot plan halo rows that several parts exchange chunk by chunk",
        "use --mesh.chunks 1, one part, or another schedule"),
    excludes("rate.gain", "several stages", lambda c, here: here.mesh.stages > 1 and c.rate.gain < 1,
        "--rate.gain {rate.gain:g} belongs to halo rows; between stages changes are kept whole: use --rate.gain 1"),
    excludes("rate.narrow_bits rate.narrow_code", "several stages",
        lambda c, here: here.mesh.stages > 1 and bool(c.rate.narrow_bits or c.rate.narrow_code),
        "--rate.narrow-bits and --rate.narrow-code belong to rows that a layer narrows before it sends them to a halo; "
        "rows between stages are hidden ones", "leave them out, or use one stage"),
    excludes("freshness.gradients=none freshness.gradients=shallow", "several stages or chunks",
        lambda c, here: c.freshness.gradients in ("none", "shallow") and _pipelined(c, here),
        "--freshness.gradients {freshness.gradients} leaves gradients out between parts that exchange whole layers, "
        "not between chunks or stages", "leave it out, or use one stage and one chunk"),
    excludes("rate.share", "several stages", lambda c, here: here.mesh.stages > 1 and c.rate.share > 0,
        "--rate.share {rate.share:g} fits bits to the rows of a halo, stages send others",
        "use --rate.share 0 with --rate.bits or --rate.layers"),
    excludes("freshness.mode=never", "several stages of one part",
        lambda c, here: here.mesh.stages > 1 and here.mesh.parts == 1 and c.freshness.mode == "never",
        "--freshness.mode never has no effect with one part: no edges lie between workers",
        "use more parts, or leave it out"),
    excludes("rate.decay", "several chunks in several parts", lambda c, here: _chunk_halos(here) and changes(c),
        "--rate.decay {rate.decay:g} does not go with several chunks in several parts: chunks send halo rows after "
        "dropout, not their changes",
        "turn it off with --rate.decay -1, or use --mesh.chunks 1 or --mesh.parts 1"),
    excludes(LATE_MODES, "several chunks in several parts",
        lambda c, here: _chunk_halos(here) and late(c),
        "--freshness.mode {freshness.mode} does not go with several chunks in several parts: halo rows of chunks are "
        "this epoch's",
        "use --mesh.chunks 1 or --mesh.parts 1"),
    excludes("rate.rows", "several chunks in several parts", lambda c, here: _chunk_halos(here) and c.rate.rows < 1,
        "--rate.rows does not go with several chunks in several parts: all halo rows of a chunk travel",
        "use --mesh.chunks 1 or --mesh.parts 1"),
)  # fmt: skip
MESH_RULES = (*MESH, *MODEL, *FIRST_LAYER, *WIRE_ON_MESH)
