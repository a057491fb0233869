"""The layout shows the architecture: who may import whom, how long a file may be, what opens it."""

from __future__ import annotations

import ast
import re
from importlib import import_module
from pathlib import Path

import pytest

import halowire

ROOT = Path(halowire.__file__).parent
ORDER = [
    "errors", "interruption", "output", "files", "inputs", "kernels", "graph", "partitioning", "events", "wire",
    "layers", "schedules", "training", "launch", "report", "pyg", "proving", "worker", "running", "comparing", "api",
    "cli",
]  # fmt: skip
# Folders whose `__init__` exports everything that other folders use.
DOORS = {
    "kernels", "graph", "partitioning", "events", "wire", "layers", "schedules", "training", "launch", "report", "pyg",
    "proving",
}  # fmt: skip
TESTS = Path(__file__).parents[1]
# Tests of a whole folder, of what several of its files do together; every other one is named after the file it tests.
WHOLE_FOLDER = {
    "cli": {"links", "mistakes", "other_workers", "quick", "regression", "run_folder", "stages", "verbs"},
    "graph": {"debian", "hetero"},
    "pyg": {"fit_links"},
    "report": {"without_torch"},
    "wire": {"bytes"},
}
FILES = sorted(path for path in ROOT.rglob("*.py") if path.name != "__main__.py" and path != ROOT / "__init__.py")


def place(module: str) -> int:
    return ORDER.index(module.split(".")[1])


def imported(path: Path) -> list[str]:
    """The modules of the package that a file imports or imports from, anywhere in it."""
    names: list[str] = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module == "halowire":
            names += [f"halowire.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.append(node.module)
        elif isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
    return [name for name in names if name.startswith("halowire.")]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_folders_import_only_from_above(path):
    own = path.relative_to(ROOT).with_suffix("").parts[0]
    for name in imported(path):
        assert place(name) <= ORDER.index(own), f"{path.name} of {own}/ imports {name}"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_folders_import_each_other_through_their_doors(path):
    own = path.relative_to(ROOT).with_suffix("").parts[0]
    for name in imported(path):
        folder = name.split(".")[1]
        if folder in DOORS and folder != own:
            assert name == f"halowire.{folder}", f"{path.name} of {own}/ imports {name}: import from halowire.{folder}"


@pytest.mark.parametrize("folder", sorted(DOORS))
def test_a_door_exports_all_that_it_imports(folder):
    tree = ast.parse((ROOT / folder / "__init__.py").read_text())
    names = {alias.name for node in tree.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert names == set(import_module(f"halowire.{folder}").__all__)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_files_are_short_and_open_with_a_sentence(path):
    text = path.read_text()
    assert len(text.splitlines()) <= 400
    docstring = ast.get_docstring(ast.parse(text))
    assert docstring and docstring.splitlines()[0].rstrip().endswith((".", "!", ":", "?"))


def test_public_names_are_few_and_their_docstrings_show_a_use():
    assert len(halowire.__all__) <= 28
    for name in set(halowire.__all__) - {"RECIPES"}:
        assert ">>> " in getattr(halowire, name).__doc__, name


def test_type_checkers_know_the_same_public_names():
    stub = ast.parse((ROOT / "__init__.pyi").read_text())
    found = {(alias.asname, node.module) for node in stub.body for alias in node.names}
    assert found == set(halowire._PLACES.items())


def test_contributing_lists_the_folders_in_this_order():
    text = (Path(__file__).parents[2] / "CONTRIBUTING.md").read_text()
    table = re.findall(r"^\| `([a-z]+)(?:/|\.py)` \|", text, re.MULTILINE)
    held = {path.relative_to(ROOT).with_suffix("").parts[0] for path in FILES}
    assert table == [name for name in ORDER if name in held]


@pytest.mark.parametrize("path", sorted(TESTS.rglob("*.py")), ids=lambda path: str(path.relative_to(TESTS)))
def test_no_test_imports_from_another(path):
    names: list[str] = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            names += [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
    for name in names:
        assert not re.match(r"tests\..*\btest_", name), (
            f"{path.name} imports {name}: what tests share is in tests/support"
        )


def test_the_folders_of_tests_mirror_those_of_the_package():
    alone: dict[str, set[str]] = {}
    for path in (TESTS / "unit").rglob("test_*.py"):
        folder, name = path.parent.relative_to(TESTS / "unit"), path.stem.removeprefix("test_")
        if (ROOT / folder).is_dir() and folder.parts and not (ROOT / folder / f"{name}.py").exists():
            alone.setdefault(str(folder), set()).add(name)
    assert alone == WHOLE_FOLDER
