"""Graph files that are damaged or made to harm: a graph that passes all checks, or one line; never anything else."""

from __future__ import annotations

import gzip
import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from halowire.graph import Graph, check, load, read_npy, write_npz
from tests.support.awkward_graphs import awkward
from tests.support.fuzzing import damage, examples, file_of, read_or_refused, texts

fuzz = settings(deadline=None, max_examples=examples())


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> dict[bool, bytes]:
    """A good .npz file, with dense and with sparse features."""
    path, found = tmp_path_factory.mktemp("archive") / "g.npz", {}
    for sparse in (False, True):
        write_npz(awkward(sparse=sparse, weighted=sparse), path)
        found[sparse] = path.read_bytes()
    return found


def sound(path: Path, **given: Any) -> Graph | None:
    """The graph of a file, checked again; None where it was refused."""
    graph = read_or_refused(lambda: load(path, **given))
    return None if graph is None else check(graph)


@fuzz
@given(st.data(), st.booleans())
def test_damaged_archives(archive, data, sparse):
    with file_of(data.draw(damage(archive[sparse])), "g.npz") as path:
        sound(path)


kinds = st.sampled_from(["<i8", "<i4", "<u8", ">i8", "<f4", "<f8", "<f2", "|b1", "|u1", "<c8", "<U3", "<M8[s]", "<f16"])
shapes = st.sampled_from(
    [(), (0,), (1,), (2,), (3,), (30,), (31,), (2, 0), (2, 3), (3, 2), (30, 6), (30, 0), (2, 2, 2)]
)
NAMES = (
    "num_nodes", "edge_index", "edge_weight", "x", "y", "ids", "num_classes", "regression", "train_mask", "val_mask",
    "x_indptr", "x_indices", "x_data", "x_shape", "edge_attr",
)  # fmt: skip


@fuzz
@given(st.data())
def test_archives_of_any_arrays(archive, data):
    """The archive is whole; one to three of its arrays have another type, shape or content."""
    arrays = dict(np.load(io.BytesIO(archive[data.draw(st.booleans())])))
    for name in data.draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=3)):
        kind, shape = np.dtype(data.draw(kinds)), data.draw(shapes)
        bits = data.draw(st.sampled_from([0, 1, 2, 29, 30, 2**31, 2**40, 2**62, 2**64 - 1]))
        with np.errstate(all="ignore"):
            arrays[name] = np.full(shape, bits % 3 if kind.kind in "UM" else bits, np.uint64).astype(kind)
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    with file_of(buffer.getvalue(), "g.npz") as path:
        sound(path)


@fuzz
@given(
    st.sampled_from(["{'descr': '<i8', 'fortran_order': False, 'shape': %s, }", "{'descr': '|O', 'shape': %s}", "%s"]),
    st.sampled_from(["(3,)", "(10**12,)", "(1000000000000,)", "(-1,)", "(2, 3)", f"(0, {10**22})", "()", "x"]),
    st.binary(max_size=64),
    st.sampled_from([1, 2, 3, 9]),
)  # fmt: skip
def test_headers_of_arrays(header, shape, content, version):
    text = (header % shape).encode() + b"\n"
    length = len(text).to_bytes(2 if version == 1 else 4, "little")
    with file_of(b"\x93NUMPY" + bytes([version, 0]) + length + text + content, "a.npy") as path:
        read = read_or_refused(lambda: read_npy(path))
        assert read is None or read.nbytes == len(content)


@fuzz
@given(st.data())
def test_damaged_arrays(data):
    buffer = io.BytesIO()
    np.save(buffer, np.arange(12.0, dtype=np.float32).reshape(3, 4))
    with file_of(data.draw(damage(buffer.getvalue())), "a.npy") as path:
        read_or_refused(lambda: read_npy(path))


ids = st.one_of(st.integers(-2, 12), st.sampled_from([2**31, 2**62, 2**63 - 1, 2**63, 10**30, -(2**63)]))
cells = st.one_of(
    ids.map(str), st.sampled_from(["", " ", "x", "1.5", "nan", "inf", "1e30", "#", '"1"', "\ufeff1", "٣"])
)
ends = st.sampled_from(["\n", "\r\n", "\r", "\n\n", ""])
lines = st.lists(st.tuples(st.lists(cells, min_size=1, max_size=4), ends), max_size=8)


