"""Parts whose workers have the same rows in the same order are told by a number, which all workers know.

Rows of a part with a mask, labels or pairs of another would silently be those of other nodes.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping

import torch
from torch import Tensor

from halowire.errors import InputError
from halowire.events import SETUP
from halowire.wire import Transport


def cut_number(rows: Mapping[str, Tensor], transport: Transport) -> int:
    """A number of the ``rows`` of all workers, by node type; all workers ask together."""
    if transport.size == 1:
        return 0
    found = zlib.crc32(f"{transport.rank} {list(rows)}".encode())
    for numbers in rows.values():
        values: object = numbers.cpu().long().contiguous().view(torch.uint8).numpy()
        found = zlib.crc32(values, found)  # type: ignore[arg-type]
    return int(transport.all_reduce(torch.tensor([found]), "comparison of the parts", SETUP))


def other_part(what: str) -> InputError:
    """The refusal of ``what`` of a part with other rows."""
    return InputError(
        f"rows of one part of a graph are used with {what} of another, whose workers have other nodes; call the model "
        "on the part that the labels, masks or pairs are of, as in model(test_data.x, test_data.edge_index), or cut "
        "both graphs alike: test_data = halowire.shard(graph, like=train_data)"
    )
