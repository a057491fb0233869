"""Errors in one line of words, and their exit codes."""

from __future__ import annotations

import pytest

from halowire.errors import (
    FAILED,
    INTERRUPTED,
    USAGE,
    InputError,
    Interrupted,
    LateError,
    explain,
    in_one_line,
    system_error,
    without_source,
)


def test_an_error_of_the_system_names_the_file():
    assert system_error(PermissionError(13, "Permission denied", "a/b")) == "a/b: permission denied"
    assert system_error(OSError("odd")) == "odd"


def test_an_error_without_words_is_named_after_its_type():
    assert in_one_line(ValueError("two\n  lines")) == "two lines" and in_one_line(EOFError()) == "EOFError"


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (InputError("bad\ninput"), USAGE, "bad input"),
        (LateError("rank 1 is late"), FAILED, "rank 1 is late"),
        (KeyboardInterrupt(), INTERRUPTED, "interrupted"),
        (Interrupted("stopped"), INTERRUPTED, "stopped"),
        (FileNotFoundError(2, "No such file or directory", "a"), USAGE, "a: no such file or directory"),
        (OSError(28, "No space left on device", "a"), FAILED, "a: no space left on device"),
        (MemoryError(), FAILED, "out of memory"),
    ],
)
def test_what_a_user_can_act_on_has_a_code_and_one_line(error, code, words):
    found = explain(error)
    assert found is not None and found[0] == code and found[1].startswith(words)


def test_words_of_torch_lose_its_source_line():
    error = RuntimeError("[enforce fail at /build/gloo/device.cc:84] no address for: eth7. GLHF\nmore")
    assert without_source(error) == "no address for: eth7"
    assert without_source(RuntimeError()) == ""


def test_a_bug_keeps_its_traceback():
    assert explain(KeyError("a")) is None
