"""Prints docs/settings.md: every flag of `halowire train` with its default, its help text and its rules.

python tools/settings_table.py > docs/settings.md
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import re
import textwrap
from collections.abc import Iterator
from typing import Any, Literal, get_args, get_origin, get_type_hints

from halowire.cli.train import Arguments
from halowire.training import RULES, Config, Kind, ModelName, Rule, TaskConfig, dashed

HEAD = """\
<!-- Made by `python tools/settings_table.py > docs/settings.md`; do not edit. -->
# Settings

Every setting is a flag of `halowire train` and `halowire compare`, and under its dotted name (`rate.bits`,
`rate.backward_bits`) a key of `settings` in `halowire.train`, `compare`, `fit` and `distribute`. A
[recipe](recipes.md) fills them, what you give overrides it, and `config.json` of the run records the result.

The last column says which values a setting takes, what it needs, what it does not go with, and where it has no effect.
What breaks such a rule is refused before any work is done, with the reason and a way out
([troubleshooting](troubleshooting.md)); only `compare` leaves out, with a warning, what has no effect on one of its
recipes. *A model of one's own* is one for `halowire.fit` or `halowire.distribute`, *a distributed model* one for
`halowire.distribute`; *pairs* are those of `halowire.shard_links`:
"""
TABLE = "| flag | default | what it does | rules |\n| --- | --- | --- | --- |"
FLAG = re.compile(r"--([a-z][a-z.-]*[a-z])( [a-z0-9-]+)?")
WORDS = {Kind.RANGE: "must", Kind.NEEDS: "needs", Kind.EXCLUDES: "not with", Kind.IDLE: "no effect"}


def page() -> str:
    """The whole page."""
    single = {name: value for name, value in vars(Config()).items() if not dataclasses.is_dataclass(value)}
    sections = [HEAD, *_callers(), "", _section("The run", Config, "", single)]
    for name, value in vars(Config()).items():
        if dataclasses.is_dataclass(value):
            title = (inspect.getdoc(value) or "").rstrip(".")
            sections.append(_section(title, type(value), f"{name}.", vars(value)))
    flags = {f.name: f.default for f in dataclasses.fields(Arguments) if f.name not in ("graph", "config")}
    sections.append(_section("Flags of `halowire train` alone", Arguments, "", flags))
    return "\n".join(sections)


def _callers() -> Iterator[str]:
    """A line for every rule about settings of many groups: those that a caller has no use for."""
    everything = list(Config().flat())
    for rule in RULES:
        if _is_broad(rule):
            names = {setting.name for setting in rule.settings}
            rest = _by_group([name for name in everything if name not in names])
            own = _by_group([name for name in everything if name in names])
            which = f"all settings but {', '.join(rest)}" if len(rest) < len(own) else ", ".join(own)
            yield f"- no effect {rule.note}: {which}."


def _by_group(names: list[str]) -> list[str]:
    """``rate.*`` for every group, without which of its settings, and the names of settings in none."""
    found = []
    for group in dict.fromkeys(name.partition(".")[0] for name in names):
        whole = [name for name in Config().flat() if name.partition(".")[0] == group]
        own, others = [name for name in whole if name in names], [name for name in whole if name not in names]
        if whole == [group] or len(own) < len(others):
            found += [f"`{name}`" for name in own]
        else:
            found.append(f"`{group}.*`" + (f" but {', '.join(f'`{name}`' for name in others)}" if others else ""))
    return found


def _is_broad(rule: Rule) -> bool:
    return rule.kind is Kind.IDLE and len({setting.name.partition(".")[0] for setting in rule.settings}) > 2


def _section(title: str, kind: type, prefix: str, values: dict[str, Any]) -> str:
    """A heading, what holds for most of the group, and a row for every setting."""
    names = [prefix + name for name in values] if kind is not Arguments else []
    idle = [rule for rule in RULES if rule.kind is Kind.IDLE and not _is_broad(rule)]
    wide = [rule for rule in idle if len(rule.settings) > 10 and _spoken_of(rule, names)]
    lines = [f"## {title}", ""]
    for rule in wide:
        others = [f"`--{dashed(name)}`" for name in names if name not in _spoken_of(rule, names)]
        lines += [f"All but {', '.join(others)} have {_note(rule, names[0])}.", ""]
    lines.append(TABLE)
    helps, hints = _helps(kind), get_type_hints(kind)
    narrow = [rule for rule in RULES if not _is_broad(rule) and rule not in wide and kind is not Arguments]
    for name, value in values.items():
        rules = [*_choices(hints[name]), *_rules_of(prefix + name, narrow)]
        cells = (f"`{_flag(prefix + name, value)}`", _default(value), _marked(helps[name]), "; ".join(rules))
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def _spoken_of(rule: Rule, names: list[str]) -> set[str]:
    return {setting.name for setting in rule.settings} & set(names)


def _rules_of(name: str, rules: list[Rule]) -> Iterator[str]:
    """What the rules say of one setting: first its range, last where it has no effect."""
    order = list(Kind)
    for rule in sorted(rules, key=lambda rule: order.index(rule.kind)):
        values = [setting.value for setting in rule.settings if setting.name == name]
        if values:
            which = " or ".join(f"`{value}`" for value in values if value)
            yield (f"{which}: " if which else "") + _note(rule, name)


def _note(rule: Rule, name: str) -> str:
    """A rule in a few words, told of the setting ``name``; where it names no other thing, the other settings."""
    others = " or ".join(setting.flag for setting in rule.settings if setting.name != name)
    note = re.sub(r"\{.*?\} ?", "", rule.note) or others
    return f"{WORDS[rule.kind]} {_marked(note)}"


def _helps(kind: type) -> dict[str, str]:
    """The help text below every field of a dataclass, on one line."""
    body = ast.parse(textwrap.dedent(inspect.getsource(kind))).body[0]
    assert isinstance(body, ast.ClassDef)
    found = {}
    for field, text in zip(body.body, body.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr):
            assert isinstance(field.target, ast.Name)
            found[field.target.id] = " ".join(ast.literal_eval(text.value).split())
    return found


def _choices(hint: Any) -> Iterator[str]:
    if values := _values(hint):
        yield f"one of {', '.join(f'`{value}`' for value in values if value != '')}"


def _values(hint: Any) -> tuple[Any, ...]:
    """The values that a setting can have, where they are few."""
    if hint is ModelName:
        return ModelName.known()
    return get_args(hint) if get_origin(hint) is Literal else ()


def _flag(name: str, default: Any) -> str:
    """The flag that changes a setting; what is on by default has one that turns it off."""
    group, dot, last = dashed(name).rpartition(".")
    return f"--{group}{dot}{'no-' if default is True else ''}{last}"


def _default(value: Any) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return "" if value in ("", None) else f"`{value}`"


def _marked(text: str) -> str:
    """``text`` with its flags as code, together with their values."""
    parts = re.split(r"(`[^`]*`)", text.replace("|", "\\|"))
    return "".join(part if part.startswith("`") else FLAG.sub(_code, part) for part in parts)


def _code(found: re.Match[str]) -> str:
    group, _, name = found[1].replace("-", "_").rpartition(".")
    kind = type(getattr(Config(), group, None)) if group else TaskConfig
    hint = get_type_hints(kind).get(name if group else "kind")
    known = found[2] and found[2].strip() in map(str, _values(hint))
    return f"`--{found[1]}{found[2]}`" if known else f"`--{found[1]}`{found[2] or ''}"


if __name__ == "__main__":
    print(page(), end="")
