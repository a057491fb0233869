"""The whole model and optimiser from the stages that train their parts, for checkpoints."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from halowire.wire import Transport

STEP, MOMENTS = "step", ("exp_avg", "exp_avg_sq")


class Whole:
    """Names of all parameters of a model that are trained, and of those that this worker trains."""

    def __init__(self, model: nn.Module, own: dict[str, nn.Parameter], peers: Transport, transport: Transport) -> None:
        self._shapes = {name: value.shape for name, value in model.named_parameters() if value.requires_grad}
        self._names = list(self._shapes)
        self._own = list(own)
        self._everywhere = peers.size == transport.size
        self._speaks = peers.rank == 0
        self._transport = transport

    @property
    def own_places(self) -> list[int]:
        """Places of this worker's parameters among all."""
        return [self._names.index(name) for name in self._own]

    @torch.no_grad()
    def complete(self, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        """``tensors`` of all parameters: this worker's from here, the others' from the stages that train them.

        All workers call this together. The first worker of every stage gives its tensors, the others zeros, and all
        are added up. What nobody trains (buffers, frozen parameters) is the same everywhere and stays as it is.
        """
        if self._everywhere:
            return tensors
        flat = torch.zeros(sum(shape.numel() for shape in self._shapes.values()))
        pieces = torch.split(flat, [shape.numel() for shape in self._shapes.values()])
        places = dict(zip(self._names, pieces, strict=True))
        for name in self._own if self._speaks else ():
            if name in tensors:
                places[name].copy_(tensors[name].detach().reshape(-1))
        self._transport.all_reduce(flat, "gathering of the weights", account=None)
        return tensors | {name: piece.view(self._shapes[name]).clone() for name, piece in places.items()}

    def optimiser(self, optimiser: torch.optim.Optimizer) -> dict[int, dict[str, Tensor]]:
        """The state of Adam for all parameters, by their places."""
        own = optimiser.state_dict()["state"]
        if self._everywhere:
            return dict(own)
        moments = {}
        for key in MOMENTS:
            moments[key] = self.complete({name: own[place][key] for place, name in enumerate(self._own) if own})
        if not own:  # no step was taken yet, or this stage has no parameters; rank 0, which writes, has some
            return {}
        return {
            place: {STEP: own[0][STEP].clone(), **{key: moments[key][name] for key in MOMENTS}}
            for place, name in enumerate(self._names)
        }
