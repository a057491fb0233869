"""Layers and models on a shard."""

from halowire.layers.attention import Attention
from halowire.layers.conv import GCNConv, GraphConv, SAGEConv
from halowire.layers.deep import DEEP_MODELS, DeepModel
from halowire.layers.features import Features
from halowire.layers.gat import GATConv
from halowire.layers.model import GAT, GCN, MODELS, SAGE, Block, GraphModel
from halowire.layers.propagation import Propagation
from halowire.layers.step import Step

ALL_MODELS: dict[str, type[GraphModel] | type[DeepModel]] = {**MODELS, **DEEP_MODELS}
"""All models of the library by name. What a model can do is said by its class: ``takes_residual``, ``takes_heads``,
``can_split``, ``aggregates_input``, ``default_norm``."""

__all__ = [
    "ALL_MODELS",
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
