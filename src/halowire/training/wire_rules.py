"""The rules of rate and freshness: which of their settings go together, whatever the model and the mesh."""

from __future__ import annotations

import re

from halowire.kernels import CODE_BITS
from halowire.training.config import Config, RateConfig
from halowire.training.cover_choice import against_cover
from halowire.training.layer_rates import narrow_bits, narrow_codes
from halowire.training.row_age import gradients_of, sends_narrow
from halowire.training.rule import Rule, Situation, changed, excludes, idle, needs, parse_settings, readable, within
from halowire.wire import BASES, parse_steps

RATE = " ".join(f"rate.{name}" for name in vars(RateConfig()) if name != "weights")
"""All settings that decide how rows travel."""


def changes(config: Config) -> bool:
    """Whether rows travel as changes from their last reconstruction."""
    return config.rate.decay >= 0


def late(config: Config) -> bool:
    """Whether the rows of the last epoch may be used."""
    return config.freshness.mode in ("delayed", "adaptive", "late-rows")


def late_rows(config: Config) -> bool:
    """Whether rows of the last epoch are used, and gradients by a setting of their own."""
    return config.freshness.mode == "late-rows"


def _corrects(config: Config) -> bool:
    """Whether late rows of some layer are corrected."""
    return late_rows(config) and (config.freshness.correction != "none" or bool(config.freshness.layers))


def forward_bits(rate: RateConfig) -> set[int]:
    """All numbers of bits that forward rows may have; with ``rate.share``, any from ``rate.bits`` up."""
    if rate.share:
        return {bits for bits in BASES if bits >= rate.bits}
    return {rate.bits, *(narrow_bits(rate) or ())[:1], *(int(forward) for forward, _ in _layer_bits(rate))}


def backward_bits(rate: RateConfig) -> set[int]:
    """All numbers of bits that gradients may have."""
    if rate.share:
        return forward_bits(rate)
    own = (int(backward or forward) for forward, backward in _layer_bits(rate))
    return {rate.backward_bits or rate.bits, *(narrow_bits(rate) or ())[1:], *own}


def _layer_bits(rate: RateConfig) -> list[tuple[str, str]]:
    return re.findall(r":(\d+)(?:/(\d+))?", rate.layers)


def _silent(config: Config) -> bool:
    """Whether no rows are sent in training: parts exchange no rows, and there are no stages."""
    # With parts but stages 0, the other workers become stages, and rows travel between stages in any case.
    staged = config.mesh.stages > 1 or (not config.mesh.stages and config.mesh.parts > 0)
    return config.freshness.mode == "never" and not staged


def _follows_loss(config: Config) -> bool:
    return config.rate.base != "constant"


def _drops_columns(config: Config) -> bool:
    rate = config.rate
    return rate.schedule != "constant" or rate.ratio > 1 or bool(rate.layer_ratios)


def _falls(config: Config) -> bool:
    return config.rate.schedule in ("linear", "exponential")


def _ungradable(config: Config) -> set[int]:
    """The numbers of bits in use that cannot be the base of bits by degree."""
    return (forward_bits(config.rate) | backward_bits(config.rate)) - set(BASES)


def _coded(rate: RateConfig) -> set[int]:
    """All numbers of bits that ``rate.code`` is used with: those of gradients too, unless they have their own code."""
    return forward_bits(rate) | (set() if rate.backward_code else backward_bits(rate))


def _idle_narrow_code(config: Config) -> bool:
    """Whether no row that ``rate.narrow_code`` may code has bits that it takes."""
    codes, bits = narrow_codes(config.rate), (forward_bits(config.rate), backward_bits(config.rate))
    if codes is None or _follows_loss(config):
        return False
    return not any(set(CODE_BITS[code]) & numbers for code, numbers in zip(codes, bits, strict=True))


