"""A rule says what settings take, need or exclude, or where they have no effect; it is judged in a situation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Any, Literal, NamedTuple

from halowire.schedules import Mesh
from halowire.training.config import Config

Caller = Literal["train", "fit", "distribute", "pairs"]
"""Who uses the settings: `train` and `compare`, ``fit``, ``distribute``, or ``shard_links``."""

UNKNOWN = Mesh(0, 0, 0)


@dataclass(frozen=True)
class Situation:
    """What is known, beside the settings, at the place where the settings are used.

    Attributes:
        mesh: stages, parts and chunks of the run; all 0 while the number of workers is not known.
        caller: who uses the settings.
        given: names of the settings that the user gave, as opposed to those that a recipe filled.
        codec: whether a codec of the user's own codes the rows.
        drops: whether the user's model drops values or edges before its rows travel.
        outputs: columns of the model's output; None while the graph is not known.
    """

    mesh: Mesh = UNKNOWN
    caller: Caller = "train"
    given: Sequence[str] = ()
    codec: bool = False
    drops: bool = False
    outputs: int | None = None

    @property
    def own_model(self) -> bool:
        """Whether the model is the user's own."""
        return self.caller in ("fit", "distribute")


def mesh_of(config: Config, workers: int) -> Mesh:
    """The mesh that the settings ask for."""
    return Mesh.of(config.mesh.stages, config.mesh.parts, config.mesh.chunks, workers, config.model.layers)


def mesh_for_hosts(config: Config, workers: int) -> Mesh:
    """The mesh of a model of one's own, where ``--mesh.hosts`` must be held against it; else that it is not known.

    The other settings of the mesh are refused by themselves.
    """
    return Mesh(parts=workers) if config.mesh.hosts > 1 else UNKNOWN


def pipelined(config: Config, mesh: Mesh) -> bool:
    """Whether the run is a pipeline: it has several stages or chunks, or keeps only the aggregates for backward."""
    return mesh.stages > 1 or mesh.chunks > 1 or config.mesh.keep == "aggregates"


When = Callable[[Config, Situation], bool]
"""Whether a rule is broken."""
Words = Callable[[Config, Situation], Mapping[str, object]]
"""Values for the names in a sentence that are no settings."""
NO_EFFECT = "--{flag} has no effect {note}"


def no_words(config: Config, here: Situation) -> Mapping[str, object]:
    """No values: the words of a sentence that names only settings."""
    return {}


class Kind(Enum):
    """What a rule says of its settings."""

    RANGE = "the values it takes"
    NEEDS = "what must be there beside it"
    EXCLUDES = "what must not be there beside it"
    IDLE = "where it has no effect"


class Setting(NamedTuple):
    """A setting that a rule is about; ``value`` is the only value that the rule is about, or empty for any value."""

    name: str
    value: str = ""

    @property
    def flag(self) -> str:
        """The setting as on the command line: ``--rate.nodes degree``."""
        return f"--{dashed(self.name)} {self.value}".strip()


@dataclass(frozen=True)
class Rule:
    """One rule of the table.

    Attributes:
        settings: the settings that the rule is about.
        kind: what the rule says of them.
        broken_by: gives the names of the settings that break the rule, none where it holds.
        note: the range, or what is needed, excluded or missing, as the end of a sentence; the docs show it.
        sentence: the message when the rule is broken. ``{flag}`` and ``{value}`` stand for the setting that breaks it,
            ``{note}`` for the note, ``{rate.bits}`` and the like for settings, other names for ``words``.
        way_out: what the user can do instead.
        words: gives values for the names in ``sentence``, ``note`` and ``way_out`` that are no settings.
    """

    settings: tuple[Setting, ...]
    kind: Kind
    broken_by: Callable[[Config, Situation], Sequence[str]]
    note: str
    sentence: str
    way_out: str = ""
    words: Words = no_words

    @property
    def text(self) -> str:
        """The whole message, before names and numbers are filled in."""
        return f"{self.sentence}; {self.way_out}" if self.way_out else self.sentence

    def message(self, name: str, config: Config, here: Situation) -> str:
        """The message when the setting ``name`` breaks the rule."""
        return self._fill(self.text, name, config, here)

    def reason(self, name: str, config: Config, here: Situation) -> str:
        """The message of a setting without effect, without its name and the way out: ``has no effect ...``."""
        return self._fill(self.sentence, name, config, here).removeprefix(f"--{dashed(name)} ")

    def _fill(self, text: str, name: str, config: Config, here: Situation) -> str:
        values = {**vars(config), **self.words(config, here), "flag": dashed(name), "setting": name}
        values["value"] = config.flat()[name]
        values["note"] = self.note.format_map(values)
        return text.format_map(values)


def within(names: str, limit: str, holds: Callable[[Any], bool], words: Words = no_words) -> Rule:
    """The rule that each of the settings ``names`` must ``limit``, such as *be at least 1*."""
    settings = parse_settings(names)

    def broken_by(config: Config, here: Situation) -> list[str]:
        values = config.flat()
        return [setting.name for setting in settings if not holds(values[setting.name])]

    return Rule(settings, Kind.RANGE, broken_by, limit, "--{flag} is {value}; it must {note}", words=words)


def readable(names: str, limit: str, read: Callable[[Config, Situation], object]) -> Rule:
    """The rule that ``read`` must accept the settings; where it does not, it raises an error with its own words."""

    def broken_by(config: Config, here: Situation) -> list[str]:
        read(config, here)
        return []

    return Rule(parse_settings(names), Kind.RANGE, broken_by, limit, "")


def idle(
    names: str,
    reason: str,
    when: When,
    sentence: str = NO_EFFECT,
    way_out: str = "leave it out",
    words: Words = no_words,
) -> Rule:
    """The rule that a changed setting of ``names`` has no effect ``reason``, such as *without --rate.decay*."""
    settings = parse_settings(names)

    def broken_by(config: Config, here: Situation) -> list[str]:
        return changed(config, settings) if when(config, here) else []

    return Rule(settings, Kind.IDLE, broken_by, reason, sentence, way_out, words)


def parse_settings(names: str) -> tuple[Setting, ...]:
    """The settings in a text such as ``"rate.nodes=degree rate.decay"``; some have the value that a rule is about."""
    parts = (name.partition("=") for name in names.split())
    return tuple(Setting(name, value) for name, _, value in parts)


def changed(config: Config, settings: Sequence[Setting]) -> list[str]:
    """The names of the settings that differ from their defaults."""
    values, default = config.flat(), Config().flat()
    return [setting.name for setting in settings if values[setting.name] != default[setting.name]]


def dashed(name: str) -> str:
    """The name of a setting as on the command line, without the dashes before it."""
    return name.replace("_", "-")


def _judged(
    kind: Kind, names: str, note: str, when: When, sentence: str, way_out: str = "", words: Words = no_words
) -> Rule:
    settings = parse_settings(names)

    def broken_by(config: Config, here: Situation) -> list[str]:
        return [settings[0].name] if when(config, here) else []

    return Rule(settings, kind, broken_by, note, sentence, way_out, words)


needs = partial(_judged, Kind.NEEDS)
"""The rule that the settings need ``note``; ``when`` says whether they lack it."""
excludes = partial(_judged, Kind.EXCLUDES)
"""The rule that the settings exclude ``note``, or each other where ``note`` is empty."""
