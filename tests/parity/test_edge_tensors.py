"""What edges have travels with them: through shards on disk, to any number of workers, element by element."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

import halowire
from halowire.errors import InputError
from halowire.graph import Graph, write_npz
from halowire.graph.npz import read_npz
from halowire.partitioning import Partition, cut, read_shard, write_shards
from halowire.pyg.shard_data import of_shard
from halowire.wire import Transport
from tests.support.pyg_case import assert_close, make_graph, make_owner
from tests.support.pyg_models import build

NAMES = ["GATConv mean, edge features", "RGCNConv", "own layer"]


def marked_graph() -> Graph:
    """Every edge's features say which edge it is: parallel edges too have features of their own."""
    tensors = make_graph()
    edges = {name: tensors[name] for name in ("edge_attr", "edge_type")}
    return Graph.from_edge_index(tensors["edge_index"], len(tensors["x"]), tensors["x"], edge_tensors=edges)


def rows_of(edge_index: torch.Tensor, attr: torch.Tensor, kind: torch.Tensor) -> list[tuple[float, ...]]:
    return sorted(zip(*edge_index.tolist(), *attr.t().tolist(), kind.tolist(), strict=True))


def test_a_graph_keeps_them_in_the_order_of_its_edges(tmp_path):
    tensors, graph = make_graph(), marked_graph()
    want = rows_of(tensors["edge_index"], tensors["edge_attr"], tensors["edge_type"])
    assert rows_of(graph.edge_index(), *graph.edge_tensors.values()) == want
    write_npz(graph, tmp_path / "g.npz")
    again = read_npz(tmp_path / "g.npz", "g")
    assert rows_of(again.edge_index(), *(again.edge_tensors[name] for name in ("edge_attr", "edge_type"))) == want


def test_a_subgraph_keeps_those_of_its_edges():
    graph, mask = marked_graph(), torch.arange(90) % 3 > 0
    part = graph.subgraph(mask)
    row, col = graph.edge_index()
    inside = mask[row] & mask[col]
    number = mask.long().cumsum(0) - 1
    want = rows_of(number[graph.edge_index()[:, inside]], *(v[inside] for v in graph.edge_tensors.values()))
    assert rows_of(part.edge_index(), *part.edge_tensors.values()) == want


@pytest.mark.parametrize("parts", [1, 2, 4])
def test_shards_on_disk_hold_every_edge_with_its_own(tmp_path, parts):
    graph = marked_graph()
    write_shards(graph, Partition(make_owner(parts), parts), tmp_path / "shards")
    found = []
    for rank in range(parts):
        shard = read_shard(tmp_path / "shards", rank)
        held = torch.cat([shard.rows, shard.halo_ids])
        sources = torch.cat([shard.inner.indices.long(), shard.halo.indices.long() + shard.num_owned])
        targets = torch.cat([shard.inner.row_index(), shard.halo.row_index()])
        found += rows_of(torch.stack([held[sources], held[targets]]), *shard.edge_tensors.values())
    assert sorted(found) == rows_of(graph.edge_index(), *graph.edge_tensors.values())


def part_here(rank: int, folder: str) -> list[tuple[torch.Tensor, torch.Tensor]]:
    transport, outs = Transport(), []
    for name in NAMES:
        data = of_shard(read_shard(folder, rank), transport, torch.device("cpu"))
        model, inputs = build(name)
        own = halowire.distribute(model, data)
        outs.append((data.rows, own(*(getattr(data, key) for key in inputs)).detach()))
    transport.settle()
    return outs


def test_models_on_shards_from_disk_equal_plain_pyg(on_workers, tmp_path):
    tensors = make_graph()
    write_shards(marked_graph(), Partition(make_owner(3), 3), tmp_path / "shards")
    found = on_workers(3, part_here, str(tmp_path / "shards"))
    for place, name in enumerate(NAMES):
        model, inputs = build(name)
        want = model(*(tensors[key] for key in inputs)).detach()
        for part in found:
            rows, out = part[place]
            assert_close(name, out, want[rows])


def test_isolated_shards_keep_those_of_inner_edges():
    for shard in cut(marked_graph(), Partition(make_owner(2), 2)):
        alone = shard.isolated()
        assert torch.equal(alone.edge_tensors["edge_attr"], shard.edge_tensors["edge_attr"][: shard.inner.nnz])


def test_built_in_models_refuse_what_they_do_not_use(tmp_path):
    tensors = make_graph()
    generator = torch.Generator().manual_seed(0)
    split = torch.randint(3, (90,), generator=generator)
    masks = {f"{name}_mask": split == place for place, name in enumerate(("train", "val", "test"))}
    data = Data(x=tensors["x"], edge_index=tensors["edge_index"], edge_attr=tensors["edge_attr"],
                y=torch.randint(3, (90,), generator=generator), **masks)  # fmt: skip
    with pytest.raises(InputError, match="edges have edge_attr"):
        halowire.train(data, out=tmp_path / "run", quiet=True)
    halowire.partition(halowire.load(data), 1, tmp_path / "shards")
    with pytest.raises(InputError, match="edges have edge_attr"):
        halowire.train(tmp_path / "shards", out=tmp_path / "run", quiet=True)
    with pytest.raises(InputError, match="reverse edge"):
        halowire.load(data, undirected=True)


def test_a_wrong_number_of_rows_is_refused():
    with pytest.raises(InputError, match=r"edge_attr has shape \[3, 2\], expected \[1, ...\]"):
        Graph.from_edge_index(np.array([[0], [1]]), edge_tensors={"edge_attr": np.zeros((3, 2))})


def test_damaged_shards_are_refused(tmp_path):
    write_shards(marked_graph(), Partition(make_owner(2), 2), tmp_path / "shards")
    file = Path(tmp_path / "shards/part-0/tensor_edge_attr.npy")
    file.write_bytes(file.read_bytes()[:-8])
    with pytest.raises(InputError, match="tensor_edge_attr"):
        read_shard(tmp_path / "shards", 0)
