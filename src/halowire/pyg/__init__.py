"""This package runs any model of PyTorch Geometric on a whole graph that is spread over many workers."""

from halowire.pyg.distribute import distribute, layer_paths
from halowire.pyg.drop_edges import DropEdges
from halowire.pyg.fast_path import LayerPath
from halowire.pyg.fit import Fit, fit
from halowire.pyg.hand_over import HandOver, read_tensors
from halowire.pyg.own_model import own_facts, own_runner
from halowire.pyg.random_draws import Random
from halowire.pyg.row_states import clip_grad_norm_, load_optimizer_state, optimizer_state
from halowire.pyg.shard_data import Links, ShardData, place_data, shard, shard_links

__all__ = [
    "DropEdges", "Fit", "HandOver", "LayerPath", "Links", "Random", "ShardData", "clip_grad_norm_", "distribute", "fit",
    "layer_paths", "load_optimizer_state", "optimizer_state", "own_facts", "own_runner", "place_data", "read_tensors",
    "shard", "shard_links",
]  # fmt: skip
