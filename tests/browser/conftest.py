"""The made-up run folders of the unit tests, and the browser driver, for the browser tests."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "unit" / "report")]
