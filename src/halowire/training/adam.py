"""Adam, whose steps are torch's own, bit for bit.

The class :class:`torch.optim.Adam` loads torch's compiler when it is first made: a second of work and 70 MB in every
worker, for nothing that a training run needs. The function beneath it, which is called here, does not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn
from torch.optim.adam import adam

STEP, MOMENTS = "step", ("exp_avg", "exp_avg_sq")
BETAS, EPS = (0.9, 0.999), 1e-8
"""The defaults of torch."""


class Adam:
    """Steps ``parameters`` by the running means of their gradients and of the squares of these.

    With ``g`` the gradient (plus ``weight_decay`` times the weight) and the betas ``a`` and ``b``, step ``t`` does::

        m <- a m + (1 - a) g,    v <- b v + (1 - b) g^2
        w <- w - lr * (m / (1 - a^t)) / (sqrt(v / (1 - b^t)) + eps)

    Attributes:
        parameters: what is stepped; may be empty, for a stage without weights.
        lr: the learning rate of the next step.
        states: by the places of the parameters, ``step`` (a number on the CPU), ``exp_avg`` and ``exp_avg_sq``; a
            parameter has a state from its first step on.
    """

    def __init__(self, parameters: Sequence[nn.Parameter], lr: float, weight_decay: float = 0.0) -> None:
        self.parameters = list(parameters)
        self.lr = lr
        self.states: dict[int, dict[str, Tensor]] = {}
        self._weight_decay = weight_decay

    @torch.no_grad()
    def step(self) -> None:
        """Step all parameters that have a gradient."""
        places = [place for place, parameter in enumerate(self.parameters) if parameter.grad is not None]
        for place in places:
            if place not in self.states:
                self.states[place] = _start(self.parameters[place])
        states = [self.states[place] for place in places]
        averages, squares = ([state[key] for state in states] for key in MOMENTS)
        if places:
            adam(
                [self.parameters[place] for place in places], _gradients(self.parameters), averages, squares, [],
                [state[STEP] for state in states], foreach=True, amsgrad=False, beta1=BETAS[0], beta2=BETAS[1],
                lr=self.lr, weight_decay=self._weight_decay, eps=EPS, maximize=False,
            )  # fmt: skip

    def load(self, states: Mapping[int, Mapping[str, Tensor]]) -> None:
        """Go on with copies of ``states``, on the devices of the parameters."""
        self.states = {
            place: {
                key: value.detach().clone() if key == STEP else value.detach().to(self.parameters[place], copy=True)
                for key, value in state.items()
            }
            for place, state in states.items()
        }


def _start(parameter: nn.Parameter) -> dict[str, Tensor]:
    return {STEP: torch.tensor(0.0), **{key: torch.zeros_like(parameter) for key in MOMENTS}}


def _gradients(parameters: list[nn.Parameter]) -> list[Tensor]:
    return [parameter.grad for parameter in parameters if parameter.grad is not None]
