"""The page of settings is what the table of rules and the help texts say."""

from __future__ import annotations

import runpy

from tests.support.commands import ROOT


def test_the_page_is_up_to_date():
    made = runpy.run_path(str(ROOT / "tools" / "settings_table.py"))["page"]()
    assert (ROOT / "docs" / "settings.md").read_text() == made, "python tools/settings_table.py > docs/settings.md"
