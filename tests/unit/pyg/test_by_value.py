"""Classes and functions of the main module travel with their code."""

from __future__ import annotations

import subprocess
import sys
import textwrap

MAKER = """
    import enum
    import math
    from collections import namedtuple
    from dataclasses import dataclass
    from pathlib import Path
    import sys
    from typing import Generic, NamedTuple, TypeVar
    from halowire.pyg.by_value import pack_by_value, write_packed

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

    class Mode(enum.Enum):
        FAST = "fast"
        SLOW = "slow"
        QUICK = "fast"

        def loud(self):
            return self.value.upper()

        @classmethod
        def first(cls):
            return cls.FAST

    class Planet(enum.Enum):
        EARTH = (2, 3)

        def __init__(self, mass, radius):
            self.mass, self.radius = mass, radius

        @property
        def density(self):
            return self.mass / self.radius

    class Level(enum.IntFlag):
        LOW = enum.auto()
        HIGH = enum.auto()
        ALL = LOW | HIGH

    class Size(NamedTuple):

        wide: int
        high: int = FACTOR

        def area(self):
            return self.wide * self.high

    Pair = namedtuple("Pair", "left right", defaults=[4])

    class Named(Pair):
        __slots__ = ()

        def both(self):
            return self.left + self.right

    @dataclass(slots=True)
    class Slotted:
        value: int = 8

    T = TypeVar("T", bound=int)

    class Box(Generic[T]):
        mode = Mode.SLOW

        def __init__(self, content: T) -> None:
            self.content = content

        def get(self, like: T) -> T:
            return self.content

    more = {
        "mode": Mode.FAST, "modes": Mode, "planet": Planet.EARTH, "level": Level.ALL, "size": Size(2), "sizes": Size,
        "pair": Pair(1), "named": Named(1, 2), "slotted": Slotted(), "box": Box(6), "boxes": Box[int], "variable": T,
    }
    write_packed(pack_by_value(more), Path(sys.argv[2]))
    first = {"child": Child(10), "kind": Child, "point": Point(1), "step": counter(40)}
    write_packed(pack_by_value(first), Path(sys.argv[1]))
"""
READER = """
    import sys
    from pathlib import Path
    from halowire.pyg.by_value import read_by_value

    found = read_by_value(Path(sys.argv[1]))
    child = found["child"]
    assert type(child) is found["kind"]
    assert child.all() == 3 * 20 + 7 + 4
    assert found["kind"].make(1).all() == 3 * 2 + 7 + 4
    assert found["point"] == type(found["point"])(1, 5)
    assert found["step"]() == (41, 3 * 82 + 7 + 4)
    assert found["step"]()[0] == 42
    more = read_by_value(Path(sys.argv[2]))
    modes, mode = more["modes"], more["mode"]
    assert mode is modes.FAST is modes.QUICK is modes("fast") is modes.first() and mode.loud() == "FAST"
    assert list(modes) == [modes.FAST, modes.SLOW] and more["box"].mode is modes.SLOW
    assert more["planet"].density == 2 / 3 and more["planet"].value == (2, 3)
    level = more["level"]
    assert level == 3 and level.name == "ALL" and type(level).LOW | type(level).HIGH is level
    size = more["size"]
    assert type(size) is more["sizes"] and size == (2, 3) and size.area() == 6 and size._replace(high=1).area() == 2
    assert size.wide == 2 and type(size).__annotations__["high"] is int and type(size)(5) == (5, 3)
    assert more["pair"] == (1, 4) and more["pair"].right == 4 and more["named"].both() == 3
    assert more["slotted"].value == 8 and more["box"].get(1) == 6
    assert more["boxes"](9).get(0) == 9 and type(more["box"]).__parameters__ == (more["variable"],)
    assert more["variable"].__bound__ is int
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
    more = str(tmp_path / "more")
    run(MAKER, str(file), more)
    assert file.stat().st_mode & 0o077 == 0, "only this user can read it"
    assert run(READER, str(file), more) == "good\n"
