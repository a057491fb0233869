"""Training: settings, recipes and rules, task, loop, checkpoints, predictions, comparisons."""

from halowire.training.checkpoint import best_weights, kept_split, newest_checkpoint
from halowire.training.comparison import Cell, Comparison, refuse_other_comparison
from halowire.training.config import Config, GraphConfig, ModelConfig, ModelName, PartitionConfig, TaskConfig
from halowire.training.graph_parallel import GraphParallel
from halowire.training.job import PREDICTIONS, Job, delete_run, refuse_other_job
from halowire.training.link_task import Decoder, LinkTask, dot_product
from halowire.training.loop import EXTRAS, Hooks, Silent, Trainer
from halowire.training.model_setup import policy_of, travelling_widths
from halowire.training.outcome import Run, finished, worker_error
from halowire.training.predict import check_format, gather_predictions, predict, write_predictions
from halowire.training.recipes import RECIPES, recipe_config
from halowire.training.rule import Kind, Rule, Situation, dashed, mesh_of, pipelined
from halowire.training.rules import RULES, refuse, settled
from halowire.training.runner import Runner
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

__all__ = [
    "EXTRAS", "PREDICTIONS", "RECIPES", "RULES", "Cell", "Comparison", "Config", "Decoder", "GraphConfig",
    "GraphParallel", "Hooks", "Job", "Kind", "Learnt", "LinkTask", "ModelConfig", "ModelName", "PartitionConfig",
    "Rule", "Run", "Runner", "Silent", "Situation", "Staged", "Task", "TaskConfig", "Trainer", "best_weights",
    "check_format", "cut_for", "dashed", "delete_run", "dot_product", "finished", "gather_predictions", "hold_out",
    "is_shards", "kept_split", "load_for", "load_source", "mesh_of", "newest_checkpoint", "pipelined", "policy_of",
    "predict", "recipe_config", "refuse", "refuse_edge_tensors", "refuse_other_comparison", "refuse_other_cut",
    "refuse_other_job", "refuse_other_shards", "refuse_untrainable", "settled", "travelling_widths", "worker_error",
    "write_predictions",
]  # fmt: skip
