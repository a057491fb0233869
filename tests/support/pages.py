"""Pages of made-up runs as text, checked to be well formed and to ask for nothing from elsewhere."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from pathlib import Path

from halowire.report import write_compare_page, write_report

VOID = {"meta"}


class Balance(HTMLParser):
    """Checks that every element is closed where it was opened."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open.pop() == tag, f"</{tag}> closes nothing"


def runs_page(folders: list[Path], out: Path) -> str:
    """The checked text of a report."""
    return checked(write_report(folders, out))


def comparison_page(folder: Path) -> str:
    """The checked text of a comparison's page."""
    return checked(write_compare_page(folder))


def checked(path: Path) -> str:
    """The page's text: balanced, self-contained, every drawing valid XML, and no NaN or infinity in its words."""
    text = path.read_text(encoding="utf-8")
    balance = Balance()
    balance.feed(text)
    assert not balance.open
    assert not {"script", "link", "img", "iframe", "object"} & set(balance.seen)
    assert not re.search(r"https?:|url\(|@import|src=|href=", text)
    assert not {"nan", "inf"} & set(re.findall(r"[a-z]+", re.sub(r"<style>.*?</style>", "", text.lower(), flags=re.S)))
    for drawing in re.findall(r"<svg .*?</svg>(?=</div>)", text, flags=re.S):
        ET.fromstring(drawing)
    return text


def words_of(text: str, instead: str = "") -> str:
    """The words of a page, with ``instead`` for every tag."""
    return re.sub(r"<[^>]+>", instead, text)


def section(text: str, title: str) -> str:
    """The markup below a section's title, up to the next section; empty where there is no such section."""
    found = re.search(rf"<h2>{title}</h2>(.*?)<h2", text, re.S)
    return found[1] if found else ""
