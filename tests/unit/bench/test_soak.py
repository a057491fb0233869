"""The soak judges rightly: results are compared bit for bit, every bad end counts, the table adds up."""

from __future__ import annotations

import json

import numpy as np
import pytest
from bench.soak.__main__ import report
from bench.soak.cases import all_cases
from bench.soak.outcome import BAD, BadEndError, Fault
from bench.soak.program import End
from bench.soak.result import compare, epochs_done, result_of, saved_epoch
from bench.soak.table import table, write_between
from safetensors.numpy import save_file


@pytest.fixture
def run(tmp_path):
    """A finished run of two epochs, as far as the soak looks at it."""
    newest = tmp_path / "run" / "checkpoints" / "epoch-000002"
    newest.mkdir(parents=True)
    save_file({"w": np.ones(3, np.float32), "random": np.zeros(2)}, newest / "state.safetensors")
    events = [{"event": "start", "time": 1.0}, *({"event": "epoch", "epoch": n, "loss": 0.5 / (n + 1)} for n in (0, 1))]
    (tmp_path / "run" / "events-0.jsonl").write_text("\n".join(map(json.dumps, events)) + '\n{"event": "ep')
    (tmp_path / "run" / "summary.json").write_text(json.dumps({"train_loss": 0.25, "val": 1, "test": 1, "epochs": 2}))
    return tmp_path / "run"


def test_the_smallest_difference_is_a_wrong_result(run):
    whole = result_of(run)
    assert epochs_done(run) == saved_epoch(run) == 2
    compare(result_of(run), whole)
    weights = np.ones(3, np.float32)
    weights[1] = np.nextafter(weights[1], np.float32(2))
    save_file({"w": weights, "random": np.ones(2)}, run / "checkpoints/epoch-000002/state.safetensors")
    with pytest.raises(BadEndError, match="wrong result: tensor w of checkpoints/epoch-000002/state"):
        compare(result_of(run), whole)
    save_file({"w": np.ones(3, np.float32)}, run / "checkpoints/epoch-000002/state.safetensors")
    compare(result_of(run), whole)
    lines = (run / "events-0.jsonl").read_text().splitlines()
    (run / "events-0.jsonl").write_text("\n".join(lines[:2]))
    with pytest.raises(BadEndError, match="loss of epoch 1 is None"):
        compare(result_of(run), whole)
    compare(result_of(run), whole, gaps=True)
    (run / "events-0.jsonl").write_text("\n".join([*lines[:2], lines[1]]))
    with pytest.raises(BadEndError, match="two events for the loss of epoch 0"):
        result_of(run)


def test_every_bad_end_counts_and_says_how_to_repeat_it(capsys):
    good = [Fault("kill", "kill-a", "exact", "survived", 3, 0.5, 2.0), Fault("cut", "cut-a", "varco", "refused")]
    for kind in BAD:
        faults = [fault.record() for fault in (*good, Fault("kill", "kill-b", "exact", kind, words="why"))]
        assert report(faults, [], 7, None) == 1
        said = capsys.readouterr().out
        assert "| kill | 2 | 1 | 0 | 1 | 3 | 0.5, at most 0.5 | 2.0, at most 2.0 |" in said
        assert f"{kind}: why" in said and "python -m bench.soak --seed 7 --only kill-b" in said
    faults = [fault.record() for fault in good]
    assert report(faults, ["later"], 7, None) == 1, "what was not injected is not survived"
    assert report(faults, [], 7, None) == 0
    assert "**2 faults** over `exact`, `varco`: 1 survived, 1 refused clearly; **0 wrong results, 0 hangs" in table(
        faults
    )


def test_the_table_takes_its_place_in_the_page(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- soak: begin -->\nold\n<!-- soak: end -->\nafter\n")
    write_between("soak", "new", page)
    assert page.read_text() == "before\n<!-- soak: begin -->\nnew\n<!-- soak: end -->\nafter\n"


def test_warnings_are_no_errors_and_names_of_cases_are_single():
    assert End(1, "warning: rank 0 waits\nhalowire: error: late\n", 1.0).lines == ["halowire: error: late"]
    names = [case.id for case in all_cases()]
    assert len(names) == len(set(names)) > 90
