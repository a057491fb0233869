"""The metrics by name: chosen by the labels, refused where they have no meaning."""

from __future__ import annotations

import pytest

from halowire.errors import InputError
from halowire.events import choose_metric


def test_metrics_without_meaning_are_refused():
    assert choose_metric("auto", False, 5) == "accuracy"
    assert choose_metric("auto", True, 5) == "micro-f1"
    with pytest.raises(InputError, match="one label per node"):
        choose_metric("accuracy", True, 5)
    with pytest.raises(InputError, match="two classes"):
        choose_metric("roc-auc", False, 5)
