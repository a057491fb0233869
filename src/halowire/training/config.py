"""The settings of a run: frozen, nested, with the defaults that train well on the built-in graph."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args, get_origin, get_type_hints

from halowire.errors import InputError

LARGEST_WHOLE = 2**1023
"""Whole numbers from here on are beyond all floats."""


class ModelName(str):
    """The name of a model, one of those in `halowire.layers`."""

    __slots__ = ()

    @staticmethod
    def known() -> tuple[str, ...]:
        """The names of all models."""
        # Settings are read without torch, which the models need.
        from halowire.layers import MODELS

        return tuple(MODELS)


DEFAULT_MODEL = ModelName("sage")


@dataclass(frozen=True)
class ModelConfig:
    """The model."""

    name: ModelName = DEFAULT_MODEL
    """graph layer of the model: GraphSAGE, GCN, GAT, or the layer of the deep models GCNII and ResGCN+"""
    layers: int = 3
    """number of graph layers"""
    hidden: int = 256
    """width of the hidden layers"""
    dropout: float = 0.5
    """share of the hidden values that are dropped, 0 <= p < 1"""
    norm: Literal["auto", "layer", "none"] = "auto"
    """normalisation before each ReLU; `auto`: LayerNorm, but none in gcnii"""
    heads: int = 4
    """gat: heads of attention, concatenated in hidden layers, averaged in the last; must divide --model.hidden"""
    residual: float = 0.0
    """gcn and sage: share of a hidden layer's input in its output, 0 <= r < 1"""


@dataclass(frozen=True)
class OptimConfig:
    """The optimiser: Adam."""

    lr: float = 0.01
    """learning rate"""
    weight_decay: float = 0.0
    """L2 penalty added to the gradients"""
    clip: float = 0.0
    """largest norm of the whole gradient; 0 is no limit"""
    schedule: Literal["constant", "cosine", "linear", "step"] = "constant"
    """how the learning rate changes over the run"""
    warmup: int = 0
    """epochs over which the learning rate rises linearly from 0"""
    step_every: int = 100
    """schedule `step`: epochs between two reductions"""
    step_factor: float = 0.5
    """schedule `step`: factor of each reduction"""