def _code_rules(code: str, takes: tuple[int, ...]) -> list[Rule]:
    """The rules that ``code`` has no effect without one of the bits that it ``takes``, one for each direction."""
    number = str(takes[0]) if len(takes) == 1 else f"{', '.join(map(str, takes[:-1]))} or {takes[-1]}"
    reason = f"without a rate of {number} bit{'s' * (number != '1')}"

    def forward(config: Config, here: Situation) -> bool:
        return config.rate.code == code and not _follows_loss(config) and not _coded(config.rate) & set(takes)

    def backward(config: Config, here: Situation) -> bool:
        own = config.rate.backward_code == code and not _follows_loss(config)
        return own and not backward_bits(config.rate) & set(takes)

    rules = [idle(f"rate.backward_code={code}", reason, backward)]
    return rules if code == RateConfig().code else [idle(f"rate.code={code}", reason, forward), *rules]


def _rows_alone(config: Config) -> bool:
    """Whether no partial sums travel, whatever the graph."""
    return config.wire.plain or config.wire.cover == "off" or bool(against_cover(config))


def _excludes_share(name: str) -> Rule:
    """The rule that ``rate.share`` and the setting ``name`` exclude each other: both decide on the bits of a row."""
    setting = parse_settings(name)
    return excludes(f"{name} rate.share", "", lambda c, here: c.rate.share > 0 and bool(changed(c, setting)),
        "--rate.share and --{flag} both decide on the bits of a row",
        "drop one (--rate.share 0 turns off that of a recipe)")  # fmt: skip


