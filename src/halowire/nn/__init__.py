"""Layers and models on a shard."""

from halowire.nn.conv import GCNConv, GraphConv, SAGEConv
from halowire.nn.features import Features
from halowire.nn.model import GCN, MODELS, SAGE, Block, GraphModel
from halowire.nn.propagation import Propagation
from halowire.nn.step import Step

__all__ = [
    "GCN",
    "MODELS",
    "SAGE",
    "Block",
    "Features",
    "GCNConv",
    "GraphConv",
    "GraphModel",
    "Propagation",
    "SAGEConv",
    "Step",
]
