"""Builds the built-in graph `debian` from a Debian machine's package index.

    apt-get update && apt-cache dumpavail > available.txt
    python tools/build_debian.py available.txt --out src/halowire/graph/data/debian.npz

Nodes are packages, in alphabetical order. An edge (stored both ways, once, no self loops) joins two packages when one
names the other in a relation field; version constraints and architecture qualifiers are dropped, of alternatives all
count. A name that is no package but is provided by packages stands for all its providers, unless there are more than
MAX_PROVIDERS: names like ``dictd-dictionary`` say little about who belongs together and would add thousands of edges.

The label is the section without ``contrib/`` and ``non-free/``; sections with fewer than MIN_SECTION packages become
the class ``other``. The split is a seeded 50/25/25. Features say which of NUM_WORDS words occur in the (short)
description; a package's own name is struck from its description first, because names follow conventions that give the
section away. The words are those whose presence has the largest mutual information with the label on the training
nodes; the labels of the other nodes play no part.
"""

from __future__ import annotations

import argparse
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch

from halowire.graph import Graph, check, random_split, write_npz
from halowire.kernels import Csr

RELATIONS = ("Depends", "Pre-Depends", "Recommends", "Suggests", "Enhances", "Breaks", "Conflicts", "Replaces")
MAX_PROVIDERS = 16
MIN_SECTION = 100
NUM_WORDS = 1000
SEED = 12

Package = dict[str, str]


def main() -> None:
    """Read the index, build the graph, write it, print what it holds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("index", type=Path, help="output of `apt-cache dumpavail`")
    parser.add_argument("--out", type=Path, required=True, help="the .npz file to write")
    arguments = parser.parse_args()
    with arguments.index.open(encoding="utf-8") as file:
        packages = sorted(read_packages(file), key=lambda package: package["Package"])
    graph, meta = build(packages)
    write_npz(graph, arguments.out, meta)
    print(graph, f"{arguments.out.stat().st_size:,} bytes")
    print({key: value for key, value in meta.items() if key not in ("class_names", "words")})


def build(packages: list[Package]) -> tuple[Graph, dict[str, object]]:
    """The graph and what there is to say about it."""
    num_nodes = len(packages)
    class_names, y = labels(packages)
    train, val, test = random_split(num_nodes, np.random.default_rng(SEED))
    words, x = features(packages, y, train.numpy())
    pairs = relations(packages)
    edge_index = np.concatenate([pairs, pairs[:, ::-1]]).T
    graph = check(
        Graph.from_edge_index(
            edge_index, num_nodes, x, y, train_mask=train, val_mask=val, test_mask=test, name="debian"
        ).undirected()
    )
    degree = graph.adj.degree()
    meta: dict[str, object] = {
        "source": "package index of Debian 12 (bookworm, main, amd64), apt-cache dumpavail",
        "built_by": "tools/build_debian.py",
        "nodes": num_nodes,
        "edges": graph.num_edges,
        "edges_are": "declared relations between packages, both ways",
        "features": f"presence of {len(words)} words in the short description, without the package's own name",
        "label": f"archive section, those under {MIN_SECTION} packages merged into 'other'",
        "split": f"random 50/25/25, seed {SEED}",
        "homophily": round(float(np.mean(y[edge_index[0]] == y[edge_index[1]])), 4),
        "isolated_nodes": int((degree == 0).sum()),
        "largest_degree": int(degree.max()),
        "majority_class": round(float(np.bincount(y).max() / num_nodes), 4),
        "class_names": class_names,
        "words": words,
    }
    return graph, meta


def read_packages(lines: Iterator[str]) -> Iterator[Package]:
    """Paragraphs of ``Field: value`` lines; continuation lines are not needed here."""
    package: Package = {}
    for line in lines:
        if line == "\n":
            if package:
                yield package
            package = {}
        elif line[0] not in " \t":
            field, _, value = line.partition(":")
            package[field] = value.strip()
    if package:
        yield package


def names_in(relation: str) -> Iterator[str]:
    """Package names in ``a (>= 1) | b:any, c [amd64]``."""
    for text in re.split(r"[,|]", relation):
        name = re.split(r"[\s(:\[<]", text.strip(), maxsplit=1)[0]
        if name:
            yield name


def relations(packages: list[Package]) -> np.ndarray:
    """Distinct pairs (low, high) of related packages, int64 ``[pairs, 2]``."""
    number = {package["Package"]: index for index, package in enumerate(packages)}
    providers: dict[str, set[int]] = defaultdict(set)
    for index, package in enumerate(packages):
        for name in names_in(package.get("Provides", "")):
            providers[name].add(index)
    pairs: set[tuple[int, int]] = set()
    for index, package in enumerate(packages):
        for field in RELATIONS:
            for name in names_in(package.get(field, "")):
                others = {number[name]} if name in number else providers.get(name, set())
                if len(others) <= MAX_PROVIDERS:
                    pairs.update((min(index, other), max(index, other)) for other in others if other != index)
    return np.array(sorted(pairs), dtype=np.int64)


def labels(packages: list[Package]) -> tuple[list[str], np.ndarray]:
    """Class names, alphabetical with ``other`` last, and the class of every package."""
    sections = [package["Section"].rpartition("/")[2] for package in packages]
    count = Counter(sections)
    names = [*sorted(name for name, members in count.items() if members >= MIN_SECTION), "other"]
    number = {name: index for index, name in enumerate(names)}
    return names, np.array([number.get(section, number["other"]) for section in sections])


def words_in(text: str) -> set[str]:
    """Lower-case words of two letters or more; digits at the end of a word are dropped."""
    return set(re.findall(r"[a-z][a-z+#]+", text.lower()))


def features(packages: list[Package], y: np.ndarray, train: np.ndarray) -> tuple[list[str], Csr]:
    """The most telling words, alphabetical, and which package has which of them, ``[N, NUM_WORDS]``."""
    texts = []
    for package in packages:
        own = words_in(package["Package"])
        own |= {word.removeprefix("lib") for word in own}
        texts.append(words_in(package["Description"]) - own)
    telling = mutual_information([texts[index] for index in np.flatnonzero(train)], y[train])
    words = sorted(sorted(telling, key=lambda word: (-telling[word], word))[:NUM_WORDS])
    number = {word: index for index, word in enumerate(words)}
    entries = [(row, number[word]) for row, text in enumerate(texts) for word in text if word in number]
    row, col = torch.tensor(entries).T
    return words, Csr.from_edges(row, col, len(packages), len(words))


def mutual_information(texts: list[set[str]], y: np.ndarray) -> dict[str, float]:
    """I(word; class) = sum over w in {0, 1} and c of p(w, c) log(p(w, c) / (p(w) p(c))), for every word."""
    count: dict[str, np.ndarray] = defaultdict(lambda: np.zeros(int(y.max()) + 1))
    for text, label in zip(texts, y, strict=True):
        for word in text:
            count[word][label] += 1
    p_class = np.bincount(y) / y.size
    result = {}
    for word, by_class in count.items():
        joint = np.stack([by_class / y.size, p_class - by_class / y.size])
        independent = joint.sum(1, keepdims=True) * p_class
        seen = joint > 1e-12
        result[word] = float((joint[seen] * np.log(joint[seen] / independent[seen])).sum())
    return result


if __name__ == "__main__":
    main()
