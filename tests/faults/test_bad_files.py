"""Files that are traps: pipes, devices, bombs and impossible sizes end as bad input, without waiting or much memory.

All of them are given to the command line in one process, whose memory is limited and which a signal ends if it waits.
"""

from __future__ import annotations

import gzip
import json
import os
import socket
import struct
import subprocess
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest

from halowire.errors import InputError
from halowire.partitioning import partition, read_shard, write_shards
from tests.support.awkward_graphs import awkward
from tests.support.fake_run import write_run

MIB = 1 << 20
SCRIPT = Path(__file__).parents[1] / "support" / "scripts" / "bad_files_script.py"


def npz(path: Path, **arrays: object) -> Path:
    np.savez(path, **arrays)  # type: ignore[arg-type]
    return path


def header(shape: str, kind: str = "<f4") -> bytes:
    """The beginning of an .npy file."""
    text = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}".ljust(117).encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text


def zip_of(name: str, packed: bytes, declared: int, claimed: int | None = None) -> bytes:
    """An archive of one deflated member that declares any size, packed and unpacked."""
    size = len(packed) if claimed is None else claimed
    about = struct.pack("<HHHHHIIIHH", 20, 0, 8, 0, 33, 0, size, declared, len(name), 0)
    first = b"PK\x03\x04" + about + name.encode() + packed
    entry = b"PK\x01\x02\x14\x00" + about + struct.pack("<HHHII", 0, 0, 0, 0, 0) + name.encode()
    return first + entry + b"PK\x05\x06" + struct.pack("<HHHHIIH", 0, 0, 1, 1, len(entry), len(first), 0)


def sparse(path: Path, size: int, begin: bytes = b"") -> Path:
    """A file of ``size`` bytes that takes no room on the disk."""
    path.write_bytes(begin)
    os.truncate(path, size)
    return path


def graph_traps(folder: Path) -> dict[str, list[str]]:
    """Graph files, each with the words that its refusal has."""
    edges = folder / "good.csv"
    edges.write_text("0,1\n1,2\n")
    for name in ("pipe.csv", "pipe.npz", "pipe.npy"):
        os.mkfifo(folder / name)
    (folder / "folder.npz").mkdir()
    (folder / "zero.npz").symlink_to("/dev/zero")
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(folder / "socket.npz"))
    server.close()
    (folder / "ogb").mkdir()
    (folder / "ogb" / "edge.csv.gz").write_bytes(gzip.compress(b"0,1\n"))
    os.mkfifo(folder / "ogb" / "node-feat.csv.gz")
    (folder / "empty.csv").write_bytes(b"")
    (folder / "empty.npz").write_bytes(b"")
    (folder / "garbage.csv").write_bytes(bytes(range(256)))
    (folder / "wide.csv").write_bytes("0,1\n".encode("utf-16"))
    sparse(folder / "zeros.csv", 10 << 30)
    (folder / "line.csv").write_bytes(b"0,1\n" + b"7" * (20 * MIB))
    (folder / "line.csv.gz").write_bytes(gzip.compress(b"7" * MIB) * 4000)
    (folder / "rows.csv.gz").write_bytes(gzip.compress(b"0,1\n") + gzip.compress(b"\n" * MIB) * 4000)
    (folder / "ids.csv").write_text("0,99999999999999999999\n")
    sparse(folder / "huge.npy", len(header("(2748779069440,)")) + (10 << 40), header("(2748779069440,)"))
    (folder / "declared.npy").write_bytes(header("(1000000000000,)"))
    (folder / "negative.npy").write_bytes(header("(-1, -4)") + bytes(16))
    (folder / "objects.npy").write_bytes(header("(2,)", "|O") + bytes(16))
    packed = zlib.compress(bytes(4 * MIB))[2:-4]
    (folder / "bomb.npz").write_bytes(zip_of("edge_index.npy", packed * 1000, 2**32 - 2))
    (folder / "liar.npz").write_bytes(zip_of("edge_index.npy", packed, 2**30))
    pair = np.array([[0], [1]])
    npz(folder / "nodes.npz", edge_index=pair, num_nodes=np.int64(10**12))
    npz(folder / "id.npz", edge_index=pair * 10**12)
    npz(folder / "classes.npz", edge_index=pair, y=np.array([0, 10**12]))
    npz(folder / "columns.npz", edge_index=pair, x_indptr=np.array([0, 1, 1]), x_indices=np.array([5]),
        x_data=np.ones(1), x_shape=np.array([2, 10**12]))  # fmt: skip
    features = ["inspect", str(edges), "--graph.features"]
    return {
        "pipe.csv": ["is a named pipe"], "pipe.npz": ["is a named pipe"], "folder.npz": ["has no edge.csv.gz"],
        "zero.npz": ["is a device"], "socket.npz": ["is a socket"], "ogb": ["node-feat.csv.gz", "named pipe"],
        "empty.csv": ["holds no rows"], "empty.npz": ["cannot be read as an .npz archive"],
        "garbage.csv": ["cannot be read"], "wide.csv": ["cannot be read"],
        "zeros.csv": ["a line of more than"], "line.csv": ["a line of more than"],
        "line.csv.gz": ["a line of more than"],
        "rows.csv.gz": ["holds more rows than fit"], "ids.csv": ["99999999999999999999"],
        "bomb.npz": ["declares arrays of 4.00 GiB"], "liar.npz": ["but holds", "packed ones"],
        "nodes.npz": ["1000000000000 nodes"], "id.npz": ["1000000000001 nodes"],
        "classes.npz": ["1000000000001 classes"], "columns.npz": ["1000000000000 columns"],
        **{" ".join([*features, str(folder / f"{name}.npy")]): [words] for name, words in {
            "pipe": "named pipe", "huge": "more than the", "declared": "1000000000000", "negative": "[-1, -4]",
            "objects": "object",
        }.items()},
    }  # fmt: skip


