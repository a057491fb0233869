"""The pages: links resolve, commands parse, flags and files that they name exist, their Python compiles."""

from __future__ import annotations

import contextlib
import importlib
import io
import itertools
import re
import shlex
from functools import cache
from pathlib import Path

import pytest
from tools.dark_drawings import darkened
from torch.distributed.run import get_args_parser

import halowire
from halowire.cli.main import VERBS
from halowire.errors import InputError
from halowire.training import RECIPES, Config
from tests.support.commands import ROOT, blocks, commands, parse_command

PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md", *(ROOT / "docs").rglob("*.md")])
OTHERS = {"--no-sandbox", "--editable", "--to", "--parts", "--hostfile"}
"""Flags of other programs that pages name."""
PACKAGE = ROOT / "src" / "halowire"
STORIES = ROOT / "docs" / "stories"


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def links(text: str) -> list[str]:
    bare = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    bare = re.sub(r"(`+).+?\1", "", bare)
    return re.findall(r"\]\(([^)\s]+)\)", bare) + re.findall(r'(?:src|srcset)="([^"]+)"', bare)


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub and the built pages name them."""
    found = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in found}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_resolve(page):
    for link in links(page.read_text()):
        if link.startswith(("https://", "http://")):
            continue
        target, _, anchor = link.partition("#")
        path = page if not target else (page.parent / target).resolve()
        assert path.exists() and ROOT in (path, *path.parents), f"{link} leads nowhere"
        if anchor:
            assert anchor in anchors(path), f"{link}: no such heading"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_commands_parse(page):
    for words in commands(page.read_text()):
        if "..." not in words:
            parse_command(words)


def flag_of(name: str, default: object) -> str:
    """The flag that changes a setting; what is on by default has one that turns it off."""
    group, dot, last = name.replace("_", "-").rpartition(".")
    return f"--{group}{dot}{'no-' if default is True else ''}{last}"


@cache
def known_flags() -> set[str]:
    """The flags of all verbs and of torchrun."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        for verb in VERBS:
            with contextlib.suppress(SystemExit):
                importlib.import_module(f"halowire.cli.{verb}").run(["--help"])
    found = set(re.findall(r"--[a-z][a-z.-]*[a-z]", said.getvalue()))
    assert {flag_of(*setting) for setting in Config().flat().items()} <= found, "the help lists every setting"
    return found | set(get_args_parser()._option_string_actions) | {"--help", "--version"} | OTHERS


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_flags_that_are_named_exist(page):
    named = re.findall(r"`[^`]*`", re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE))
    for span in named:
        if "bench" in span:  # the benchmarks have flags of their own
            continue
        for flag in re.findall(r"(?<![\w-])--[a-z][a-z.-]*(?![\w.*…-])", span):
            assert flag.rstrip(".") in known_flags(), f"{span}: {flag} is no flag"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_make_targets_exist(page):
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for block in blocks(page.read_text()):
        for line in block.splitlines():
            words = shlex.split(line, comments=True) if line.startswith("make ") else []
            assert set(words[1:]) <= targets, line


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_python_compiles(page):
    for block in re.findall(r"^```python\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE):
        compile(block, name_of(page), "exec")


def test_every_recipe_has_a_row_and_the_readme_counts_them():
    text = (ROOT / "docs" / "recipes.md").read_text()
    shown = text[text.index("\n## All recipes\n") : text.index("\nWhat need not travel")]
    assert sorted(re.findall(r"^\| `([\w-]+)` \|", shown, re.MULTILINE)) == sorted(RECIPES)
    words = {17: "seventeen", 18: "eighteen", 19: "nineteen", 20: "twenty", 21: "twenty-one"}
    assert f"docs/recipes.md) has all {words[len(RECIPES)]} and how to choose" in (ROOT / "README.md").read_text()


def test_the_reference_has_every_public_name_and_no_other():
    named = re.findall(r"^\.\. auto\w+:: ([\w.]+)$", (ROOT / "docs" / "api.md").read_text(), re.MULTILINE)
    full = [name if "." in name else f"halowire.{name}" for name in named]
    for name in full:
        module, _, last = name.rpartition(".")
        assert hasattr(importlib.import_module(module), last), name
    shown = {name.rpartition(".")[2] for name in full}
    assert set(halowire.__all__) - shown <= {"RECIPES"}, "a table of its own stands in docs/recipes.md"


def files_of(text: str) -> list[str]:
    """The files of the package that a text names, in its order."""
    return re.findall(r"`((?:[a-z_]+/)?[a-z_]+\.py)`", text)


def test_every_folder_is_told_of_in_a_story():
    text = "".join(page.read_text() for page in STORIES.glob("*.md"))
    for path in PACKAGE.glob("*/__init__.py"):
        assert f"`{path.parent.name}/" in text, path.parent.name


@pytest.mark.parametrize("page", [ROOT / "README.md", *sorted(STORIES.glob("*.md"))], ids=name_of)
def test_files_that_are_named_exist(page):
    missing = [name for name in files_of(page.read_text()) if not (PACKAGE / name).exists()]
    assert not [name for name in missing if not (ROOT / "examples" / name).exists()], "look for their new names"


def test_files_that_drawings_name_exist():
    known = {path.name for path in PACKAGE.rglob("*.py")}
    drawn = {
        name for path in (ROOT / "docs" / "_static").glob("*.svg") for name in re.findall(r"\w+\.py", path.read_text())
    }
    assert len(drawn) > 8 and drawn <= known, drawn - known


def test_results_that_are_named_exist():
    named = re.findall(r"`(bench/[\w/.]+)`", "".join(page.read_text() for page in PAGES))
    assert len(named) > 8 and all((ROOT / name).exists() for name in named)


@pytest.mark.parametrize(("story", "most"), [("run.md", 25), ("pyg-model.md", 12)])
def test_the_walks_change_folder_seldom(story, most):
    walk = re.search(r"^## The walk.*?(?=^## )", (STORIES / story).read_text(), re.DOTALL | re.MULTILINE).group()
    steps = re.findall(r"^\d+\. `([^`]+)`", walk, re.MULTILINE)
    folders = [name.rpartition("/")[0] for name in steps]
    assert len(steps) > 10 and sum(one != other for one, other in itertools.pairwise(folders)) <= most


def test_every_story_has_a_drawing():
    for story in sorted(set(STORIES.glob("*.md")) - {STORIES / "index.md"}):
        assert story.read_text().count("<picture>") == 1, story.name


def test_every_drawing_has_a_dark_twin():
    drawings = sorted((ROOT / "docs" / "_static").glob("*-light.svg"))
    assert len(drawings) == 6
    for light in drawings:
        dark = light.with_name(light.name.replace("-light", "-dark"))
        assert dark.read_text() == darkened(light.read_text()), "run python tools/dark_drawings.py"


def test_the_checks_find_what_they_look_for():
    text = "# A\n\n    halowire train debian --epohcs 3\n\n[there](gone.md) and `[not](this.md)`\n"
    assert [words[1] for words in commands(text)] == ["train"] and links(text) == ["gone.md"]
    with pytest.raises(InputError, match="epochs"):
        parse_command(next(iter(commands(text))))
    assert "--epohcs" not in known_flags() and "--rate.bits" in known_flags()
