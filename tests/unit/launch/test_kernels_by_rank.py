"""Which workers have to do without kernels of their own, and why."""

from __future__ import annotations

import pytest

from halowire.launch import twins_by_rank


@pytest.mark.parametrize(
    ("reasons", "said"),
    [
        (["", ""], {}),
        (["old", "old"], {"old": ""}),
        (["", "old", "", "old"], {"old": "on ranks 1, 3"}),
        (["none", "old"], {"none": "on rank 0", "old": "on rank 1"}),
    ],
)
def test_every_reason_is_said_once_with_its_ranks(reasons, said):
    assert twins_by_rank(reasons) == said