RANGES = (
    within("rate.ratio", "be at least 1", lambda ratio: ratio >= 1),
    within("rate.rows", "lie in 0 < p <= 1", lambda share: 0 < share <= 1),
    within("rate.decay", "lie in 0 <= g <= 1, or below 0: off", lambda decay: decay <= 1),
    within("rate.gain", "lie in 0 < a <= 1", lambda gain: 0 < gain <= 1),
    within("rate.share", "lie in 0 < s <= 1, such as 0.05, or be 0: off", lambda share: 0 <= share <= 1),
    within("rate.slope", "be above 0 and finite, such as 5", lambda slope: 0 < slope < float("inf")),
    within("freshness.sync_every", "be at least 1, or 0 for never", lambda epochs: epochs >= 0),
    within("freshness.smoothing", "lie in 0 <= m < 1", lambda momentum: 0 <= momentum < 1),
    within("freshness.threshold", "be at least 0", lambda share: share >= 0),
    within("freshness.damping", "lie in 0 < d <= 1", lambda factor: 0 < factor <= 1),
    readable("rate.narrow_bits", "be BITS or FORWARD/BACKWARD", lambda c, here: narrow_bits(c.rate)),
    readable("rate.narrow_code", "be CODE or FORWARD/BACKWARD", lambda c, here: narrow_codes(c.rate)),
    readable("rate.steps", "be EPOCH:RATIO pairs that start at epoch 0",
        lambda c, here: c.rate.schedule == "steps" and parse_steps(c.rate.steps)),
)  # fmt: skip
TOGETHER = (
    excludes("rate.rows rate.decay", "", lambda c, here: c.rate.rows < 1 and changes(c),
        "--rate.rows and --rate.decay do not go together: the change of a row not sent is unknown"),
    excludes("rate.rows freshness.smoothing", "", lambda c, here: c.rate.rows < 1 and c.freshness.smoothing > 0,
        "--rate.rows and --freshness.smoothing do not go together: every epoch samples other rows"),
    excludes("rate.rows freshness.correction", "", lambda c, here: c.rate.rows < 1 and _corrects(c),
        "--rate.rows and --freshness.correction do not go together: a row that did not travel cannot be corrected",
        "send all rows, or use --freshness.correction none"),
    excludes("freshness.smoothing freshness.correction", "", lambda c, here: c.freshness.smoothing > 0 and _corrects(c),
        "--freshness.smoothing and --freshness.correction do not go together: a mean of many epochs is not one epoch "
        "late", "leave one out"),
    needs("freshness.correction", "all columns, or --rate.decay",
        lambda c, here: _corrects(c) and _drops_columns(c) and not changes(c),
        "--freshness.correction needs whole rows, but some columns do not travel",
        "add --rate.decay 0.8, which remembers them, or use --freshness.correction none"),
    needs("freshness.correction", "--wire.rows hidden or auto",
        lambda c, here: _corrects(c) and c.wire.rows == "narrow",
        "--freshness.correction fits how hidden rows change, but --wire.rows narrow sends products of dropped rows",
        "use --wire.rows hidden, or --freshness.correction none"),
    excludes("freshness.gradients=late", "rows of this epoch",
        lambda c, here: c.freshness.gradients == "late" and c.freshness.mode == "fresh",
        "--freshness.gradients late belongs to late rows, and those of --freshness.mode fresh are this epoch's",
        "use --freshness.gradients none, or leave it out"),
    excludes("freshness.gradients=none freshness.gradients=shallow freshness.gradients=fresh",
        "--freshness.mode delayed or adaptive",
        lambda c, here: c.freshness.gradients not in ("auto", "late")
        and c.freshness.mode in ("delayed", "adaptive"),
        "--freshness.gradients {freshness.gradients} does not go with --freshness.mode {freshness.mode}, whose "
        "gradients are as old as its rows", "use --freshness.mode late-rows"),
    excludes("freshness.mode=late-rows freshness.threshold", "",
        lambda c, here: late_rows(c) and c.freshness.threshold > 0,
        "--freshness.threshold measures how rows change, which --freshness.mode late-rows corrects",
        "use --freshness.sync-every, or --freshness.mode delayed"),
    excludes("rate.nodes=degree rate.rows", "", lambda c, here: c.rate.nodes == "degree" and c.rate.rows < 1,
        "bits by degree rank all rows of a list, but only some are sampled", "drop one of the two"),
    excludes("rate.nodes=degree rate.decay", "", lambda c, here: c.rate.nodes == "degree" and changes(c),
        "--rate.nodes degree and --rate.decay do not go together: a row has other bits for other peers, so its owner "
        "would need a reconstruction for each of them"),
    excludes("rate.rescale rate.decay", "", lambda c, here: c.rate.rescale and changes(c),
        "--rate.rescale and --rate.decay do not go together: a reconstruction keeps the columns that do not travel, "
        "so there is nothing to make up for",
        "leave one out"),
    excludes("rate.rescale rate.columns=first", "", lambda c, here: c.rate.rescale and c.rate.columns == "first",
        "--rate.rescale and --rate.columns first do not go together: the other columns never travel, and larger "
        "values do not stand for them",
        "leave one out"),
    excludes("rate.sums rate.rows", "", lambda c, here: c.rate.sums > 0 and c.rate.rows < 1,
        "--rate.sums and --rate.rows do not go together: every epoch samples other rows and sums",
        "drop one of the two"),
    needs("freshness.mode=adaptive", "--rate.base loss or loss-per-second",
        lambda c, here: c.freshness.mode == "adaptive" and not _follows_loss(c),
        "--freshness.mode adaptive follows the bits: add --rate.base loss, or use delayed"),
    needs("rate.base=loss rate.base=loss-per-second", "--rate.bits 1, 2, 4 or 8",
        lambda c, here: _follows_loss(c) and c.rate.bits not in BASES,
        "--rate.base {rate.base} starts from 1, 2, 4 or 8 bits, not {rate.bits}", "set --rate.bits"),
    excludes("rate.schedule=budget rate.base=loss rate.base=loss-per-second", "",
        lambda c, here: c.rate.schedule == "budget" and _follows_loss(c),
        "--rate.schedule budget cannot plan with --rate.base {rate.base}: its bits are not known yet"),
    needs("rate.max_ratio rate.min_ratio", "1 <= min <= max < infinity",
        lambda c, here: _falls(c) and not 1 <= c.rate.min_ratio <= c.rate.max_ratio < float("inf"),
        "--rate.max-ratio is {rate.max_ratio:g} and --rate.min-ratio {rate.min_ratio:g}; the ratio falls from the "
        "first to the second, so they must satisfy 1 <= min <= max < infinity"),
    needs("rate.share", "--rate.bits 1, 2, 4 or 8", lambda c, here: c.rate.share > 0 and c.rate.bits not in BASES,
        "--rate.share starts from 1, 2, 4 or 8 bits, not {rate.bits}", "set --rate.bits 1"),
    *(_excludes_share(f"rate.{name}") for name in ("layers", "backward_bits", "narrow_bits", "base", "nodes")),
    needs("rate.nodes=degree", "a base of 1, 2, 4 or 8 bits",
        lambda c, here: c.rate.nodes == "degree" and not _follows_loss(c) and bool(_ungradable(c)),
        "bits by degree start from a base of 1, 2, 4 or 8 bits, not {bits}", "set --rate.bits",
        lambda c, here: {"bits": max(_ungradable(c))}),
)  # fmt: skip
IDLE = (
    idle(RATE, "with --freshness.mode never, which sends no rows", lambda c, here: _silent(c)),
    idle("freshness.sync_every freshness.smoothing freshness.threshold", "without --freshness.mode delayed",
        lambda c, here: not late(c)),
    idle("freshness.gradients", "with --freshness.mode never, which sends no rows", lambda c, here: _silent(c)),
    idle("freshness.damping freshness.correction freshness.layers",
        "without --freshness.mode late-rows", lambda c, here: not late_rows(c)),
    idle("freshness.damping", "without --freshness.gradients late",
        lambda c, here: late_rows(c) and c.freshness.gradients != "late"),
    idle("rate.backward_bits rate.backward_code", "without gradients that travel (--freshness.gradients none)",
        lambda c, here: gradients_of(c) == "none"),
    idle("rate.narrow_bits rate.narrow_code", "where no rows are narrowed (--wire.rows hidden, and late rows)",
        lambda c, here: not here.own_model and not sends_narrow(c)),
    idle("rate.narrow_code", "without bits that it takes", lambda c, here: _idle_narrow_code(c)),
    idle("rate.narrow_bits", "where --rate.base follows the loss: all layers and directions have its bits",
        lambda c, here: _follows_loss(c)),
    *(rule for code, takes in CODE_BITS.items() for rule in _code_rules(code, takes)),
    idle("rate.sums", "where no partial sums travel (--wire.cover)", lambda c, here: _rows_alone(c)),
    idle("rate.sums", "where rows have as many bits already",
        lambda c, here: not _follows_loss(c) and min(forward_bits(c.rate)) >= c.rate.sums),
    idle("rate.gain", "without --rate.decay: nothing is kept", lambda c, here: not changes(c)),
    idle("rate.backward_bits rate.layers",
        "where --rate.base follows the loss: all layers and directions have its bits",
        lambda c, here: _follows_loss(c)),
    idle("rate.nodes=degree", "on 8 bits, the most of any grade; use a base of 1, 2 or 4",
        lambda c, here: not _follows_loss(c) and forward_bits(c.rate) | backward_bits(c.rate) == {8}),
    idle("rate.ratio", "without --rate.schedule constant", lambda c, here: c.rate.schedule != "constant"),
    idle("rate.steps", "without --rate.schedule steps", lambda c, here: c.rate.schedule != "steps"),
    idle("rate.budget", "without --rate.schedule budget", lambda c, here: c.rate.schedule != "budget"),
    idle("rate.max_ratio rate.min_ratio", "without --rate.schedule linear or exponential",
        lambda c, here: not _falls(c)),
    idle("rate.slope", "without --rate.schedule linear", lambda c, here: c.rate.schedule != "linear"),
    idle("rate.columns rate.rescale rate.spare_last", "without a ratio of columns",
        lambda c, here: not _drops_columns(c)),
)  # fmt: skip
WIRE_RULES = (*RANGES, *TOGETHER, *IDLE)
