"""Layers and models on a shard."""

from halowire.nn.attention import Attention
from halowire.nn.conv import GCNConv, GraphConv, SAGEConv
from halowire.nn.features import Features
from halowire.nn.gat import GATConv
from halowire.nn.model import GAT, GCN, MODELS, SAGE, Block, GraphModel
from halowire.nn.propagation import Propagation
from halowire.nn.step import Step

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
