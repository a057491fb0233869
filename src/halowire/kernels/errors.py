"""The error that means: what the user gave cannot be used, and here is what to do instead."""

from __future__ import annotations


class InputError(ValueError):
    """Bad input from the user; the message is one line that says what was given, what was expected, what to do next."""
