"""Classes and functions of the main module travel with their code."""

from __future__ import annotations

import subprocess
import sys
import textwrap

MAKER = """
    import math
    from dataclasses import dataclass
    from pathlib import Path
    import sys
    from halowire.launch.by_value import write_by_value

    FACTOR = 3

    def scaled(value, by=FACTOR):
        return by * value

    class Base:
        def __init__(self, value):
            self.value = value

        @property
        def twice(self):
            return 2 * self.value

    class Child(Base):
        def __init__(self, value):
            super().__init__(value)
            self.other = [Base(7)]

        @staticmethod
        def root(value):
            return math.sqrt(value)

        @classmethod
        def make(cls, value):
            return cls(value)

        def all(self):
            return scaled(self.twice) + sum(scaled(item.value, by=1) for item in self.other) + self.root(16)

    @dataclass
    class Point:
        x: int
        y: int = 5

    def counter(start):
        count = start

        def step(kind=Child):
            nonlocal count
            count += 1
            return count, kind.make(count).all()

        return step

    write_by_value({"child": Child(10), "kind": Child, "point": Point(1), "step": counter(40)}, Path(sys.argv[1]))
"""
READER = """
    import sys
    from pathlib import Path
    from halowire.launch.by_value import read_by_value

    found = read_by_value(Path(sys.argv[1]))
    child = found["child"]
    assert type(child) is found["kind"]
    assert child.all() == 3 * 20 + 7 + 4
    assert found["kind"].make(1).all() == 3 * 2 + 7 + 4
    assert found["point"] == type(found["point"])(1, 5)
    assert found["step"]() == (41, 3 * 82 + 7 + 4)
    assert found["step"]()[0] == 42
    print("good")
"""


def run(code: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_program_reads_what_another_defined(tmp_path):
    file = tmp_path / "value"
    run(MAKER, str(file))
    assert file.stat().st_mode & 0o077 == 0, "only this user can read it"
    assert run(READER, str(file)) == "good\n"
