"""Properties of graph files: what is written comes back, and no damaged file gets past the reader."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from halowire.errors import InputError
from halowire.graph import Graph, load, write_npz

IDS = st.integers(0, 2**62)


@settings(deadline=None, max_examples=50)
@given(
    st.lists(st.tuples(IDS, IDS), min_size=1, max_size=30),
    st.sampled_from([",", "\t", ";", " "]),
    st.booleans(),
    st.booleans(),
)
def test_edge_lists_keep_every_edge_and_id(
    pairs: list[tuple[int, int]], mark: str, header: bool, weighted: bool
) -> None:
    lines = [mark.join(map(str, pair)) + (f"{mark}0.5" if weighted else "") for pair in pairs]
    names = mark.join(["source", "target", "weight"][: 3 if weighted else 2])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "graph.csv"
        path.write_text("\n".join([names, *lines] if header else lines) + "\n")
        graph = load(path)
    source, target = graph.ids[graph.edge_index()].tolist()
    assert sorted(zip(source, target, strict=True)) == sorted(pairs)
    assert graph.ids.tolist() == sorted({node for pair in pairs for node in pair})
    assert (graph.adj.weight is not None) == weighted


def small_graph(seed: int, num_nodes: int) -> Graph:
    rng = np.random.default_rng(seed)
    x = torch.from_numpy(rng.integers(0, 3, (num_nodes, 5)).astype(np.float32))
    return Graph.from_edge_index(
        rng.integers(0, num_nodes, (2, 3 * num_nodes)),
        num_nodes,
        x.to_sparse_coo() if seed % 2 else x,  # type: ignore[no-untyped-call]
        rng.integers(0, 4, num_nodes),
        train_mask=np.arange(num_nodes) == 0,
        edge_weight=rng.random(3 * num_nodes) if seed % 3 else None,
        ids=rng.permutation(num_nodes) * 10,
        num_classes=4,
    )


@settings(deadline=None, max_examples=50)
@given(st.integers(0, 1000), st.integers(1, 40))
def test_archives_round_trip(seed: int, num_nodes: int) -> None:
    graph = small_graph(seed, num_nodes)
    with tempfile.TemporaryDirectory() as folder:
        write_npz(graph, Path(folder) / "g.npz")
        again = load(Path(folder) / "g.npz")
    assert torch.equal(graph.adj.indices, again.adj.indices)
    assert torch.equal(graph.adj.to_dense(), again.adj.to_dense())
    assert torch.equal(graph.ids, again.ids)
    assert graph.x is not None
    assert again.x is not None
    assert torch.equal(graph.x.to_dense(), again.x.to_dense())
    assert torch.equal(graph.train_mask, again.train_mask)  # type: ignore[arg-type]


@settings(deadline=None, max_examples=50)
@given(st.integers(0, 20), st.floats(0, 1, exclude_max=True))
def test_no_cut_off_archive_is_read(seed: int, share: float) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "g.npz"
        write_npz(small_graph(seed, 30), path)
        whole = path.read_bytes()
        path.write_bytes(whole[: int(share * len(whole))])
        try:
            load(path)
        except InputError:
            return
    raise AssertionError("a file that was cut off was read")