@dataclass(frozen=True)
class RateConfig:
    """Bits per value on the wire, and which values travel."""

    bits: Literal[32, 16, 8, 4, 2, 1] = 32
    """bits per value of halo rows and their gradients (32: float32, 16: bf16)"""
    backward_bits: Literal[0, 32, 16, 8, 4, 2, 1] = 0
    """bits per value of the gradients alone; 0: as --rate.bits"""
    code: Literal["minmax", "levels", "clipped"] = "minmax"
    """`minmax`: stochastic rounding between the row's minimum and maximum; `levels`, up to 4 bits: levels at and around
    the row's conditional means; `clipped`, 1 bit: stochastic between levels 1.5 times as far apart as those means"""
    backward_code: Literal["", "minmax", "levels", "clipped"] = ""
    """the code of the gradients alone; empty: as --rate.code"""
    sums: Literal[0, 8, 4, 2] = 0
    """bits per value of partial sums (--wire.cover) on the way forward, where rows have fewer; 0: as rows"""
    narrow_bits: str = ""
    """bits of narrowed rows, those that a layer multiplied by narrowing weights before they travel, and of their
    gradients: BITS or FORWARD/BACKWARD, such as 2/4; empty: as other rows"""
    narrow_code: str = ""
    """code of narrowed rows and of their gradients: CODE or FORWARD/BACKWARD, such as clipped/minmax; empty: as other
    rows"""
    share: float = 0.0
    """more bits for narrow rows, while all rows take at most this share of their float32 bytes; 0: off"""
    decay: float = -1.0
    """delta coding of forward rows: send the change from this share of the last reconstruction; below 0: off"""
    gain: float = 1.0
    """delta coding: share of the coded change that the reconstruction keeps for the next epoch"""
    ratio: float = 1.0
    """columns of a row divided by the columns that travel, such as 4: a quarter of them travels; 1: all travel"""
    columns: Literal["random", "first"] = "random"
    """which columns travel: a random subset per epoch and layer, or always the first ones, as VARCO's scripts do"""
    schedule: Literal["constant", "linear", "exponential", "steps", "budget"] = "constant"
    """how the ratio changes over the run"""
    max_ratio: float = 128.0
    """schedules `linear` and `exponential`: the ratio at the start"""
    min_ratio: float = 1.0
    """schedules `linear` and `exponential`: the ratio at the end"""
    slope: float = 5.0
    """schedule `linear`: how many times faster the ratio falls than if its fall took the whole run"""
    steps: str = ""
    """schedule `steps`: EPOCH:RATIO pairs, such as 0:64,50:8,100:1"""
    budget: float = 0.0
    """schedule `budget`: halo and stage bytes that all workers may send in the whole run"""
    rescale: bool = False
    """multiply the columns that arrive by the ratio"""
    spare_last: bool = False
    """never drop columns in the last layer, as VARCO does, unless it is the only one that exchanges rows"""
    resend_input: bool = False
    """send the raw features of the halo in every epoch, coded as layer 0 (forward only), as VARCO's code does"""
    rows: float = 1.0
    """share of the halo rows that travel, a random subset per epoch; the rows are divided by this share"""
    base: Literal["constant", "loss", "loss-per-second"] = "constant"
    """`loss`: double the bits (up to 8) while the loss falls ever more slowly, halve them while it falls ever faster;
    `loss-per-second`: the fall is measured by rank 0's clock, as published, so that runs do not repeat exactly"""
    nodes: Literal["alike", "degree"] = "alike"
    """`degree`: more bits for halo nodes of higher in-degree, in equal shares: from the base (1, 2 or 4) up to 8"""
    weights: Literal[32, 16, 8, 1] = 32
    """bits per value of the weight gradients; below 32, error feedback is on"""
    layers: str = ""
    """other bits for single layers: LAYER:BITS or LAYER:FORWARD/BACKWARD, such as 1:1,2:8/4"""
    layer_ratios: str = ""
    """a fixed ratio for single layers, whatever the schedule: LAYER:RATIO pairs, such as 1:4,2:1"""


@dataclass(frozen=True)
class WireConfig:
    """Rows that need not travel, and which rows do; the result stays exact."""

    first_layer: Literal["auto", "exchange", "local"] = "auto"
    """the halo's rows of the first layer that exchanges rows. `exchange`: sent in every epoch; `local`: computed by
    every worker itself, from features and their sums that are sent once; `auto`: as `local` where that is predicted to
    take less time than sending them. What it saves and costs is printed before the run"""
    cover: Literal["auto", "off", "on"] = "auto"
    """`on`: where it makes fewer rows, the sender adds up the rows that a node of another worker reads, and sends the
    sum (a minimum vertex cover of the edges between each two workers, or from a worker to a machine with --mesh.hosts,
    decides); exact for all models but gat, and for native layers of models of one's own. `auto`: on where at least 5
    per cent of the rows are saved"""
    rows: Literal["auto", "narrow", "hidden"] = "auto"
    """rows of a layer that narrows them. `narrow`: multiplied by its weights before they travel; `hidden`: as they are,
    more bytes, but of a kind that suits one bit; `auto`: hidden with --freshness.mode late-rows, else narrow"""
    plain: bool = False
    """all halo rows travel themselves, in every layer, whatever `auto` would choose: no first layer at home, no partial
    sums, nothing deflated, no rows once per machine without --mesh.hosts; what is sent once stays small"""
    link: float = 0.0
    """speed in Mbit/s of the network by which a machine sends, from which --wire.first-layer auto predicts; 0: 1000
    between machines, 8000 where all workers are on one"""
    squeeze: Literal["auto", "off", "on"] = "auto"
    """deflate the features and sums that are sent once before training, without loss; `auto`: on with a --wire.link of
    at most 200, since zlib is slower than faster networks"""


