"""A rule of settings: which values one takes, what it needs, what it excludes, and where it has no effect."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple

from halowire.training.config import Config
from halowire.training.situation import Situation

When = Callable[[Config, Situation], bool]
"""Whether a rule is broken."""
Words = Callable[[Config, Situation], Mapping[str, object]]
"""What a sentence names that is no setting."""


class Kind(Enum):
    """What a rule says of its settings."""

    RANGE = "the values it takes"
    NEEDS = "what must be there beside it"
    EXCLUDES = "what must not be there beside it"
    IDLE = "where it has no effect"


class Setting(NamedTuple):
    """A setting that a rule speaks of; ``value``: the one it speaks of, where that is not any value."""

    name: str
    value: str = ""

    @property
    def flag(self) -> str:
        """As on the command line: ``--rate.nodes degree``."""
        return f"--{dashed(self.name)} {self.value}".strip()


@dataclass(frozen=True)
class Rule:
    """One rule of the table.

    Attributes:
        settings: those that the rule speaks of.
        kind: what it says of them.
        broken_by: the names of the settings that break it, none where it holds.
        note: the range, what is needed, excluded or missing, as the end of a sentence; the docs show it.
        sentence: what is said when it is broken; ``{flag}``, ``{value}`` and ``{note}`` stand for the setting that
            breaks it, ``{rate.bits}`` and the like for the settings, other names for ``words``.
        way_out: what can be done about it.
        words: what ``sentence``, ``note`` and ``way_out`` name beside settings.
    """

    settings: tuple[Setting, ...]
    kind: Kind
    broken_by: Callable[[Config, Situation], Sequence[str]]
    note: str
    sentence: str
    way_out: str = ""
    words: Words = lambda config, here: {}

    @property
    def text(self) -> str:
        """The whole message, before names and numbers are put in."""
        return f"{self.sentence}; {self.way_out}" if self.way_out else self.sentence

    def message(self, name: str, config: Config, here: Situation) -> str:
        """What is told when the setting ``name`` breaks the rule."""
        return self._fill(self.text, name, config, here)

    def reason(self, name: str, config: Config, here: Situation) -> str:
        """The message of an idle setting without its name and the way out: ``has no effect ...``."""
        return self._fill(self.sentence, name, config, here).removeprefix(f"--{dashed(name)} ")

    def _fill(self, text: str, name: str, config: Config, here: Situation) -> str:
        values = {**vars(config), **self.words(config, here), "flag": dashed(name), "setting": name}
        values["value"] = config.flat()[name]
        values["note"] = self.note.format_map(values)
        return text.format_map(values)


def within(names: str, limit: str, holds: Callable[[Any], bool], words: Words = lambda config, here: {}) -> Rule:
    """Every one of ``names`` must ``limit``, such as *be at least 1*."""
    settings = parse_settings(names)

    def broken_by(config: Config, here: Situation) -> list[str]:
        values = config.flat()
        return [setting.name for setting in settings if not holds(values[setting.name])]

    return Rule(settings, Kind.RANGE, broken_by, limit, "--{flag} is {value}; it must {note}", words=words)


def readable(names: str, limit: str, read: Callable[[Config, Situation], object]) -> Rule:
    """The settings must be such that ``read`` does not refuse them, which it does in words of its own."""

    def broken_by(config: Config, here: Situation) -> list[str]:
        read(config, here)
        return []

    return Rule(parse_settings(names), Kind.RANGE, broken_by, limit, "")


def idle(
    names: str,
    reason: str,
    when: When,
    *,
    sentence: str = "--{flag} has no effect {note}",
    way_out: str = "leave it out",
    words: Words = lambda config, here: {},
) -> Rule:
    """Any of ``names`` that differs from its default has no effect ``reason``, such as *without --rate.decay*."""
    settings = parse_settings(names)

    def broken_by(config: Config, here: Situation) -> list[str]:
        return changed(config, settings) if when(config, here) else []

    return Rule(settings, Kind.IDLE, broken_by, reason, sentence, way_out, words)


def needs(
    names: str, note: str, when: When, sentence: str, way_out: str = "", words: Words = lambda config, here: {}
) -> Rule:
    """The settings need ``note``, and do not have it ``when``."""
    return _judged(Kind.NEEDS, names, note, when, sentence, way_out, words)


def excludes(
    names: str, note: str, when: When, sentence: str, way_out: str = "", words: Words = lambda config, here: {}
) -> Rule:
    """The settings exclude ``note``; where it is empty, they exclude each other."""
    return _judged(Kind.EXCLUDES, names, note, when, sentence, way_out, words)


def parse_settings(names: str) -> tuple[Setting, ...]:
    """``"rate.nodes=degree rate.decay"``: settings, some with the value that is spoken of."""
    parts = (name.partition("=") for name in names.split())
    return tuple(Setting(name, value) for name, _, value in parts)


def changed(config: Config, settings: Sequence[Setting]) -> list[str]:
    """The names of the settings that differ from their defaults."""
    values, default = config.flat(), Config().flat()
    return [setting.name for setting in settings if values[setting.name] != default[setting.name]]


def dashed(name: str) -> str:
    """The name of a setting as on the command line, without the dashes before it."""
    return name.replace("_", "-")


def _judged(kind: Kind, names: str, note: str, when: When, sentence: str, way_out: str, words: Words) -> Rule:
    settings = parse_settings(names)

    def broken_by(config: Config, here: Situation) -> list[str]:
        return [settings[0].name] if when(config, here) else []

    return Rule(settings, kind, broken_by, note, sentence, way_out, words)
