"""This package runs any model of PyTorch Geometric on a whole graph that is spread over many workers."""

from halowire.pyg.data_part import ShardData
from halowire.pyg.distribute import distribute, layer_paths
from halowire.pyg.drop_edges import DropEdges
from halowire.pyg.fast_path import LayerPath
from halowire.pyg.fit import Fit, fit
from halowire.pyg.hand_over import HandOver, read_data
from halowire.pyg.hetero_data import HeteroShardData
from halowire.pyg.own_model import own_facts, own_runner
from halowire.pyg.random_draws import Random
from halowire.pyg.row_states import clip_grad_norm_, load_optimizer_state, optimizer_state
from halowire.pyg.shard_data import Links, shard, shard_links

__all__ = [
    "DropEdges", "Fit", "HandOver", "HeteroShardData", "LayerPath", "Links", "Random", "ShardData", "clip_grad_norm_",
    "distribute", "fit", "layer_paths", "load_optimizer_state", "optimizer_state", "own_facts", "own_runner",
    "read_data", "shard", "shard_links",
]  # fmt: skip
