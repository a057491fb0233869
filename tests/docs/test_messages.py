"""Every error message has an entry in the troubleshooting page, and the page has no other ones."""

from __future__ import annotations

import ast

import pytest

from tests.docs.messages import PAGE, code, entries, missing, template, templates


def test_every_message_is_explained():
    lacking = [f"{folder}/: - {code(text)}\\" for folder, texts in missing().items() for text in texts]
    assert not lacking, "explain these in docs/troubleshooting.md:\n" + "\n".join(lacking)


def test_no_entry_is_out_of_date():
    known = templates()
    for folder, items in entries(PAGE.read_text()).items():
        for texts, _ in items:
            for text in texts:
                assert text in known[folder], f"no error of {folder}/ says: {text}"


def test_every_entry_has_messages_and_a_cause():
    found = entries(PAGE.read_text())
    assert set(found) == set(templates())
    for items in found.values():
        for texts, cause in items:
            assert texts and cause.endswith((".", "`")) and len(cause) > 15, (texts, cause)


def test_no_message_is_explained_twice_in_a_folder():
    for folder, items in entries(PAGE.read_text()).items():
        texts = [text for found, _ in items for text in found]
        assert len(texts) == len(set(texts)), folder


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