@fuzz
@given(lines, st.sampled_from([",", "\t", ";", " "]), st.sampled_from(["", "\ufeff", "# note\n", "source,target\n"]))
def test_edge_lists_of_any_cells(rows, mark, begin):
    text = begin + "".join(mark.join(row) + end for row, end in rows)
    with file_of(text.encode(errors="surrogateescape"), "edges.csv") as path:
        sound(path)


@fuzz
@given(
    st.one_of(st.binary(max_size=80), texts.map(str.encode)),
    st.sampled_from([".csv", ".txt", ".csv.gz"]),
)
def test_edge_lists_of_any_bytes(content, suffix):
    with file_of(content, f"edges{suffix}") as path:
        sound(path)


@fuzz
@given(st.data(), st.booleans())
def test_companions_of_an_edge_list(data, regression):
    good = {"features": b"0,1.5,2\n1,2,3\n2,0,1\n", "labels": b"id,class,part\n0,1,train\n1,0,val\n2,1,test\n"}
    wounded = {name: data.draw(st.one_of(st.just(text), damage(text))) for name, text in good.items()}
    with file_of(b"0,1\n1,2\n2,0\n", "edges.csv") as path:
        for name, text in wounded.items():
            (path.parent / f"{name}.csv").write_bytes(text)
        sound(path, **{name: path.parent / f"{name}.csv" for name in good}, regression=regression)


OGB = {
    "raw/edge.csv.gz": b"0,1\n1,2\n2,0\n", "raw/node-feat.csv.gz": b"0.5,1\n1,2\n3,4\n",
    "raw/node-label.csv.gz": b"0\n1\nnan\n", "raw/num-node-list.csv.gz": b"3\n", "split/time/train.csv.gz": b"0\n",
    "split/time/valid.csv.gz": b"1\n", "split/time/test.csv.gz": b"\n",
}  # fmt: skip


@fuzz
@given(st.data(), st.sampled_from(sorted(OGB)), st.booleans())
def test_ogb_folders(data, name, packed):
    """One file is damaged, as text before it is packed, or as a gzip file."""
    with file_of(b"", "nothing") as beside:
        folder = beside.parent / "ogbn_small"
        for file, text in OGB.items():
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            (folder / file).write_bytes(gzip.compress(text))
        wounded = damage(gzip.compress(OGB[name])) if packed else damage(OGB[name]).map(gzip.compress)
        (folder / name).write_bytes(data.draw(wounded))
        sound(folder)


specs = st.lists(
    st.tuples(
        st.sampled_from(
            ["nodes", "edges", "features", "classes", "seed", "noise", "homophily", "multi_label", "other"]
        ),
        st.sampled_from(
            ["0", "1", "4", "9", "20", "-1", "1e9", "nan", "inf", "", str(10**12), str(10**30), "9" * 5000]
        ),
    ),
    max_size=5,
)


@fuzz
@given(st.sampled_from(["rmat", "sbm"]), specs)
def test_synthetic_graphs(kind, pairs):
    spec = f"{kind}:nodes=20,edges=40,features=2," + ",".join(f"{key}={value}" for key, value in pairs)
    graph = read_or_refused(lambda: load(spec))
    assert graph is None or check(graph) is graph


def test_members_that_declare_more_than_they_hold(tmp_path):
    """A deflated member says in the archive's list that it has 10**12 bytes: refused before they are allocated."""
    buffer = io.BytesIO()
    np.savez_compressed(buffer, edge_index=np.zeros((2, 3), np.int64))
    with zipfile.ZipFile(io.BytesIO(buffer.getvalue())) as whole:
        size = whole.infolist()[0].file_size
    for declared in (size + 1, 2**31 - 1, 2**32 - 2):
        path = tmp_path / f"{declared}.npz"
        path.write_bytes(buffer.getvalue().replace(size.to_bytes(4, "little"), declared.to_bytes(4, "little")))
        assert sound(path) is None
