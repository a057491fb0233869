"""A pytest plugin that puts the kernels of `make sanitize` in the place of the installed ones.

The kernels are loaded before anything asks for them: ``pytest -p tests.support.sanitized``.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import torch  # noqa: F401 - before the kernels, so that both share one libgomp

ROOT = Path(__file__).parents[2]
BUILT = ROOT / "build" / "sanitized"
NAME = "halowire.kernels._native"


def environment() -> dict[str, str]:
    """The variables under which a Python that was built without sanitizers can load kernels that were built with them.

    The sanitizer's library must be loaded before all others, and the one of C++ before exceptions are watched. Leaks
    are not looked for: Python, torch and the kernels' pool of buffers keep memory to the end on purpose.
    """
    libraries = [
        subprocess.check_output(["g++", f"-print-file-name={name}"], text=True).strip()
        for name in ("libasan.so", "libstdc++.so")
    ]
    return os.environ | {
        "LD_PRELOAD": " ".join(libraries),
        "ASAN_OPTIONS": "detect_leaks=0",
        "UBSAN_OPTIONS": "print_stacktrace=1",
        "PYTHONMALLOC": "malloc",
    }


def load() -> None:
    """Load the kernels of `make sanitize`; fails where they were not built, or without checks."""
    [file] = (BUILT / "halowire" / "kernels").glob("_native*.so")
    spec = importlib.util.spec_from_file_location(NAME, file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.CHECKED, f"{file} was built without checks; remove {BUILT} and run `make sanitize` again"
    sys.modules[NAME] = module


def run(*arguments: str) -> int:
    """Run pytest with ``arguments`` on the kernels of `make sanitize`; returns its exit code."""
    command = [sys.executable, "-m", "pytest", "-p", "tests.support.sanitized", "-p", "no:cacheprovider", *arguments]
    return subprocess.run(command, cwd=ROOT, env=environment(), check=False).returncode


if __name__ == "__main__":
    sys.exit(run(*sys.argv[1:]))
elif "libasan" in os.environ.get("LD_PRELOAD", ""):
    load()
