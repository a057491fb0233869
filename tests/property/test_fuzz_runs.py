"""Run folders with any events and summaries: a page is written, or one line says why not."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from halowire.events import EventLog, read_events
from halowire.report import write_report
from halowire.report.run_files import last_epoch, read_run
from tests.support.fake_run import write_run
from tests.support.fuzzing import changed, damage, examples, extremes, file_of, read_or_refused

fuzz = settings(deadline=None, max_examples=examples())


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A good run; every example damages one of its files and mends it again."""
    return write_run(tmp_path_factory.mktemp("run") / "demo", epochs=6)


@fuzz
@given(st.data(), st.sampled_from(["summary.json", "config.json"]))
def test_any_summary_and_settings(run, data, name):
    path = run / name
    good = path.read_text()
    try:
        record = json.dumps(data.draw(changed(json.loads(good)))).encode()
        path.write_bytes(data.draw(st.one_of(st.just(record), damage(record))))
        read_or_refused(lambda: write_report([run], run / "report.html"))
    finally:
        path.write_text(good)


@fuzz
@given(st.data())
def test_any_events(run, data):
    path = run / "events-0.jsonl"
    good = path.read_text()
    try:
        lines = good.splitlines()
        for _ in range(data.draw(st.integers(1, 3))):
            at = data.draw(st.integers(0, len(lines) - 1))
            lines[at] = json.dumps(data.draw(changed(json.loads(lines[at]))))
        text = "\n".join(lines).encode()
        path.write_bytes(data.draw(st.one_of(st.just(text), damage(text))))
        read_or_refused(lambda: write_report([run], run / "report.html"))
        assert all(isinstance(event["event"], str) for event in read_events(path))
        assert last_epoch(path) is None or isinstance(last_epoch(path), int)
    finally:
        path.write_text(good)


def test_extreme_numbers(run):
    """A page must neither compute with infinities nor list a million million workers."""
    for name in ("summary.json", "config.json", "events-0.jsonl"):
        path = run / name
        good = path.read_text()
        lines = good.splitlines() if name.endswith("l") else [good]
        kinds = {json.loads(line).get("event"): place for place, line in reversed([*enumerate(lines)])}
        try:
            for place in kinds.values():
                for record in extremes(json.loads(lines[place])):
                    path.write_text("\n".join([*lines[:place], json.dumps(record), *lines[place + 1 :]]))
                    read_or_refused(lambda: write_report([run], run / "report.html"))
        finally:
            path.write_text(good)


@fuzz
@given(st.binary(max_size=200))
def test_events_of_any_bytes(content):
    with file_of(content, "events-0.jsonl") as path:
        read_run(path.parent)
        EventLog(path.parent, 0, resume_epoch=3).close()
        assert all(isinstance(event, dict) for event in read_events(path))


def test_the_run_is_whole_again(run, tmp_path):
    assert read_run(shutil.copytree(run, tmp_path / "copy")).first.unreadable == 0