def folder_traps(folder: Path) -> dict[str, list[str]]:
    """Run folders and shard folders, each with the command that reads it and the words that its refusal has."""
    graph = awkward()
    for name in ("shard-pipe", "shard-deep", "shard-large", "shard-folder"):
        write_shards(graph, partition(graph, 1), folder / name)
    for name in ("shard-pipe", "shard-deep", "shard-large"):
        (folder / name / "manifest.json").unlink()
    os.mkfifo(folder / "shard-pipe" / "manifest.json")
    (folder / "shard-deep" / "manifest.json").write_text("[" * 10**6)
    sparse(folder / "shard-large" / "manifest.json", 10 << 40)
    for name in ("run-pipe", "run-deep", "run-pipes"):
        write_run(folder / name)
    for name in ("run-pipe", "run-deep"):
        (folder / name / "config.json").unlink()
    os.mkfifo(folder / "run-pipe" / "config.json")
    (folder / "run-deep" / "config.json").write_text('{"a":' * 10**6)
    (folder / "run-pipes" / "events-0.jsonl").unlink()
    os.mkfifo(folder / "run-pipes" / "events-0.jsonl")
    predict = f"predict {folder}/{{}} --out {folder}/out.npy"
    return {
        f"inspect {folder}/shard-pipe": ["named pipe"], f"inspect {folder}/shard-deep": ["nested too deeply"],
        f"inspect {folder}/shard-large": ["expected a small file"], predict.format("run-pipe"): ["named pipe"],
        predict.format("run-deep"): ["nested too deeply"], f"report {folder}/run-pipes": ["named pipe"],
    }  # fmt: skip


def test_traps_end_as_bad_input(tmp_path):
    traps = graph_traps(tmp_path) | folder_traps(tmp_path)
    cases = [trap.split() if " " in trap else ["inspect", str(tmp_path / trap)] for trap in traps]
    command = [sys.executable, str(SCRIPT), json.dumps(cases)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=170)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    for (trap, words), (exit_code, said) in zip(traps.items(), answers, strict=False):
        assert exit_code == 2, f"{trap}: {exit_code} {said}"
        assert said.startswith("halowire: error: ") and said.count("\n") == 1, f"{trap}: {said}"
        assert all(word in said for word in words), f"{trap}: {said}"
    assert len(answers) == len(traps), f"{list(traps)[len(answers)]}: {done.returncode} {done.stderr[-2000:]}"


def test_arrays_of_a_shard_that_are_no_files(tmp_path):
    graph = awkward()
    folder = write_shards(graph, partition(graph, 1), tmp_path / "shards")
    path = folder / "part-0" / "x.npy"
    good = path.read_bytes()
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(InputError, match=r"x\.npy cannot be read \(it is a named pipe, expected an ordinary file\)"):
        read_shard(folder, 0)
    path.unlink()
    path.symlink_to("/dev/zero")
    with pytest.raises(InputError, match=r"x\.npy cannot be read \(it is a device"):
        read_shard(folder, 0)
    path.unlink()
    path.write_bytes(good)
    assert read_shard(folder, 0).rank == 0
