"""The weights that all workers share must stay the same on all of them: a digest of their bits travels with the sums.

Gradients are summed over the workers, so equal weights stay equal, unless a script does something by a number or a draw
that one worker alone knows: it draws them anew, or takes a learning rate or the best state by this worker's accuracy.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from halowire.errors import InputError
from halowire.events import SETUP
from halowire.wire import Transport

WORD = 8
"""The bytes of a digest."""
ROUNDING = 1e-4
"""The largest relative difference between the weights of two machines that compute with other instructions."""


def digest(weights: Sequence[Tensor], device: torch.device, start: int = 0) -> Tensor:
    """``start`` and the words that the bits of ``weights`` on ``device`` make, as bytes of the sum, float32 ``[8]``."""
    total = torch.full((1,), start, dtype=torch.int64, device=device)
    by_type: dict[torch.dtype, list[Tensor]] = {}
    for weight in weights:
        if weight.device == device and weight.layout == torch.strided:
            by_type.setdefault(weight.dtype, []).append(weight.detach().reshape(-1))
    for pieces in by_type.values():
        bits = torch.cat(pieces).view(torch.uint8)
        whole = bits.numel() // WORD * WORD
        total += bits[:whole].view(torch.int64).sum() + bits[whole:].sum()
    return total.view(torch.uint8).float()


def all_alike(size: int, totals: Sequence[float], squares: Sequence[float]) -> bool:
    """Whether all ``size`` workers have the same numbers, of which these are the sums and the sums of the squares."""
    return all(size * square == total * total for total, square in zip(totals, squares, strict=True))


def refuse_other_weights(weights: Sequence[Tensor], transport: Transport) -> None:
    """Refuse weights that differ by more than rounding from those of rank 0; all workers call this together."""
    apart = torch.zeros(len(weights))
    for place, weight in enumerate(weights):
        here = weight.detach()
        first = transport.broadcast(here.clone(), "comparison of the weights", SETUP)
        if here.numel() and here.is_floating_point():
            most = max(ROUNDING, 8 * torch.finfo(here.dtype).eps) * first.abs().max()
            apart[place] = ((here - first).abs() > most).any()
    transport.all_reduce(apart, "comparison of the weights", SETUP)
    differing = [str(list(weight.shape)) for weight, found in zip(weights, apart.tolist(), strict=True) if found]
    if differing:
        raise InputError(
            f"{len(differing)} of the {len(weights)} weights that all workers share (shape {', '.join(differing[:3])}) "
            "are no longer the same on all of them, since something was done by a number or a draw that only this "
            "worker knows; call load_state_dict on all workers, torch.manual_seed(run) right before "
            "model.reset_parameters(), take learning rates, "
            "best states and the end of training from data.mean(pred[mask] == data.y[mask]), which is the same on all "
            "workers, and clip with halowire.clip_grad_norm_(model, max_norm)"
        )
