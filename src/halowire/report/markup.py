"""HTML and SVG as strings in which everything that is not markup already is escaped: elements, figures, pages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from halowire.report.style import style_sheet


class Html(str):
    """Text that is markup already; every other string is escaped where it enters an element."""

    __slots__ = ()


def join(*children: object) -> Html:
    """The children one after another: markup is kept, everything else is escaped, None is left out."""
    return Html("".join(_escaped(child) for child in children if child is not None))


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
    """A table in a box of its own that scrolls, so that the page never does.

    The first column names the rows; a cell given as (words, class) carries that class.
    """
    header = tag("thead", tag("tr", *(tag("th", cell, scope="col") for cell in head))) if head else None
    body = tag("tbody", *(tag("tr", tag("th", row[0], scope="row"), *map(_cell, row[1:])) for row in rows))
    inner = tag("table", header, body, class_=class_, aria_label=caption)
    return tag("div", inner, class_="scroll", tabindex="0", role="region", aria_label=caption)


def fold(summary: str, *children: object) -> Html:
    """The children, folded away under the line ``summary``, which opens them."""
    return tag("details", tag("summary", summary), *children)


def data_table(title: str, head: Sequence[object], rows: Sequence[Sequence[object]], summary: str = "Data") -> Html:
    """The numbers behind the figure ``title``, folded away under the line ``summary``."""
    return fold(summary, table(head, rows, f"{title}: data"))


def figure(title: str, says: str, drawing: object, data: Html, wide: bool = False) -> Html:
    """A figure: its title, what to see in it, the drawing, and its :func:`data_table`."""
    caption = tag("figcaption", tag("h3", title), tag("p", says))
    return tag("figure", caption, drawing, data, class_="wide" if wide else None)


def notes_list(notes: list[str]) -> Html | None:
    """What a reader must know before trusting a page, as a list that stands out; None where there is nothing."""
    return tag("ul", *(tag("li", note) for note in notes), class_="notes") if notes else None


def page(title: str, content: Iterable[object], source: str) -> str:
    """A whole page as text: one file that needs nothing else; ``source`` says from which folders it was made."""
    head = tag(
        "head",
        Html('<meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">'),
        Html('<meta name="color-scheme" content="light dark">'),
        tag("title", f"{title} – halowire"),
        tag("style", Html(style_sheet())),
    )
    footer = tag("footer", f"Made by halowire from {source}. KiB and MiB are 1024 and 1024² bytes.")
    body = tag("body", tag("main", *content), footer)
    return f"<!doctype html>\n{tag('html', head, body, lang='en')}\n"


def _escaped(child: object) -> str:
    return child if isinstance(child, Html) else escape(str(child), quote=False)


def _cell(value: object) -> Html:
    return tag("td", value[0], class_=value[1] or None) if isinstance(value, tuple) else tag("td", value)
