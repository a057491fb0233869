"""What is trained on: the graph, its converters and checks, normalisation, synthetic graphs, built-in data."""

from halowire.graph.block_model import block_model
from halowire.graph.checks import check
from halowire.graph.graph import Graph
from halowire.graph.load import load
from halowire.graph.normalise import mean, symmetric
from halowire.graph.pyg import from_pyg
from halowire.graph.rmat import rmat

__all__ = ["Graph", "block_model", "check", "from_pyg", "load", "mean", "rmat", "symmetric"]
