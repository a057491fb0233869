"""Several bridges side by side: edges of several types, joined into one list, read one tensor of all their sources.

A layer such as ``HGTConv`` puts the rows of all sources into one tensor, one block after another, adds each block's
first row to the sources of its edges, and joins the edges:

    rows      block 0 | block 1 | ...              ``n`` rows on this worker
    sources   owned row ``r`` of block ``b``: first(b) + r;  row ``j`` of all halos, block after block: n + j

A bridge that is shifted to its block numbers its halo behind its own last row, so shifting is adding; joining blocks
moves the halos behind all owned rows. Reading exchanges the halo of every block, through the bridge of that block.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from halowire.errors import InputError
from halowire.pyg.bridge import Bridge
from halowire.pyg.edge_mask import KnownEdges
from halowire.pyg.model_pass import ModelPass
from halowire.wire import sent_over

Renumber = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Stacked:
    """Blocks of rows, each a bridge and the place of its first row in the tensor that holds all blocks."""

    blocks: tuple[tuple[Bridge, int], ...]

    @staticmethod
    def of(bridge: Bridge | Stacked) -> Stacked:
        """A bridge as the only block."""
        return bridge if isinstance(bridge, Stacked) else Stacked(((bridge, 0),))

    def shifted(self, rows: int) -> Stacked:
        """The same blocks, ``rows`` rows further on."""
        if rows < 0:
            raise InputError(f"edge_index is shifted by {rows} rows; blocks of nodes can only follow each other")
        return Stacked(tuple((bridge, first + rows) for bridge, first in self.blocks))

    @staticmethod
    def joined(bridges: Sequence[Bridge | Stacked]) -> tuple[Stacked, list[Renumber]]:
        """The blocks of all ``bridges``, and how the sources of each bridge are numbered among them."""
        given = [Stacked.of(bridge) for bridge in bridges]
        whole = Stacked(tuple(dict.fromkeys(block for stacked in given for block in stacked.blocks)))
        return whole, [whole._numbering(stacked) for stacked in given]

    @property
    def num_owned(self) -> int:
        """The number of rows of this worker, up to the end of the last block."""
        return max(first + bridge.num_owned for bridge, first in self.blocks)

    @property
    def num_halo(self) -> int:
        """The number of rows of all halos."""
        return sum(bridge.num_halo for bridge, _ in self.blocks)

    @property
    def passing(self) -> ModelPass:
        """The pass of the model."""
        return self.blocks[0][0].passing

    @property
    def known(self) -> KnownEdges:
        """What earlier passes found out about such edges."""
        return self.blocks[0][0].known

    def fits(self, extent: int) -> bool:
        """Whether a tensor of ``extent`` rows holds all blocks; rows behind them have no edges."""
        return extent >= self.num_owned

    def extend(self, values: Tensor, dim: int) -> Tensor:
        """``values`` with the halos of all blocks appended along ``dim``, in place of rows behind the last block."""
        pieces = [values.narrow(dim, 0, self.num_owned)]
        for bridge, first in self.blocks:
            held = bridge.extend(values.narrow(dim, first, bridge.num_owned), dim)
            pieces.append(held.narrow(dim, bridge.num_owned, bridge.num_halo))
        return torch.cat(pieces, dim)

    def collect(self, parts: Tensor, dim: int) -> Tensor:
        """Turn partial sums of owned and halo rows into complete sums of owned rows, block by block."""
        total = parts.narrow(dim, 0, self.num_owned).clone()
        start = self.num_owned
        for bridge, first in self.blocks:
            halo = parts.narrow(dim, start, bridge.num_halo)
            start += bridge.num_halo
            none = torch.zeros_like(total.narrow(dim, first, bridge.num_owned))
            arrived = bridge.collect(torch.cat([none, halo], dim), dim)
            places = torch.arange(first, first + bridge.num_owned, device=total.device)
            total = total.index_add(dim, places, arrived)
        return total

    def _numbering(self, inner: Stacked) -> Renumber:
        """From the numbers of ``inner``, whose blocks are among these, to the numbers of these blocks."""
        owned = inner.num_owned
        starts: list[int] = []
        for block in inner.blocks:
            before = self.blocks[: self.blocks.index(block)]
            starts.append(self.num_owned + sum(bridge.num_halo for bridge, _ in before))
        ranges = [
            torch.arange(start, start + bridge.num_halo)
            for (bridge, _), start in zip(inner.blocks, starts, strict=True)
        ]
        table = torch.cat([torch.arange(owned), *ranges])
        return lambda numbers: sent_over(table, numbers.device)[numbers]
