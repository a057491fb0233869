"""Deep models: GCNII and ResGCN+, which keep their signal through many layers."""

from __future__ import annotations

import math

import torch
from torch import nn

from halowire.errors import InputError
from halowire.layers.propagation import SYMMETRIC


class Linear(nn.Module):
    """``x W^T + b``; Glorot weights, zero bias."""

    def __init__(self, in_channels: int, out_channels: int, generator: torch.Generator, bias: bool = True) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(out_channels, in_channels))
        self.bias = nn.Parameter(torch.zeros(out_channels)) if bias else None
        nn.init.xavier_uniform_(self.weight, generator=generator)


class DeepBlock(nn.Module):
    """The parameters of one block: its map, and the LayerNorm on its input where there is one."""

    def __init__(self, channels: int, norm: bool, generator: torch.Generator, bias: bool) -> None:
        super().__init__()
        self.conv = Linear(channels, channels, generator, bias)
        self.gamma = nn.Parameter(torch.ones(channels)) if norm else None
        self.beta = nn.Parameter(torch.zeros(channels)) if norm else None


class DeepModel(nn.Module):
    """``input`` (features to hidden rows), ``layers`` blocks of equal width, ``output`` (hidden rows to logits).

    The activation of a block, ``f(u) = dropout(relu(layer_norm(u)))`` with the norm optional, stands before its
    aggregation; a last one stands before ``output``. Rows between blocks are therefore neither rectified nor dropped.
    """

    normalisation = SYMMETRIC
    initial = False
    """whether every block reads the initial rows too"""
    takes_residual = False
    takes_heads = False
    can_split = True
    aggregates_input = False
    default_norm = "layer"
    bias = True

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        num_layers: int = 3,
        dropout: float = 0.5,
        norm: str = "auto",
        seed: int = 0,
    ) -> None:
        super().__init__()
        if num_layers < 1 or hidden_channels < 1:
            raise InputError(
                f"a model of {num_layers} layers, {hidden_channels} wide, cannot be; both must be at least 1"
            )
        if not 0 <= dropout < 1:
            raise InputError(f"dropout is {dropout}; it must lie in 0 <= p < 1")
        self.dropout = dropout
        normed = (self.default_norm if norm == "auto" else norm) == "layer"
        generator = torch.Generator().manual_seed(seed)
        self.input = Linear(in_channels, hidden_channels, generator)
        self.blocks = nn.ModuleList(DeepBlock(hidden_channels, normed, generator, self.bias) for _ in range(num_layers))
        self.output = Linear(hidden_channels, out_channels, generator)
        self.gamma = nn.Parameter(torch.ones(hidden_channels)) if normed else None
        self.beta = nn.Parameter(torch.zeros(hidden_channels)) if normed else None


class GCNII(DeepModel):
    r"""GCNII (Chen et al. 2020), with ``u_0 = x W_in^T + b`` and ``h_0 = relu(u_0)``, for l = 1, 2, ...:

    ``u_l = ((1 - theta_l) I + theta_l W_l) s_l``,  ``s_l = (1 - alpha) A f(u_(l-1)) + alpha h_0``,
    ``theta_l = ln(lambda / l + 1)``; logits are ``f(u_L) W_out^T + b``. No LayerNorm unless asked for.
    """

    initial = True
    default_norm = "none"
    bias = False
    alpha = 0.1
    decay = 0.5

    @classmethod
    def theta(cls, layer: int) -> float:
        """``ln(lambda / l + 1)`` of block ``layer``, counted from 0."""
        return math.log(cls.decay / (layer + 1) + 1)


class ResGCN(DeepModel):
    r"""ResGCN+ (Li et al. 2020): ``u_l = u_(l-1) + A f(u_(l-1)) W_l^T + b_l`` with ``u_0 = x W_in^T + b``; logits are
    ``f(u_L) W_out^T + b``."""


DEEP_MODELS: dict[str, type[DeepModel]] = {"gcnii": GCNII, "resgcn": ResGCN}
