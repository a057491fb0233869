"""The event log: what a crash leaves, what a resumed run keeps."""

from __future__ import annotations

import math

from halowire.events import EventLog, read_events


def test_a_line_cut_short_is_left_out(tmp_path):
    log = EventLog(tmp_path, 0)
    log.write("start", graph="g")
    log.write("epoch", epoch=0, loss=math.nan, phases={"wait": math.inf})
    path = tmp_path / "events-0.jsonl"
    path.write_text(path.read_text() + '{"event": "ep')
    assert read_events(path) == [
        {"event": "start", "graph": "g"},
        {"event": "epoch", "epoch": 0, "loss": None, "phases": {"wait": None}},
    ]


def test_a_resumed_run_keeps_what_was_before_it(tmp_path):
    log = EventLog(tmp_path, 1)
    log.write("start")
    for epoch in range(5):
        log.write("epoch", epoch=epoch)
    log.write("end")
    log.close()
    log = EventLog(tmp_path, 1, resume_epoch=3)
    log.write("epoch", epoch=3)
    epochs = [event.get("epoch") for event in read_events(tmp_path / "events-1.jsonl")]
    assert epochs == [None, 0, 1, 2, 3]


def test_a_new_run_starts_a_new_file(tmp_path):
    EventLog(tmp_path, 0).write("start")
    EventLog(tmp_path, 0).write("start")
    assert len(read_events(tmp_path / "events-0.jsonl")) == 1