@dataclass(frozen=True)
class FreshnessConfig:
    """How old a halo row may be."""

    mode: Literal["fresh", "delayed", "adaptive", "late-rows", "never"] = "fresh"
    """`fresh`: this epoch's rows and gradients; `delayed`: last epoch's;
    `adaptive`: delayed until --rate.base raises the bits, then fresh until it lowers them;
    `late-rows`: last epoch's rows, sent before dropout and corrected, and gradients as --freshness.gradients says;
    `never`: train without the edges between workers; with --wire.first-layer local, without later layers' ones"""
    sync_every: int = 0
    """delayed: one epoch in this many uses its own rows (with smoothing, its rows enter the mean at once); 0: never"""
    smoothing: float = 0.0
    """delayed: momentum of the running mean that is used instead of the last message; 0: off"""
    threshold: float = 0.0
    """delayed: synchronise the next epoch when the rows of the first exchange (before dropout) changed by more than
    this share of their norm; 0: off"""
    gradients: Literal["auto", "none", "shallow", "fresh", "late"] = "auto"
    """gradients of halo rows. `none`: they do not travel; `shallow`: none in models of up to 3 layers, fresh in deeper
    ones; `fresh`: this epoch's; `late`: last epoch's; `auto`: as old as the rows, none with late-rows"""
    damping: float = 1.0
    """late-rows: factor of late gradients, 0 < d <= 1"""
    correction: Literal["none", "mean", "affine"] = "affine"
    """late-rows: how late rows are corrected by the change of the worker's own rows since the last epoch. `mean`: the
    change of their mean; `affine`: the affine map that fits it best"""
    layers: str = ""
    """late-rows: another correction for single layers: LAYER:CORRECTION pairs, such as 2:mean,3:none"""


@dataclass(frozen=True)
class MeshConfig:
    """The mesh: workers as stages x parts."""

    stages: int = 1
    """stages the layers are split over; 0: workers / parts"""
    parts: int = 0
    """parts the nodes are split over; 0: workers / stages"""
    chunks: int = 0
    """chunks of a part that move through the stages one after another; 0: 4 x stages, 1 if there is one stage"""
    shuffle: bool = True
    """a new order of the chunks in every epoch (the default); --mesh.no-shuffle: always the same"""
    history: int = 1
    """epochs between two snapshots of the rows, which stand in for chunks still to come; 1: last epoch's rows"""
    gradient_rule: Literal["double", "position", "unbiased", "stale"] = "double"
    """gradients between chunks. `double`: weight 2 if current, else 0; `position`: weight by place, less biased;
    `unbiased`: no bias, more noise; `stale`: last epoch's gradients in place of the missing ones"""
    keep: Literal["all", "aggregates"] = "all"
    """what is kept for backward: input and aggregate of every layer (`all`), or the aggregates and every fourth input,
    from which the rest is computed again"""
    costs: Literal["predicted", "measured"] = "predicted"
    """where the costs of the layers, by which they are split, come from: their sizes, or a short run at set-up"""
    split: str = ""
    """number of layers of every stage, such as 8,8,16; by default the slowest stage is made as fast as possible"""
    hosts: int = 0
    """machines that the workers are on, neighbours in rank together: a row that several workers of a machine need is
    sent there once and handed on, and their gradients are added up before they return; 0: as torchrun says, but not for
    published recipes (those of Sylvie, VARCO, PipeGCN, BNS-GCN and GNNPipe); 1: no machines are told apart"""


