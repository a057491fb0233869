"""Numbers that arrived from other workers are checked before anything is looked up with them."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from halowire.errors import MessageError
from halowire.kernels import first_outside
from halowire.wire.transport import Sizes, Transport

REMEDY = "give all workers shards of the same partition and the same version of halowire, and start again"


def refuse_outside(
    values: Tensor,
    counts: Sizes,
    high: int | Sequence[int],
    what: str,
    transport: Transport,
    where: str,
    low: int = 0,
) -> None:
    """Raise unless all ``values`` ``[n]``, ``counts[p]`` of them from peer ``p``, are in ``low .. high - 1``.

    ``values`` are whole numbers on the host; with several ``high``, ``high[p]`` is for those of peer ``p``.
    """
    limits = [high] * len(counts) if isinstance(high, int) else high
    wide = values.long() if values.dtype == torch.int16 else values
    for peer, (part, limit) in enumerate(zip(torch.split(wide, list(counts)), limits, strict=True)):
        if (place := first_outside(part, low, limit)) is not None:
            raise MessageError(
                f"at {where}, {what} from rank {transport.members[peer]} is {int(part[place])}, expected {low} to "
                f"{limit - 1}; {REMEDY}"
            )


def refuse_wrong(wrong: Tensor, counts: Sizes, what: str, transport: Transport, where: str) -> None:
    """Raise if an entry of ``wrong``, bool ``[n]``, ``counts[p]`` of them from peer ``p``, is set; ``what``: why."""
    for peer, part in enumerate(torch.split(wrong, list(counts))):
        if bool(part.any()):
            raise MessageError(f"at {where}, {what} from rank {transport.members[peer]}; {REMEDY}")
