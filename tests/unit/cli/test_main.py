"""A signal ends a verb with one line and exit code 130, also while it is loaded and where a library answers it."""

from __future__ import annotations

import subprocess
import sys

import pytest

LOADS = "main.importlib.import_module = lambda name: os.kill(os.getpid(), NUMBER)"
ANSWERS = """
class Verb:
    @staticmethod
    def run(words):
        try:
            os.kill(os.getpid(), NUMBER)
            time.sleep(30)
        except KeyboardInterrupt:
            raise ImportError("initialization failed")
main.importlib.import_module = lambda name: Verb
"""


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT"])
@pytest.mark.parametrize("what", [LOADS, ANSWERS])
def test_a_signal_is_an_interruption_whatever_a_verb_does(name, what):
    script = "import os, signal, sys, time\nfrom halowire.cli import main\n"
    script += what.replace("NUMBER", f"signal.{name}") + "\nsys.exit(main.main(['doctor']))"
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (130, "halowire: interrupted\n")
