"""The data of training: the graph, its converters and checks, normalisation, synthetic graphs, built-in data."""

from halowire.graph.checks import MOST_CLASSES, check
from halowire.graph.datasets import dataset_name, is_dataset
from halowire.graph.graph import Graph
from halowire.graph.link_split import SPLITS, LinkSplit, draw_negatives, message_graph, pair_keys, split_links
from halowire.graph.load import load
from halowire.graph.normalise import (
    inverse,
    inverse_sqrt,
    mean,
    scaled_by,
    symmetric,
    symmetric_degree,
    with_self_loops,
)
from halowire.graph.npy import NpyHeader, read_npy, read_npy_header
from halowire.graph.npz import write_npz
from halowire.graph.pyg_data import from_pyg, homogeneous, is_hetero
from halowire.graph.seeded import checked_seed, random_split
from halowire.graph.synthetic import block_model, rmat

__all__ = [
    "MOST_CLASSES", "SPLITS", "Graph", "LinkSplit", "NpyHeader", "block_model", "check", "checked_seed", "dataset_name",
    "draw_negatives", "from_pyg", "homogeneous", "inverse", "inverse_sqrt", "is_dataset", "is_hetero", "load", "mean",
    "message_graph", "pair_keys", "random_split", "read_npy", "read_npy_header", "rmat", "scaled_by", "split_links",
    "symmetric", "symmetric_degree", "with_self_loops", "write_npz",
]  # fmt: skip
