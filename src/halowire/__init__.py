"""halowire trains graph neural networks on whole graphs that are spread over many workers."""

from halowire.api import Run, partition, predict, train
from halowire.fit import Fit, fit
from halowire.graph import Graph, block_model, load, rmat
from halowire.kernels import InputError
from halowire.launch.shard import shard
from halowire.nn import GCN, SAGE, GCNConv, SAGEConv
from halowire.nn.foreign.drop_edges import DropEdges
from halowire.train.config import Config
from halowire.train.distribute import distribute
from halowire.train.recipes import RECIPES

__all__ = [
    "GCN",
    "RECIPES",
    "SAGE",
    "Config",
    "DropEdges",
    "Fit",
    "GCNConv",
    "Graph",
    "InputError",
    "Run",
    "SAGEConv",
    "block_model",
    "distribute",
    "fit",
    "load",
    "partition",
    "predict",
    "rmat",
    "shard",
    "train",
]
