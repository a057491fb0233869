"""Errors in one line of words."""

from __future__ import annotations

from halowire.errors import system_error


def test_an_error_of_the_system_names_the_file():
    assert system_error(PermissionError(13, "Permission denied", "a/b")) == "a/b: permission denied"
    assert system_error(OSError("odd")) == "odd"
