"""What is computed: segments, the aggregations between them, and one file for every model."""

from halowire.layers.activation import Activation
from halowire.layers.aggregation import (
    Aggregation,
    Gathering,
    Incoming,
    RowEdges,
    Sum,
    Summing,
    gather_whole,
    mean_sum,
    scatter_whole,
    symmetric_sum,
)
from halowire.layers.attention import Attending, Attention, AttentionEdges, AttentionGradients
from halowire.layers.dense import empty_on, empty_rows
from halowire.layers.entry import Entry
from halowire.layers.features import SPARSE_LIMIT, Columns, Inputs, densify, stays_sparse
from halowire.layers.gat import GAT
from halowire.layers.gcn import GCN
from halowire.layers.gcnii import GCNII
from halowire.layers.layer import Layer, Output, Work
from halowire.layers.model import MODELS, Model, Shape, register
from halowire.layers.resgcn import ResGCN
from halowire.layers.rows import Kept, Rows
from halowire.layers.sage import SAGE
from halowire.layers.segment import Segment

__all__ = [
    "GAT", "GCN", "GCNII", "MODELS", "SAGE", "SPARSE_LIMIT", "Activation", "Aggregation", "Attending", "Attention",
    "AttentionEdges", "AttentionGradients", "Columns", "Entry", "Gathering", "Incoming", "Inputs", "Kept", "Layer",
    "Model", "Output", "ResGCN", "RowEdges", "Rows", "Segment", "Shape", "Sum", "Summing", "Work", "densify",
    "empty_on", "empty_rows", "gather_whole", "mean_sum", "register", "scatter_whole", "stays_sparse", "symmetric_sum",
]  # fmt: skip
