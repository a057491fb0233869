"""The README: its Python example runs as it stands, and its commands parse."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

README = Path(__file__).parents[2] / "README.md"


def test_the_python_example_runs(tmp_path):
    example = re.search(r"```python\n(.*?)```", README.read_text(), re.DOTALL).group(1)
    assert len([line for line in example.splitlines() if line.strip()]) <= 25
    script = tmp_path / "example.py"
    script.write_text(example)
    done = subprocess.run(
        [sys.executable, str(script)], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "runs" / "graph-exact-1" / "logits.npy").exists()


def test_the_two_commands_are_there_and_nothing_is_left_to_fill_in():
    text = README.read_text()
    assert "make demo" in text and "make test" in text
    assert not re.search(r"@[A-Z]+@", text)
