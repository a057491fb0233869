"""The agreement of the workers: every difference is named, with both values and who has which, on all workers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

import halowire
from halowire.errors import InputError
from halowire.events import SETUP
from halowire.training import Config, Job, agree, job_facts, model_facts
from halowire.training.agreement import MAY_DIFFER, differences, setting_facts
from halowire.wire import Transport, run_threads

CPU = torch.device("cpu")


def test_every_difference_is_named_with_its_ranks():
    facts = [{"optim.lr": 0.01, "seed": 1, "same": True}] * 2 + [{"optim.lr": 0.02, "same": True}]
    assert differences(facts) == [
        "optim.lr is 0.01 on ranks 0, 1 and 0.02 on rank 2",
        "seed is 1 on ranks 0, 1 and not known on rank 2",
    ]
    values = [{"a": value} for value in ("", "x", "", "y")]
    assert differences(values) == ['a is "" on ranks 0, 2, x on rank 1 and y on rank 3']


def test_all_workers_raise_the_same_and_equal_ones_go_on():
    def work(transport, lr):
        try:
            agree(setting_facts(Config().replace({"optim.lr": lr[transport.rank]})), transport)
        except InputError as error:
            return str(error)
        return ""

    same = run_threads(3, lambda transport: work(transport, [0.01] * 3))
    assert same == [""] * 3
    (one,) = set(run_threads(3, lambda transport: work(transport, [0.01, 0.01, 0.5])))
    assert one == (
        "the workers disagree: optim.lr is 0.01 on ranks 0, 1 and 0.5 on rank 2; start all with the same settings, "
        "files and versions"
    )


def digest_bytes(rank: int) -> int:
    transport = Transport()
    agree(setting_facts(Config()), transport)
    return transport.ledger.totals[SETUP]


def test_only_a_digest_travels_where_nothing_differs(on_workers):
    # the sum of a table of 32 bytes a worker, as a ring: 2 (P - 1) / P of its bytes
    assert on_workers(3, digest_bytes) == [2 * 2 * 32] * 3


def test_settings_that_may_differ_exist_and_are_left_out():
    assert set(MAY_DIFFER) <= set(Config().flat())
    assert set(setting_facts(Config())) == set(Config().flat()) - set(MAY_DIFFER)


def test_facts_that_cannot_be_read_are_no_crash():
    def work(transport):
        with pytest.raises(InputError, match=r"the workers disagree: .*a is"):
            agree({"a": "x" * (1 << 21 if transport.rank else 1)}, transport)

    run_threads(2, work)


def make_job(folder: Path) -> Job:
    return Job(folder / "run", "tiny", "sbm:nodes=10", folder / "shards", 2, Config())


def test_a_job_says_what_decides_its_results(tmp_path):
    job = make_job(tmp_path)
    facts = job_facts(job, 2, CPU, cuts=True)
    assert facts["mesh"] == "1 x 2, 1 chunks" and facts["graph"] == "sbm:nodes=10" and facts["device"] == "cpu"
    assert facts["torch"] and facts["Python"] and facts["halowire"] and facts["kernels"] in ("native", "torch")
    assert facts["numpy"] and facts["safetensors"]
    for other in (replace(job, resume=True), replace(job, source="sbm:nodes=11"), replace(job, workers=3)):
        assert job_facts(other, 2, CPU, cuts=True) != facts
    for same in (replace(job, quiet=True), replace(job, run=tmp_path / "elsewhere"), replace(job, tensorboard=True)):
        assert job_facts(same, 2, CPU, cuts=True) == facts


def test_machines_that_cut_with_metis_compare_its_version(tmp_path):
    job = make_job(tmp_path)
    job = replace(job, shards=job.run / "shards")
    assert job_facts(job, 2, CPU, cuts=True)["pymetis"]
    at_random = replace(job, config=job.config.replace({"partition.method": "random"}))
    for other in (job_facts(job, 2, CPU, cuts=False), job_facts(at_random, 2, CPU, cuts=True)):
        assert "pymetis" not in other, "nobody cuts with it"


def test_partitions_are_compared_by_their_checksums(tmp_path):
    for seed in (0, 1):
        halowire.partition(
            "sbm:nodes=60,edges=300,features=4,classes=3", 2, tmp_path / f"{seed}", method="random", seed=seed
        )
    jobs = [replace(make_job(tmp_path), shards=tmp_path / f"{seed}") for seed in (0, 1)]
    first, second = (job_facts(job, 2, CPU, cuts=False) for job in jobs)
    assert [line.split(" is ")[0] for line in differences([first, second])] == ["partition"]
    stale = replace(jobs[0], run=tmp_path)  # shards in the run folder, which are to be made again
    assert "partition" not in job_facts(stale, 2, CPU, cuts=True)


def test_a_models_parameters_are_compared_by_shape():
    facts = [model_facts(nn.Linear(3, width), Config(), CPU, None) for width in (2, 4)]
    assert differences(facts) == [
        "parameter bias is float32 [2] on rank 0 and float32 [4] on rank 1",
        "parameter weight is float32 [2, 3] on rank 0 and float32 [4, 3] on rank 1",
    ]
