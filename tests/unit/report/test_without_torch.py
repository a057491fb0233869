"""The report loads without torch: `halowire --help` and `halowire report` need not wait seconds for it."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import halowire.report

ALLOWED = ("halowire.errors", "halowire.files", "halowire.inputs", "halowire.events")


def test_no_module_imports_more_than_it_may() -> None:
    folder = Path(halowire.report.__file__).parent
    files = [*folder.rglob("*.py"), *(folder.parent / "events").glob("*.py")]
    assert len(files) >= 20
    for path in files:
        for node in ast.parse(path.read_text()).body:
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [name.name for name in node.names] if isinstance(node, ast.Import) else []
            for name in names:
                assert not name.startswith("torch"), path
                own = name.startswith("halowire.report") or name.startswith(ALLOWED)
                assert not name.startswith("halowire.") or own, path


def test_neither_the_report_nor_its_verb_loads_torch() -> None:
    code = "import sys, halowire.report, halowire.cli.report; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
