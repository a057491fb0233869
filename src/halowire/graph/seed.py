"""The one rule for seeds: a whole number that fits into 63 bits."""

from __future__ import annotations

import operator
from typing import Any

from halowire.errors import InputError

LIMIT = 2**63


def checked_seed(seed: Any) -> int:
    """``seed`` as an int in ``0..2**63-1``, which NumPy, torch and METIS all take; anything else is refused."""
    try:
        value = operator.index(seed)
    except TypeError:
        raise InputError(f"the seed is {seed!r}, expected a whole number from 0 to 2**63 - 1") from None
    if not 0 <= value < LIMIT:
        raise InputError(f"the seed is {value}, expected 0 to 2**63 - 1; choose another seed")
    return value
