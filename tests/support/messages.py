"""The messages of all errors that a user may see, as templates, collected from the source.

``python -m tests.support.messages`` prints what docs/troubleshooting.md still lacks, ready to be put in and explained.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import halowire
from halowire.training import RULES

ROOT = Path(halowire.__file__).parent
PAGE = Path(__file__).parents[2] / "docs" / "troubleshooting.md"
ERRORS = {
    "AttributeError", "InputError", "Interrupted", "KeyboardInterrupt", "LateError", "NotFiniteError", "PlaceError",
    "RuntimeError", "TrainingError", "UncheckableError", "WorkerError",
}  # fmt: skip
WORDED = {"_keep_finished", "_way_on"}
"""Functions that give an error its words, so that the place where it is made has none."""
GAP = "…"
"""What stands in a template for every value that is put in."""


def templates() -> set[str]:
    """The text of every error that is made anywhere in the package, and of every rule of settings."""
    found = {re.sub(r"\{.*?\}", GAP, rule.text) for rule in RULES if rule.text}
    for path in sorted(ROOT.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            texts = [template(node.args[0])] if _is_error(node) else []
            texts += [template(one.value) for one in ast.walk(node) if _is_words(node, one)]
            found |= {text for text in texts if re.search(r"\w", text)}
    return found


def _is_error(node: ast.AST) -> bool:
    """Whether an error is made here, or a warning given, with words."""
    if not isinstance(node, ast.Call) or not node.args:
        return False
    if isinstance(node.func, ast.Attribute):
        return ast.unparse(node.func) == "warnings.warn"
    return isinstance(node.func, ast.Name) and node.func.id in ERRORS


def _is_words(function: ast.AST, node: ast.AST) -> bool:
    """Whether a function that words the end of a run returns them here."""
    named = isinstance(function, ast.FunctionDef) and function.name in WORDED
    return named and isinstance(node, ast.Return) and node.value is not None


def template(node: ast.expr) -> str:
    """The constant text of an expression, with a gap for everything else."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(template(part) for part in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return template(node.left) + template(node.right)
    return GAP


def entries(page: str) -> list[tuple[list[str], str]]:
    """The entries of the page: their templates and the explanation."""
    found: list[tuple[list[str], str]] = []
    for item in re.split(r"^- (?=`)", page, flags=re.MULTILINE)[1:]:
        texts, rest = [], re.split(r"^## ", item, flags=re.MULTILINE)[0]
        while match := re.match(r"\s*(`+)(.+?)\1\\\n", rest):
            texts.append(match[2].strip() if len(match[1]) > 1 else match[2])
            rest = rest[match.end() :]
        if texts:
            found.append((texts, rest.strip()))
    return found


def code(text: str) -> str:
    """``text`` as a code span."""
    return f"`` {text} ``" if "`" in text else f"`{text}`"


def missing() -> list[str]:
    """The templates that the page does not have."""
    known = {text for texts, _ in entries(PAGE.read_text()) for text in texts}
    return sorted(templates() - known)


if __name__ == "__main__":
    for text in missing():
        print(f"- {code(text)}\\\n  ")
