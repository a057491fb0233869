"""The run token: workers that have it agree on a number, all others are refused on all sides, in time."""

from __future__ import annotations

import threading
from datetime import timedelta
from pathlib import Path

import pytest
import torch.distributed as dist

from halowire.errors import InputError, LateError
from halowire.launch.place import Place
from halowire.launch.token import prove, token_here

TOKEN = b"a secret of this run"


def proofs(folder: Path, tokens: list[bytes], places: list[tuple[int, int]] | None = None) -> list[object]:
    """What each worker gets from ``prove``: a number, or the error that it raised; ``places``: its rank and size."""
    found: list[object] = [None] * len(tokens)

    def work(number: int) -> None:
        store = dist.FileStore(str(folder / "store"))
        rank, size = (number, len(tokens)) if places is None else places[number]
        try:
            found[number] = prove(store, rank, size, tokens[number], 20.0)
        except Exception as error:
            found[number] = error

    threads = [threading.Thread(target=work, args=(rank,)) for rank in range(len(tokens))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def test_workers_with_the_token_agree_on_the_number_of_the_run(tmp_path):
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
    first, second = proofs(tmp_path / "first", [TOKEN] * 3), proofs(tmp_path / "second", [TOKEN] * 3)
    assert len(set(first)) == len(set(second)) == 1 and isinstance(first[0], int)
    assert 0 <= first[0] < 2**32 and first[0] != second[0], "another run, another number"


def test_an_intruder_is_refused_on_all_sides(tmp_path):
    found = proofs(tmp_path, [TOKEN, b"something that was guessed", TOKEN])
    assert all(isinstance(error, InputError) for error in found)
    assert [str(error).partition(":")[0] for error in found] == [
        "rank 0 refuses to work with rank 1",
        "rank 1 refuses to work with rank 0, 2",
        "rank 2 refuses to work with rank 1",
    ]
    assert "set HALOWIRE_TOKEN to the same secret" in str(found[0])


def test_a_proof_of_another_rank_or_run_is_worth_nothing(tmp_path):
    """An intruder who reads the store copies what the worker before it, or the run before, has put in."""
    for stolen in ("rank", "run"):
        store = dist.FileStore(str(tmp_path / stolen))
        found: list[object] = []
        old = {}
        if stolen == "run":
            (tmp_path / "old").mkdir()
            proofs(tmp_path / "old", [TOKEN] * 2)
            before = dist.FileStore(str(tmp_path / "old" / "store"))
            old = {kind: before.get(f"{kind}/1").decode() for kind in ("nonce", "proof")}

        def honest(store: dist.Store = store, found: list[object] = found) -> None:
            try:
                found.append(prove(store, 0, 2, TOKEN, 20.0))
            except InputError as error:
                found.append(str(error))

        thread = threading.Thread(target=honest)
        thread.start()
        other = dist.FileStore(str(tmp_path / stolen))
        other.set("nonce/1", old.get("nonce") or other.get("nonce/0").decode())
        other.wait(["proof/0"], timedelta(seconds=20))
        other.set("proof/1", old.get("proof") or other.get("proof/0").decode())
        other.set("checked/1", "")
        thread.join()
        assert found[0].startswith("rank 0 refuses to work with rank 1: the run tokens differ")


def test_workers_that_were_told_another_number_of_workers_refuse_at_once(tmp_path):
    found = proofs(tmp_path, [TOKEN] * 2, [(0, 2), (1, 3)])
    assert [str(error) for error in found] == [
        f"rank {rank} was started with WORLD_SIZE {size}, but rank {1 - rank} with another one; start all workers with "
        "the same"
        for rank, size in ((0, 2), (1, 3))
    ]
    assert all(isinstance(error, InputError) for error in found)


def test_of_two_workers_with_one_rank_the_second_is_refused_and_the_first_joins(tmp_path):
    found = proofs(tmp_path, [TOKEN] * 3, [(0, 2), (1, 2), (1, 2)])
    refused = [error for error in found[1:] if isinstance(error, InputError)]
    assert len(refused) == 1 and str(refused[0]).startswith(
        "two workers were started as rank 1, and this is the second"
    )
    assert sum(isinstance(number, int) for number in found) == 2


def test_a_worker_that_does_not_come_is_named_in_time(tmp_path):
    store = dist.FileStore(str(tmp_path / "store"))
    with pytest.raises(LateError, match="no word from rank 1, 2"):
        prove(store, 0, 3, TOKEN, 0.2)


def test_several_machines_need_a_token_and_a_long_one(monkeypatch):
    monkeypatch.delenv("HALOWIRE_TOKEN", raising=False)
    monkeypatch.delenv("TORCHELASTIC_ERROR_FILE", raising=False)
    two = Place(rank=0, size=2, local_rank=0, local_size=1, restarts=0)
    with pytest.raises(InputError, match=r"HALOWIRE_TOKEN is not set.*openssl rand"):
        token_here(two, 1.0)
    monkeypatch.setenv("HALOWIRE_TOKEN", "short")
    with pytest.raises(InputError, match="has 5 characters, at least 16 are needed"):
        token_here(two, 1.0)
    monkeypatch.setenv("HALOWIRE_TOKEN", "0123456789abcdef")
    assert token_here(two, 1.0) == b"0123456789abcdef"


def test_the_workers_of_one_torchrun_share_a_token_in_its_folder(tmp_path, monkeypatch):
    monkeypatch.delenv("HALOWIRE_TOKEN", raising=False)
    found = []
    for rank in (0, 1):
        (tmp_path / str(rank)).mkdir()
        monkeypatch.setenv("TORCHELASTIC_ERROR_FILE", str(tmp_path / str(rank) / "error.json"))
        found.append(token_here(Place(rank, 2, rank, 2, 0), 1.0))
    assert found[0] == found[1] and len(found[0]) == 32
    (tmp_path / "halowire-token").unlink()
    with pytest.raises(LateError, match="rank 1 found no run token"):
        token_here(Place(1, 2, 1, 2, 0), 0.1)
