"""The refusal of what sums, normalises or multiplies over the rows of one worker, with what to write instead."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from halowire.errors import InputError
from halowire.pyg.row_call import Call
from halowire.pyg.row_mixing import COUNTING
from halowire.pyg.row_owner import Owner
from halowire.pyg.row_wise import is_pointwise

COUNT = "count the rows of all workers, data.gather(data.y).bincount(), or count before halowire.shard"


def mixed_rows(call: Call, owner: Owner, counted: str) -> InputError:
    """The refusal of ``call`` with rows of ``owner``; ``counted`` is the function whose result meets these rows."""
    return InputError(
        f"{_what(call, counted)} over rows of this worker, which has {_all(owner)}, outside of a "
        f"distributed model, so that the rows of other workers are left out; {_instead(call, counted)}"
    )


def refuse_mixed(terms: Sequence[Any], penalty: Any) -> None:
    """Refuse values of means, or a ``penalty`` on weights, that depend on several rows of this worker at once."""
    found = next((values for values in terms if getattr(values, "counted", "") and values.dim()), None)
    if found is not None:
        raise InputError(
            f"data.mean is given what {found.counted} made of several rows of this worker at once, which has "
            f"{_all(found.owner)}, or of their order; give it values that depend on one row each (if {found.counted} "
            "does so, call it in the model's forward, which is checked)"
        )
    if getattr(penalty, "counted", ""):
        raise InputError(
            f"the penalty was made by {penalty.counted} over rows of this worker, and is another one on each; a "
            "penalty is a number of the weights alone: add values of rows to those that data.mean is given"
        )


def warn_once(owner: Owner) -> None:
    """Say, once, that a number that is read is this worker's."""
    if owner.passing.warned or owner.passing.inside:
        return
    owner.passing.warned = True
    warnings.warn(
        "a number of this worker's rows alone is read (int, float, item, a format); other workers have another one. "
        "The accuracy of the whole graph is data.mean(pred[mask] == data.y[mask]), a loss data.cross_entropy(out, "
        "data.y, mask); what decides when to stop, or on the learning rate, must be the same on all "
        "workers. This is said once",
        stacklevel=4,
    )


def _what(call: Call, counted: str) -> str:
    if counted:
        return f"{call.name} uses rows together with what {counted} found"
    if call.base == "one_hot":
        return "one_hot without num_classes finds the largest label"
    if is_pointwise(call.base):
        return f"{call.name} of {_shapes(call)} meets every row with others"
    return f"{call.name} sums, normalises, reorders or multiplies"


def _instead(call: Call, counted: str) -> str:
    if call.base == "one_hot":
        return "say F.one_hot(y, data.num_classes); data.mean takes one value per row"
    if counted in COUNTING or call.base in COUNTING:
        return f"{COUNT}; data.mean takes one value per row"
    alike = "" if counted or not is_pointwise(call.base) else (
        "give both the same shape, such as out.view(-1) or y.view(-1, 1), and "
    )  # fmt: skip
    return (
        f"{alike}give data.mean one value per row, make a norm or a product over edges part of the model, prepare "
        "features before halowire.shard, or take all rows, without a gradient: data.gather(rows)"
    )


def _shapes(call: Call) -> str:
    return " and ".join(str(list(value.shape)) for value in call.marked)


def _all(owner: Owner) -> str:
    """What the worker has, of how many."""
    if owner.rows is None:
        return f"{owner.owned} of the edges{f' of {owner.kind!r}' if owner.kind else ''}"
    return f"{owner.owned} of the {owner.whole} {owner.kind or 'nodes'}"
