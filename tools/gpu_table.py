"""Puts the table of the last `make test-gpu-kernels` into docs/gpu.md."""

from __future__ import annotations

import json
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tests.support.gpu.table import KEY, in_rows  # noqa: E402

BEGIN, END = "<!-- table of the kernels -->", "<!-- end of the table -->"


def main() -> None:
    """Replace what stands between the two marks."""
    results = json.loads((ROOT / ".pytest_cache" / "v" / KEY).read_text())
    page = ROOT / "docs" / "gpu.md"
    before, _, rest = page.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    rows = "\n".join(in_rows(results))
    page.write_text(f"{before}{BEGIN}\n\n{rows}\n\n{END}{after}")


if __name__ == "__main__":
    main()
