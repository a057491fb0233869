"""Every error message has an entry in the troubleshooting page, and the page has no other ones."""

from __future__ import annotations

import ast

import pytest

from tests.support.messages import PAGE, code, entries, missing, template, templates


def test_every_message_is_explained():
    lacking = [f"- {code(text)}\\" for text in missing()]
    assert not lacking, "explain these in docs/troubleshooting.md:\n" + "\n".join(lacking)


def test_no_entry_is_out_of_date():
    known = templates()
    for texts, _ in entries(PAGE.read_text()):
        for text in texts:
            assert text in known, f"no error says: {text}"


def test_every_entry_has_messages_and_a_cause():
    found = entries(PAGE.read_text())
    assert len(found) > 100
    for texts, cause in found:
        assert texts and cause.endswith((".", "`")) and len(cause) > 15, (texts, cause)


def test_no_message_is_explained_twice():
    texts = [text for found, _ in entries(PAGE.read_text()) for text in found]
    assert not [text for text in texts if texts.count(text) > 1]


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("'a'", "a"),
        ("f'{x} of {y!r}'", "… of …"),
        ("f'{x}' + 'b' + c", "…b…"),
        ("words(1)", "…"),
    ],
)
def test_templates(source, text):
    assert template(ast.parse(source, mode="eval").body) == text
