"""Layers and models on a shard."""

from halowire.layers.attention import Attention
from halowire.layers.conv import GCNConv, GraphConv, SAGEConv
from halowire.layers.features import Features
from halowire.layers.gat import GATConv
from halowire.layers.model import GAT, GCN, MODELS, SAGE, Block, GraphModel
from halowire.layers.propagation import Propagation
from halowire.layers.step import Step

__all__ = [
    "GAT",
    "GCN",
    "MODELS",
    "SAGE",
    "Attention",
    "Block",
    "Features",
    "GATConv",
    "GCNConv",
    "GraphConv",
    "GraphModel",
    "Propagation",
    "SAGEConv",
    "Step",
]
