"""Training: settings, recipes and rules, task, loop, checkpoints, predictions, comparisons."""

from halowire.training.agreement import agree, job_facts, model_facts
from halowire.training.checkpoint import newest_checkpoint
from halowire.training.checkpoint_choice import Found, best_weights, find_checkpoint, parse_weights
from halowire.training.comparison import Cell, Comparison, refuse_other_comparison
from halowire.training.config import Config, GraphConfig, ModelConfig, ModelName, PartitionConfig, TaskConfig
from halowire.training.cover_choice import PartialSums, against_cover, choose_cover
from halowire.training.earlier_run import bring_back, earlier_run_kept, forget_earlier, holds_run, set_aside
from halowire.training.first_layer_choice import FirstLayer, asked, chosen
from halowire.training.generators import generator_states, restore_generators
from halowire.training.graph_parallel import GraphParallel
from halowire.training.home_price import ETHERNET, LOOPBACK, FirstRows, Surroundings, home_price
from halowire.training.job import PREDICTIONS, Job, graph_sizes, holds_parts, refuse_other_job, refuse_other_sizes
from halowire.training.link_task import Decoder, LinkTask, PairRows, dot_product
from halowire.training.loop import EXTRAS, Hooks, Silent, Trainer
from halowire.training.machine_shares import Spread
from halowire.training.marked_nodes import refuse_other_counts
from halowire.training.memory_estimate import MemoryEstimate, estimate, least, placed_memory, refuse_too_large
from halowire.training.model_setup import policy_of, travelling_widths
from halowire.training.outcome import Run, finished, worker_error
from halowire.training.predict import check_format, gather_predictions, predict, write_predictions
from halowire.training.rate_plan import epoch_bytes
from halowire.training.recipes import RECIPES, recipe_config
from halowire.training.row_age import trained_part
from halowire.training.rule import Kind, Rule, Situation, dashed, mesh_for_hosts, mesh_of, pipelined
from halowire.training.rules import RULES, refuse, settled
from halowire.training.runner import Runner
from halowire.training.savings import Savings, silent
from halowire.training.shared_folder import sees_first
from halowire.training.source import (
    cut_for,
    hold_out,
    is_shards,
    load_for,
    load_source,
    refuse_edge_tensors,
    refuse_other_cut,
    refuse_other_shards,
    refuse_untrainable,
)
from halowire.training.staged import Staged
from halowire.training.task import Learnt, Task
from halowire.training.telling import agreed, gather_words
from halowire.training.worker_memory import free_memory, peak_memory

__all__ = [
    "ETHERNET",
    "EXTRAS",
    "LOOPBACK",
    "PREDICTIONS",
    "RECIPES",
    "RULES",
    "Cell",
    "Comparison",
    "Config",
    "Decoder",
    "FirstLayer",
    "FirstRows",
    "Found",
    "GraphConfig",
    "GraphParallel",
    "Hooks",
    "Job",
    "Kind",
    "Learnt",
    "LinkTask",
    "MemoryEstimate",
    "ModelConfig",
    "ModelName",
    "PairRows",
    "PartialSums",
    "PartitionConfig",
    "Rule",
    "Run",
    "Runner",
    "Savings",
    "Silent",
    "Situation",
    "Spread",
    "Staged",
    "Surroundings",
    "Task",
    "TaskConfig",
    "Trainer",
    "against_cover",
    "agree",
    "agreed",
    "asked",
    "best_weights",
    "bring_back",
    "check_format",
    "choose_cover",
    "chosen",
    "cut_for",
    "dashed",
    "dot_product",
    "earlier_run_kept",
    "epoch_bytes",
    "estimate",
    "find_checkpoint",
    "finished",
    "forget_earlier",
    "free_memory",
    "gather_predictions",
    "gather_words",
    "generator_states",
    "graph_sizes",
    "hold_out",
    "holds_parts",
    "holds_run",
    "home_price",
    "is_shards",
    "job_facts",
    "least",
    "load_for",
    "load_source",
    "mesh_for_hosts",
    "mesh_of",
    "model_facts",
    "newest_checkpoint",
    "parse_weights",
    "peak_memory",
    "pipelined",
    "placed_memory",
    "policy_of",
    "predict",
    "recipe_config",
    "refuse",
    "refuse_edge_tensors",
    "refuse_other_comparison",
    "refuse_other_counts",
    "refuse_other_cut",
    "refuse_other_job",
    "refuse_other_shards",
    "refuse_other_sizes",
    "refuse_too_large",
    "refuse_untrainable",
    "restore_generators",
    "sees_first",
    "set_aside",
    "settled",
    "silent",
    "trained_part",
    "travelling_widths",
    "worker_error",
    "write_predictions",
]
