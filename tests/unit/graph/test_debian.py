"""The built-in graph is there, is what its description says, and can be built again."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch

import halowire.graph
from halowire.graph import Graph, load
from halowire.graph.datasets import DEBIAN
from halowire.graph.npz import read_meta
from halowire.kernels import Csr

META = read_meta(Path(halowire.graph.__file__).parent / DEBIAN)

INDEX = """Package: libfoo1
Section: libs
Provides: foo-abi (= 1), foo
Depends: libc6 (>= 2.34) | libc6.1, base:any
Description: Foo numbers library, runtime

Package: base
Section: admin
Tag: role::program,
 interface::text
Description: basis of the system

Package: foo-tool
Section: contrib/libs
Depends: foo, foo-tool, missing [amd64]
Pre-Depends: libc6 <!nodoc>
Description: tool for numbers
 a long description that is not used
Suggests: many

Package: libc6
Section: libs
Description: runtime
"""


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    path = Path(__file__).parents[3] / "tools" / "build_debian.py"
    spec = importlib.util.spec_from_file_location("build_debian", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def graph() -> Graph:
    return load("debian")


def test_sizes(graph: Graph) -> None:
    assert (graph.name, graph.num_nodes, graph.num_features) == ("debian", 63620, 1000)
    assert graph.num_edges == META["edges"]
    assert graph.num_classes == len(META["class_names"])
    assert len(META["words"]) == 1000
    assert isinstance(graph.x, Csr)
    masks = [graph.train_mask, graph.val_mask, graph.test_mask]
    assert [int(mask.sum()) for mask in masks if mask is not None] == [31810, 15905, 15905]


def test_edges_are_undirected_and_simple(graph: Graph) -> None:
    source, target = graph.edge_index()
    assert not bool((source == target).any())
    key = (target * graph.num_nodes + source).sort().values
    assert bool((key[1:] > key[:-1]).all())
    assert torch.equal(key, (source * graph.num_nodes + target).sort().values)


def test_every_class_is_trained_on_and_neighbours_agree_often(graph: Graph) -> None:
    assert graph.y is not None
    assert graph.train_mask is not None
    assert int(torch.bincount(graph.y).min()) >= 100
    assert int(torch.bincount(graph.y[graph.train_mask]).min()) > 20
    source, target = graph.edge_index()
    homophily = float((graph.y[source] == graph.y[target]).float().mean())
    assert homophily == pytest.approx(META["homophily"], abs=1e-3)
    assert homophily > 0.4


def test_relations_are_resolved(tool: ModuleType) -> None:
    packages = sorted(tool.read_packages(iter(INDEX.splitlines(keepends=True))), key=lambda p: p["Package"])
    names = [package["Package"] for package in packages]
    assert names == ["base", "foo-tool", "libc6", "libfoo1"]
    pairs = [(names[a], names[b]) for a, b in tool.relations(packages)]
    assert pairs == [("base", "libfoo1"), ("foo-tool", "libc6"), ("foo-tool", "libfoo1"), ("libc6", "libfoo1")]


def test_too_common_virtual_names_are_left_out(tool: ModuleType) -> None:
    providers = [{"Package": f"p{i}", "Provides": "dictionary"} for i in range(tool.MAX_PROVIDERS + 1)]
    user = {"Package": "user", "Recommends": "dictionary"}
    assert len(tool.relations([*providers, user])) == 0
    assert len(tool.relations([*providers[1:], user])) == tool.MAX_PROVIDERS


def test_words_of_the_own_name_are_struck(tool: ModuleType) -> None:
    packages = list(tool.read_packages(iter(INDEX.splitlines(keepends=True))))
    _, y = tool.labels(packages)
    train = torch.ones(4, dtype=torch.bool).numpy()
    words, x = tool.features(packages, y, train)
    found = {
        package["Package"]: {words[i] for i in row.nonzero()[:, 0]}
        for package, row in zip(packages, x.to_dense(), strict=True)
    }
    assert found["libfoo1"] == {"numbers", "library", "runtime"}
    assert found["foo-tool"] == {"for", "numbers"}


def test_mutual_information_by_hand(tool: ModuleType) -> None:
    information = tool.mutual_information([{"a", "b"}, {"a"}, {"c"}, {"c", "b"}], np.array([0, 0, 1, 1]))
    assert information["a"] == pytest.approx(np.log(2))
    assert information["b"] == pytest.approx(0, abs=1e-9)


def test_labels_of_other_nodes_do_not_choose_the_words(tool: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tool, "NUM_WORDS", 4)
    rng = np.random.default_rng(0)
    packages = [
        {"Package": f"p{i}", "Description": " ".join(2 * str(c) for c in rng.choice(list("abcdefgh"), 3))}
        for i in range(80)
    ]
    train = np.arange(80) < 40
    y = rng.integers(0, 3, 80)
    words = tool.features(packages, y, train)[0]
    changed_outside = [tool.features(packages, np.where(train, y, rng.integers(0, 3, 80)), train)[0] for _ in range(10)]
    assert all(other == words for other in changed_outside)
    changed_inside = [tool.features(packages, np.where(train, rng.integers(0, 3, 80), y), train)[0] for _ in range(10)]
    assert any(other != words for other in changed_inside)
