"""Settings of any kind, from files and from the command line: a configuration that keeps all rules, or one line."""

from __future__ import annotations

import json
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from halowire.cli.main import main
from halowire.training import Config, Job, refuse
from tests.support.commands import parse_halowire
from tests.support.fuzzing import changed, damage, examples, file_of, read_or_refused, values, words

fuzz = settings(deadline=None, max_examples=2 * examples())
fuzz_slow = settings(deadline=None, max_examples=examples() // 3)
"""For the command line, whose parser takes a tenth of a second."""
names = st.sampled_from(sorted(Config().flat()))
flags = names.map(lambda name: "--" + name.replace("_", "-"))
given_texts = st.sampled_from([
    str(10**30), str(-(10**30)), "9" * 5000, str(2**63), str(2**31), "-1", "0", "1", "1.5", "1e400", "-1e400", "nan",
    "inf", "-inf", "", " ", "0x10", "1_000", "١", "true", "--", "-", "[", "{}", "\\", "\n", "\ud800", "é", "0:1,2:",
    "1:1:1", ":",
])  # fmt: skip


def valid(config: Config) -> bool:
    """Whether the settings come back from JSON as they were, and keep all rules."""
    read_or_refused(lambda: refuse(config))
    return Config.from_dict(json.loads(json.dumps(config.to_dict()))).flat().keys() == config.flat().keys()


@fuzz
@given(st.dictionaries(st.one_of(names, words), values, max_size=3))
def test_settings_by_name(given_settings):
    config = read_or_refused(lambda: Config().replace(given_settings))
    assert config is None or valid(config)


@fuzz
@given(st.data())
def test_settings_of_a_file(data):
    config = Config().to_dict()
    run = {"graph": "g", "source": "s", "shards": "shards", "workers": 2, "resume": False, "quiet": True}
    record = data.draw(changed(config | {"run": run}))
    text = data.draw(st.one_of(st.just(json.dumps(record).encode()), damage(json.dumps(record).encode())))
    with file_of(text, "config.json") as path:
        job = read_or_refused(lambda: Job.read(path.parent))
        if job is not None:
            assert job.workers >= 1 and isinstance(job.graph, str) and isinstance(job.shards, Path)
            refuse(job.config.replace({"threads": 0}))


@fuzz_slow
@given(
    st.lists(
        st.tuples(st.one_of(flags, st.sampled_from(["--workers", "--max-restarts", "--out"])), given_texts), max_size=3
    )
)
def test_flags(pairs):
    words = [word for pair in pairs for word in pair]
    read_or_refused(lambda: parse_halowire(["train", "debian", *words]))
    read_or_refused(lambda: parse_halowire(["train", "debian", *("=".join(pair) for pair in pairs)]))


SMALL = "sbm:nodes=60,edges=300,features=4,classes=3,seed=0"
LARGE = str(10**30)
OVERFLOWING = [
    ["train", SMALL, "--epochs", LARGE], ["train", SMALL, "--seed", "-1"], ["train", SMALL, "--seed", str(2**63)],
    ["train", SMALL, "--model.hidden", str(10**12)], ["train", SMALL, "--model.layers", LARGE],
    ["train", SMALL, "--optim.lr", "nan"], ["train", SMALL, "--optim.lr", "1e400"],
    ["train", SMALL, "--workers", LARGE], ["train", SMALL, "--epochs", "9" * 5000],
    ["train", SMALL, "--threads", LARGE], ["train", SMALL, "--deadline", "inf"], ["train", SMALL, "--deadline", "nan"],
    ["train", SMALL, "--eval.every", LARGE], ["train", SMALL, "--mesh.stages", LARGE],
    ["train", SMALL, "--mesh.parts", LARGE], ["train", SMALL, "--checkpoint.every", LARGE],
    ["train", SMALL, "--max-restarts", "-" + LARGE], ["train", SMALL, "--model.dropout", "nan"],
    ["train", SMALL, "--rate.ratio", "inf"], ["train", SMALL, "--rate.budget", "1e400", "--rate.schedule", "budget"],
    ["train", SMALL, "--rate.layers", f"1:{LARGE}"], ["train", SMALL, "--rate.steps", f"{LARGE}:1"],
    ["partition", SMALL, "--parts", LARGE, "--out", "p"],
    ["partition", SMALL, "--parts", "2", "--seed", LARGE, "--out", "p"],
    ["compare", SMALL, "--recipes", "exact", "--seeds", LARGE, "--out", "c"],
    ["compare", SMALL, "--recipes", "exact", "--workers", LARGE, "--out", "c"], ["doctor", "--workers", LARGE],
    ["inspect", f"sbm:nodes={LARGE},edges=5"], ["inspect", "rmat:nodes=1000000000000,edges=5"],
    ["inspect", "sbm:nodes=20,edges=40,classes=1000000000000"], ["inspect", "\0"], ["inspect", "x" * 5000],
]  # fmt: skip


def test_flags_that_overflow_are_bad_input(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    for arguments in OVERFLOWING:
        code = main(arguments)
        said = capsys.readouterr().err
        assert code == 2, f"{arguments}: {said}"
        assert said.startswith("halowire: error: ") and said.count("\n") == 1, (arguments, said)
