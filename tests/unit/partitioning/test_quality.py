"""The quality report against numbers counted by hand."""

from __future__ import annotations

import json

import pytest
import torch

from halowire.errors import InputError, size_text
from halowire.graph import Graph
from halowire.partitioning import Partition, Quality, cut, measure, partition
from halowire.partitioning.reductions import row_bytes
from halowire.report import bytes_text
from tests.support.awkward_graphs import awkward


def path(train: list[bool] | None = None) -> Graph:
    """0 - 1 - 2 - 3, both ways."""
    edges = torch.tensor([[0, 1, 2, 1, 2, 3], [1, 2, 3, 0, 1, 2]])
    return Graph.from_edge_index(edges, 4, train_mask=None if train is None else torch.tensor(train))


def test_a_path_in_two_parts() -> None:
    quality = measure(path([True, False, False, False]), Partition(torch.tensor([0, 0, 0, 1]), 2), widths=(10, 256))
    assert (quality.cut_edges, quality.num_edges) == (2, 6)
    assert quality.cut_share == pytest.approx(1 / 3)
    assert (quality.nodes, quality.edges, quality.halo_rows, quality.train_nodes) == ((3, 1), (5, 1), (1, 1), (1, 0))
    assert quality.node_imbalance == pytest.approx(1.5)
    assert quality.edge_imbalance == pytest.approx(5 / 3)
    assert quality.bytes_per_epoch == {"32": 2 * 2 * (40 + 1024), "1": 2 * 2 * (6 + 36)}
    assert quality.warnings[0].startswith("no training node in part 1")
    assert quality.work_imbalance == pytest.approx((1.5 + 5 / 3) / 2)
    assert "1.6 times the mean work" in quality.warnings[1]


def test_every_reduction_has_its_rows_and_bytes() -> None:
    quality = measure(path(), Partition(torch.tensor([0, 0, 0, 1]), 2), widths=(10, 256)).with_cover((1, 0), (2, 1))
    first, second = 2 * 40, 2 * 1024
    bits, more = 2 * 6, 2 * 36
    assert quality.reduced_bytes == {
        "partial sums": {"32": first + second, "1": bits + more},
        "first layer at home": {"32": 2 * second, "1": 2 * more},
        "both": {"32": second, "1": more},
    }
    assert Quality.from_json(quality.to_json()) == quality
    with pytest.raises(InputError, match=r"quality .* reduced_bytes"):
        Quality.from_json(quality.to_json() | {"reduced_bytes": {"both": 1}})
    said = "\n".join(quality.lines())
    assert "4.00 KiB at 32 bits, 144 B at 1 bit with 2 rows per layer but the first (--wire.first-layer local)" in said
    assert "with 1 rows per layer (--wire.cover)" in said


def test_row_bytes() -> None:
    assert [row_bytes(256, bits) for bits in (32, 8, 4, 2, 1)] == [1024, 260, 132, 68, 36]


def test_sizes_are_written_as_in_the_report() -> None:
    counts = [0, 1, 999, 1000, 1023, 1024, 1025, 10_235, 10_236, 102_348, 102_400, 1_048_063, 1_048_064, 5_000_000]
    for count in [*counts, *(7 * 10**power for power in range(19))]:
        assert size_text(count) == bytes_text(count)


def test_a_model_of_one_layer_exchanges_nothing() -> None:
    quality = measure(path(), Partition(torch.tensor([0, 0, 1, 1]), 2), widths=())
    assert quality.bytes_per_epoch == {"32": 0, "1": 0}
    assert "per epoch   nothing: a model of one layer exchanges no rows in training" in quality.lines()
    assert "no rows are exchanged in training" in quality.meaning()
    assert not any("columns" in line or "per layer" in line for line in quality.lines())


@pytest.mark.parametrize("values", [7, [], {}, {"num_parts": 2}, {"surprise": 1}])
def test_damaged_json_is_refused(values: object) -> None:
    with pytest.raises(InputError, match="quality"):
        Quality.from_json(values)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("num_parts", "2"),
        ("method", 3),
        ("cut_share", "much"),
        ("nodes", 7),
        ("nodes", []),
        ("edges", ["a", "b"]),
        ("bytes_per_epoch", {"32": 0}),
        ("bytes_per_epoch", 5),
        ("num_nodes", 0),
        ("warnings", [1]),
    ],
)
def test_json_of_the_wrong_type_is_refused(key: str, value: object) -> None:
    values = measure(path(), partition(path(), 2)).to_json()
    assert Quality.from_json(values).to_json() == values
    with pytest.raises(InputError, match=f"quality .* {key}"):
        Quality.from_json(values | {key: value})


def test_no_mask_is_no_warning() -> None:
    assert measure(path(), Partition(torch.tensor([0, 0, 1, 1]), 2)).warnings == ()


def test_one_part_sends_nothing() -> None:
    quality = measure(path(), partition(path(), 1))
    assert (quality.cut_edges, quality.bytes_per_epoch) == (0, {"32": 0, "1": 0})
    assert "no halo rows cross the network" in quality.meaning() and "per epoch   no halo rows" in quality.lines()


def test_numbers_agree_with_the_shards() -> None:
    graph = awkward()
    owners = partition(graph, 3, "random")
    quality, shards = measure(graph, owners), cut(graph, owners)
    assert quality.halo_rows == tuple(shard.num_halo for shard in shards)
    assert quality.nodes == tuple(shard.num_owned for shard in shards)
    assert quality.edges == tuple(shard.num_edges for shard in shards)
    assert quality.cut_edges == sum(shard.halo.nnz for shard in shards)


def test_lines_are_short_and_json_is_plain() -> None:
    graph = awkward()
    quality = measure(graph, partition(graph, 3))
    assert all(len(line) < 200 and "\n" not in line for line in quality.lines())
    assert any("at 1 bit" in line for line in quality.lines())
    assert json.loads(json.dumps(quality.to_json())) == quality.to_json()


def test_a_graph_without_edges() -> None:
    graph = Graph.from_edge_index(torch.empty(2, 0, dtype=torch.int64), 5)
    quality = measure(graph, partition(graph, 2))
    assert (quality.cut_share, quality.edge_imbalance, quality.halo_rows) == (0.0, 1.0, (0, 0))


def test_a_partition_of_another_graph_is_refused() -> None:
    with pytest.raises(InputError, match="is for 30 nodes, but the graph has 4"):
        measure(path(), partition(awkward(), 2))
