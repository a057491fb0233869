"""halowire trains graph neural networks on whole graphs that are spread over many workers."""

from halowire.api import Run, partition, predict, train
from halowire.graph import Graph, block_model, load, rmat
from halowire.kernels import InputError
from halowire.nn import GCN, SAGE, GCNConv, SAGEConv
from halowire.train.config import Config
from halowire.train.recipes import RECIPES

__all__ = [
    "GCN",
    "RECIPES",
    "SAGE",
    "Config",
    "GCNConv",
    "Graph",
    "InputError",
    "Run",
    "SAGEConv",
    "block_model",
    "load",
    "partition",
    "predict",
    "rmat",
    "train",
]
