"""The choice of a partitioner by size, and what is said where a package is missing."""

from __future__ import annotations

import re

import pytest

from halowire.errors import InputError
from halowire.partitioning import method_choice, needed_package, partition
from halowire.partitioning.method_choice import chosen_method
from tests.support.awkward_graphs import awkward


def without(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    found = needed_package.importlib.util.find_spec
    monkeypatch.setattr(needed_package.importlib.util, "find_spec", lambda name: None if name in names else found(name))


@pytest.mark.parametrize(
    ("most", "memory", "missing", "method", "words"),
    [
        (3_000_000, 2**34, (), "hypergraph", "the fewest halo rows: the graph has 117 edges"),
        (3_000_000, 2**34, ("mtkahypar",), "metis", r"with Mt-KaHyPar \(pip install 'halowire\[partition\]'\)"),
        (50, 2**34, (), "metis", r"it takes 0.0 of 16.0 GiB$"),
        (50, 1000, (), "kaminpar", "for which METIS takes"),
        (50, 1000, ("kaminpar",), "stream", r"KaMinPar \(pip install 'halowire\[partition\]'\) would cut fewer"),
    ],
)
def test_the_size_decides(
    monkeypatch: pytest.MonkeyPatch, most: int, memory: int, missing: tuple[str, ...], method: str, words: str
) -> None:
    monkeypatch.setattr(method_choice, "HYPERGRAPH_EDGES", most)
    monkeypatch.setattr(method_choice, "memory_bytes", lambda: memory)
    without(monkeypatch, *missing)
    graph = awkward(30, 100)
    name, why = chosen_method(graph.adj)
    assert name == method
    assert re.search(words, why), why
    told: list[str] = []
    made = partition(graph, 2, "auto", tell=told.append, balance="both", recursive=True)
    assert (made.method, made.asked, made.choices[0]) == (method, "auto", why)
    assert told == [f"partition   {why}"]


@pytest.mark.parametrize(("method", "package"), [("hypergraph", "mtkahypar"), ("kaminpar", "kaminpar")])
def test_a_missing_package_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch, method: str, package: str) -> None:
    without(monkeypatch, package)
    with pytest.raises(InputError, match=rf"'{method}' needs the package {package}, .*'halowire\[partition\]'"):
        partition(awkward(), 2, method)