@dataclass(frozen=True)
class PartitionConfig:
    """Who owns which node."""

    method: Literal["metis", "hypergraph", "kaminpar", "random", "range", "stream", "auto"] = "metis"
    """partitioner: `metis` (small cut), `hypergraph` (fewest halo rows, slower), `kaminpar` (small cut in little
    memory), `stream` (any size), `range` (node order), `random`; `auto` chooses by the graph's size and says why.
    `hypergraph` and `kaminpar` need halowire[partition]"""
    metis: Literal["auto", "recursive", "kway"] = "auto"
    """method `metis`: recursive bisection or k-way; `auto`: recursive up to 8 parts"""
    balance: Literal["auto", "both", "nodes"] = "auto"
    """methods `metis`, `hypergraph` and `kaminpar`: `both`: parts of equal nodes plus edges; `nodes`: of equal nodes
    alone (fewer halo rows, more uneven work); `auto`: `both`, but where a part has more than 1.15 of the mean predicted
    work or memory, edges of half the weight are tried, then nodes leave the largest parts; fewest halo rows win"""


@dataclass(frozen=True)
class TaskConfig:
    """What is learnt, and how it is measured."""

    kind: Literal["auto", "classification", "regression", "link"] = "auto"
    """what is learnt: a node's class or labels, its values, or which pairs of nodes have an edge (`link`);
    `auto`: classes or values, as the graph says. Also: --task KIND"""
    loss: Literal["auto", "mse", "l1", "huber"] = "auto"
    """loss of regression, per value; `auto`: mse. Classes have cross entropy"""
    metric: Literal[
        "auto", "accuracy", "micro-f1", "roc-auc", "mae", "rmse", "r2", "mrr", "hits@1", "hits@10", "hits@50"
    ] = "auto"
    """`auto`: accuracy, micro-F1 where a node has several labels, RMSE for values, MRR for links"""
    inductive: bool = False
    """train on the subgraph of the training nodes only"""
    val_share: float = 0.05
    """link: share of the linked pairs of nodes that are held out to validate"""
    test_share: float = 0.1
    """link: share of the linked pairs of nodes that are held out to test"""
    negatives: int = 100
    """link: nodes without an edge that each validation and test pair is ranked among"""
    train_negatives: int = 1
    """link: nodes without an edge that each training pair is learnt against, drawn anew in every epoch"""


@dataclass(frozen=True)
class GraphConfig:
    """How the graph is read."""

    undirected: bool = False
    """add the reverse of every edge"""
    features: str = ""
    """file with the features of an edge list's nodes"""
    labels: str = ""
    """file with the labels of an edge list's nodes"""
    regression: bool = False
    """the labels are values to learn, not classes; in `train`, --task regression says the same"""
    root: str = ""
    """folder of data sets that are given by name (planetoid:Cora, reddit, ogb:ogbn-arxiv, ...); by default data"""
    split: Literal["given", "random"] = "given"
    """`random`: half of the labelled nodes to train, a quarter each to validate and to test, the same in every run"""


@dataclass(frozen=True)
class EvalConfig:
    """When the model is evaluated."""

    every: int = 10
    """epochs between two evaluations; the last epoch is always evaluated"""


@dataclass(frozen=True)
class CheckpointConfig:
    """When the run is saved."""

    every: int = 0
    """epochs between two checkpoints, beside those by minutes, at the end and on an interruption; 0: none"""
    minutes: float = 10.0
    """most minutes between two checkpoints, so that a killed run loses no more; 0: none by the clock"""
    keep: int = 2
    """checkpoints that are kept: the newest ones; where one is damaged, the one before it serves"""


