"""Markup: everything is escaped that is not markup already."""

from __future__ import annotations

from halowire.report import join, tag


def test_markup_escapes_all_but_markup() -> None:
    assert (
        tag("a", "<", tag("b", "&"), title='"<', class_="x", hidden=None)
        == '<a title="&quot;&lt;" class="x">&lt;<b>&amp;</b></a>'
    )
    assert join("<", None, 3) == "&lt;3"
