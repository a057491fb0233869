"""The layout shows the architecture: who may import whom, how long a file may be, what opens it."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import halowire

ROOT = Path(halowire.__file__).parent
ORDER = [
    "errors", "files", "kernels", "graph", "partitioning", "events", "wire", "layers", "schedules", "plan", "training",
    "launch", "report", "pyg", "worker", "api", "cli",
]  # fmt: skip
FILES = sorted(path for path in ROOT.rglob("*.py") if path.name != "__main__.py" and path != ROOT / "__init__.py")


def place(module: str) -> int:
    return ORDER.index(module.split(".")[1])


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_folders_import_only_from_above(path):
    own = path.relative_to(ROOT).with_suffix("").parts[0]
    for node in ast.walk(ast.parse(path.read_text())):
        names = [node.module] if isinstance(node, ast.ImportFrom) and node.module else []
        names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.module == "halowire":
            names = [f"halowire.{alias.name}" for alias in node.names]
        for name in names:
            if name.startswith("halowire."):
                assert place(name) <= ORDER.index(own), f"{path.name} of {own}/ imports {name}"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_files_are_short_and_open_with_a_sentence(path):
    text = path.read_text()
    assert len(text.splitlines()) <= 400
    docstring = ast.get_docstring(ast.parse(text))
    assert docstring and docstring.splitlines()[0].rstrip().endswith((".", "!", ":", "?"))


def test_public_names_are_few_and_documented():
    assert len(halowire.__all__) <= 24
    for name in halowire.__all__:
        assert getattr(halowire, name).__doc__, name


def test_contributing_lists_the_folders_in_this_order():
    text = (Path(__file__).parents[2] / "CONTRIBUTING.md").read_text()
    table = re.findall(r"^\| `([a-z]+)(?:/|\.py)` \|", text, re.MULTILINE)
    held = {path.relative_to(ROOT).with_suffix("").parts[0] for path in FILES}
    assert table == [name for name in ORDER if name in held]
