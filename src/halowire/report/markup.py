"""HTML and SVG elements as strings in which everything that is not markup already is escaped."""

from __future__ import annotations

from html import escape


class Html(str):
    """Text that is markup already; every other string is escaped where it enters an element."""

    __slots__ = ()


def text(child: object) -> Html:
    """The child as markup: escaped, unless it is markup."""
    return child if isinstance(child, Html) else Html(escape(str(child), quote=False))


def join(*children: object) -> Html:
    """The children one after another; None is left out."""
    return Html("".join(text(child) for child in children if child is not None))


def tag(name: str, *children: object, **attributes: object) -> Html:
    """<name attributes>children</name>.

    ``class_`` stands for ``class``, an underscore for a hyphen; attributes that are None or False are left out.
    """
    written = "".join(
        f" {key.rstrip('_').replace('_', '-')}" + ("" if value is True else f'="{escape(str(value))}"')
        for key, value in attributes.items()
        if value is not None and value is not False
    )
    return Html(f"<{name}{written}>{join(*children)}</{name}>")
