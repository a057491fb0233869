"""What needs no torch does not wait for it; the package's names are the same, whatever was imported before."""

from __future__ import annotations

import subprocess
import sys

import pytest


def python(*lines: str) -> str:
    """What a fresh interpreter prints."""
    done = subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("words", [["--help"], ["--version"], ["trian"], []])
def test_the_top_level_does_not_import_torch(words):
    said = python("import sys", "from halowire.cli.main import main", f"main({words})", "print('torch' in sys.modules)")
    assert said.endswith("False\n")


def test_public_names_are_no_modules():
    python(
        "import halowire.partitioning.manifest, halowire.training.config, halowire, types",
        "from halowire import *",
        "assert all(getattr(halowire, name) is globals()[name] for name in halowire.__all__)",
        "assert not any(isinstance(getattr(halowire, name), types.ModuleType) for name in halowire.__all__)",
        "assert set(halowire.__all__) <= set(dir(halowire)) and not hasattr(halowire, 'nothing')",
    )