@dataclass(frozen=True)
class Config:
    """Everything that decides how a run goes; `config.json` of the run folder holds it.

    Example:
        >>> halowire.Config().flat()  # the names of all settings, with their defaults
        >>> halowire.RECIPES["varco"].config.flat()["rate.schedule"]
    """

    recipe: str = "exact"
    """named, complete setting; the other flags override it"""
    epochs: int = 200
    """passes over the whole graph"""
    seed: int = 0
    """seed of the partition, the weights and the dropout"""
    early_stop: int = 0
    """stop after this many evaluations without a better validation result; 0: never"""
    threads: int = 0
    """threads per worker; 0: the machine's cores shared by its workers"""
    precision: Literal["fp32"] = "fp32"
    """number format of the computation"""
    on_nan: Literal["stop", "resume-lower-lr"] = "stop"
    """when a loss, gradient or weight is NaN or infinite. `stop`: end the run, the newest checkpoint is from before;
    `resume-lower-lr`: go back to that checkpoint with half the learning rate, at most 5 times in a run"""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """`auto`: CUDA where torch sees a GPU for every local worker, else the CPU"""
    transport: Literal["auto", "nccl", "gloo"] = "auto"
    """what carries rows between GPUs. `nccl`: NCCL, from device to device; `gloo`: Gloo, through the host's memory, for
    machines between which NCCL does not work; `auto`: NCCL where torch has it. Rows of CPUs always travel by Gloo"""
    deadline: float = 600.0
    """seconds a worker waits for the others before it gives up and says who is late"""
    model: ModelConfig = field(default_factory=ModelConfig)
    optim: OptimConfig = field(default_factory=OptimConfig)
    rate: RateConfig = field(default_factory=RateConfig)
    freshness: FreshnessConfig = field(default_factory=FreshnessConfig)
    wire: WireConfig = field(default_factory=WireConfig)
    mesh: MeshConfig = field(default_factory=MeshConfig)
    partition: PartitionConfig = field(default_factory=PartitionConfig)
    task: TaskConfig = field(default_factory=TaskConfig)
    graph: GraphConfig = field(default_factory=GraphConfig)
    eval: EvalConfig = field(default_factory=EvalConfig)
    checkpoint: CheckpointConfig = field(default_factory=CheckpointConfig)

    def replace(self, settings: Mapping[str, Any]) -> Config:
        """A copy with dotted ``settings`` (``{"model.hidden": 64}``) put in; unknown names are errors."""
        config = self
        for name, value in settings.items():
            config = _replace(config, name.replace("-", "_").split("."), value, name)
        return config

    def flat(self) -> dict[str, Any]:
        """All settings under their dotted names."""
        return dict(_flatten(self.to_dict()))

    @property
    def spans_the_run(self) -> bool:
        """Whether a schedule depends on the number of epochs, so that a resumed run cannot change this number."""
        return self.rate.schedule in ("linear", "exponential", "budget") or self.optim.schedule in ("cosine", "linear")

    def to_dict(self) -> dict[str, Any]:
        """Nested plain values, as in `config.json`."""
        return dataclasses.asdict(self)

    @staticmethod
    def from_dict(values: Mapping[str, Any]) -> Config:
        """The inverse of :meth:`to_dict`; unknown keys are errors."""
        return Config().replace(dict(_flatten(values)))


def _replace(config: Any, path: list[str], value: Any, name: str) -> Any:
    known = {f.name for f in dataclasses.fields(config)}
    if path[0] not in known or (len(path) == 1) == dataclasses.is_dataclass(getattr(config, path[0])):
        raise InputError(f"setting {name!r} is unknown; here one of {', '.join(sorted(known))} is expected")
    if len(path) > 1:
        value = _replace(getattr(config, path[0]), path[1:], value, name)
    else:
        value = _checked(get_type_hints(type(config))[path[0]], value, name)
    return dataclasses.replace(config, **{path[0]: value})


def _checked(kind: Any, value: Any, name: str) -> Any:
    if get_origin(kind) is Literal or kind is ModelName:
        choices = ModelName.known() if kind is ModelName else get_args(kind)
        if value not in choices or type(value) not in (type(choices[0]), ModelName):
            raise InputError(f"{name} is {value!r}; expected one of {', '.join(map(str, choices))}")
        return ModelName(value) if kind is ModelName else value
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        if abs(value) >= LARGEST_WHOLE:
            raise InputError(f"{name} is a whole number of {len(str(abs(value)))} digits; expected a smaller one")
        return float(value)
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise InputError(f"{name} is {value!r}; expected a value of type {kind.__name__}")
    return value


def _flatten(values: Mapping[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    flat: list[tuple[str, Any]] = []
    for key, value in values.items():
        flat += _flatten(value, f"{prefix}{key}.") if isinstance(value, Mapping) else [(f"{prefix}{key}", value)]
    return flat
