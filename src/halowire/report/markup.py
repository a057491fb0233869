"""HTML and SVG are built as strings: elements, tables, figures, pages; text that is not markup is escaped."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from html import escape
from importlib import resources
from operator import getitem
from typing import Any

from halowire.report.units import Json, mean_of


class Html(str):
    """Text that is already markup; every other string is escaped when it is put into an element."""

    __slots__ = ()


def join(*children: object) -> Html:
    """The children one after another: markup is kept, everything else is escaped, None is left out."""
    found = (child for child in children if child is not None)
    return Html("".join(one if isinstance(one, Html) else escape(str(one), quote=False) for one in found))


def tag(name: str, *children: object, **attributes: object) -> Html:
    """An element: ``<name attributes>children</name>``.

    ``class_`` stands for ``class``, an underscore for a hyphen; attributes that are None or False are left out.
    """
    written = "".join(
        f" {key.rstrip('_').replace('_', '-')}" + ("" if value is True else f'="{escape(str(value))}"')
        for key, value in attributes.items()
        if value is not None and value is not False
    )
    return Html(f"<{name}{written}>{join(*children)}</{name}>")


def table(head: Sequence[object], rows: Sequence[Sequence[object]], caption: str, class_: str | None = None) -> Html:
    """A table in a scrolling box of its own, so that the page never scrolls sideways.

    The first column names the rows; a cell given as (words, class) has that CSS class.
    """
    header = tag("thead", tag("tr", *(tag("th", cell, scope="col") for cell in head))) if head else None
    body = tag("tbody", *(tag("tr", tag("th", row[0], scope="row"), *map(_cell, row[1:])) for row in rows))
    inner = tag("table", header, body, class_=class_, aria_label=caption)
    return tag("div", inner, class_="scroll", tabindex="0", role="region", aria_label=caption)


@dataclass(frozen=True)
class Column:
    """A column of a table that compares: its head, the ``keys`` of a row's entry, and ``words``, which spell the entry.

    ``best`` picks the best number: ``min``, ``max``, or None where no number is better than another.
    """

    head: str
    keys: tuple[str, ...]
    words: Callable[[Any], str]
    best: Callable[[list[float]], float] | None = None

    def entry(self, numbers: Json) -> Any:
        """The number of a row, or its mean and error; None where the row has none."""
        return reduce(getitem, self.keys, numbers) if self.keys[0] in numbers else None

    def cell(self, numbers: Json) -> str:
        """The words of a row's cell; empty where the row has no entry."""
        return self.words(self.entry(numbers)) if self.keys[0] in numbers else ""

    def best_cell(self, rows: list[Json]) -> str | None:
        """The words of the best number; None where no number is better than another or all of them read the same."""
        known = [(value, self.cell(row)) for row in rows if math.isfinite(value := mean_of(self.entry(row)))]
        if self.best is None or len({words for _, words in known}) < 2:
            return None
        best = self.best([value for value, _ in known])
        return next(words for value, words in known if value == best)


@dataclass(frozen=True)
class Compared:
    """A row of a table that compares: the name of a recipe or run, its colour on the page, and its numbers."""

    name: str
    slot: int
    numbers: Json


def best_table(head: str, rows: Sequence[Compared], columns: list[Column], caption: str) -> Html:
    """A table with a row for every recipe or run; the best of a column is bold where better has a meaning."""
    tops = [column.best_cell([row.numbers for row in rows]) for column in columns]
    cells: list[list[object]] = []
    for row in rows:
        words = [column.cell(row.numbers) for column in columns]
        marked = [(cell, "best" if cell == top else "") for cell, top in zip(words, tops, strict=True)]
        cells.append([join(tag("i", class_=f"swatch run s{row.slot}"), row.name), *marked])
    return table([head, *(column.head for column in columns)], cells, caption, class_="compare")


def fold(summary: str, *children: object) -> Html:
    """The children, folded away under the line ``summary``; a click on the line shows them."""
    return tag("details", tag("summary", summary), *children)


def figure(
    title: str, says: str, drawing: object, head: Sequence[object], rows: Sequence[Sequence[object]],
    wide: bool = False, data: str = "Data",
) -> Html:  # fmt: skip
    """A figure: its title, what to see in it, the drawing, and its numbers as a table, folded away under ``data``."""
    caption = tag("figcaption", tag("h3", title), tag("p", says))
    numbers = fold(data, table(head, rows, f"{title}: data"))
    return tag("figure", caption, drawing, numbers, class_="wide" if wide else None)


def notes_list(notes: list[str]) -> Html | None:
    """What a reader must know before trusting a page, as a list that stands out; None if there are no notes."""
    return tag("ul", *(tag("li", note) for note in notes), class_="notes") if notes else None


def brand(words: str) -> Html:
    """The line at the very top: the program's name, and what the page shows."""
    return tag("p", tag("b", "halowire"), " ", words, class_="brand")


def page(title: str, content: Iterable[object], source: str) -> str:
    """A whole page as text, which needs no other file; ``source`` names the folders from which it was made."""
    head = tag(
        "head",
        Html('<meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">'),
        Html('<meta name="color-scheme" content="light dark">'),
        tag("title", f"{title} – halowire"),
        tag("style", Html(resources.files("halowire.report").joinpath("style.css").read_text(encoding="utf-8"))),
    )
    footer = tag("footer", f"Made by halowire from {source}. KiB and MiB are 1024 and 1024² bytes.")
    body = tag("body", tag("main", *content), footer)
    return f"<!doctype html>\n{tag('html', head, body, lang='en')}\n"


def _cell(value: object) -> Html:
    return tag("td", value[0], class_=value[1] or None) if isinstance(value, tuple) else tag("td", value)
