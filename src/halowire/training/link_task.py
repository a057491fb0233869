"""Link prediction: a decoder scores pairs of nodes, learnt against drawn negatives and ranked over all workers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from halowire.errors import InputError
from halowire.events import HITS, LINK_METRICS
from halowire.graph import draw_negatives, pair_keys
from halowire.partitioning import NamedHalo, PartLinks, Shard
from halowire.training.config import Config
from halowire.training.task import SPLITS, by_split
from halowire.wire import Crossing, Extend, HaloExchange, Policy, Transport, refuse_outside, sent_over

Decoder = Callable[[Tensor, Tensor], Tensor]
"""``decoder(sources, targets)`` maps two tensors of rows ``[m, k]`` to scores ``[m]``, higher for likelier edges."""
BLOCK = 1 << 22
"""How many values of rows are gathered at once while pairs are ranked."""
PAIRS = 9_000
"""The layer number under which the ledger counts rows of pairs; no layer of a model has it."""


def dot_product(sources: Tensor, targets: Tensor) -> Tensor:
    """``score(u, v) = <h_u, h_v>``."""
    return (sources * targets).sum(-1)


class LinkTask:
    """The task on the pairs whose source this worker owns; it fetches other workers' rows that these pairs need."""

    def __init__(
        self,
        links: PartLinks,
        shard: Shard,
        config: Config,
        transport: Transport,
        device: torch.device,
        decoder: Decoder = dot_product,
    ) -> None:
        """All workers make their tasks together: they agree on the rows that ranking needs."""
        self._links = links
        self._shard = shard
        self._transport = transport
        self._device = device
        self.decoder = decoder
        self._seed = config.seed
        self._count = config.task.train_negatives
        self.metric = "mrr" if config.task.metric == "auto" else config.task.metric
        self._num_nodes = links.owner.numel()
        # All training edges of a source are pairs of its owner, so its negatives need to avoid no other pairs.
        self._known = pair_keys(links.train[0], links.train[1], self._num_nodes)
        self._ranked = {name: self._rows(links.ranked[name], links.negatives[name]) for name in SPLITS}

    def loss(self, rows: Tensor, epoch: int = 0) -> Tensor:
        """This worker's share of the binary cross entropy, averaged over all pairs and their negatives.

        ``sum softplus(-s(u, v)) + sum softplus(s(u, w))`` over the training pairs ``(u, v)`` and, for each,
        ``train_negatives`` nodes ``w`` without a training edge from ``u``, drawn anew in every epoch from the pair
        alone; divided by the number of all workers' scores. The shares add up, and so do the gradients.
        """
        return self.values(rows, epoch).sum() / (self._links.num_train * (1 + self._count))

    def values(self, rows: Tensor, epoch: int = 0) -> Tensor:
        """The terms of the sum in :meth:`loss`, ``[P (1 + train_negatives)]``: those of this worker's pairs, then those
        of the negatives."""
        pairs = self._links.train
        drawn = draw_negatives(pairs, self._count, self._known, self._num_nodes, self._seed, epoch)
        # Messages of the last epoch have long arrived, and nothing reads their buffers again.
        self._transport.settle()
        plan = self._rows(pairs, drawn)
        table = plan.table(rows)
        source = plan.places(pairs[0])
        positive = self._score(table, source, plan.places(pairs[1]))
        negative = self._score(table, source.repeat_interleave(self._count), plan.places(drawn.reshape(-1)))
        return torch.cat([F.softplus(-positive), F.softplus(negative)])

    def evaluate(self, rows: Tensor, transport: Transport) -> dict[str, float]:
        """MRR and Hits@K of the ranked pairs of every split, over all workers, from exact sums.

        The rank of a pair ``(u, v)`` is its place among ``(u, v)`` and its negatives ``(u, w)`` by score; a tie counts
        one half. ``MRR = mean 1 / rank``, ``Hits@K = share of rank <= K``.
        """
        sums = torch.zeros(len(SPLITS), 1 + len(LINK_METRICS), dtype=torch.float64)
        with torch.no_grad():
            for place, name in enumerate(SPLITS):
                rank = self._ranks(rows, name).double().cpu()
                hits = [(rank <= k).sum() for k in HITS.values()]
                sums[place] = torch.stack([torch.tensor(rank.numel()).double(), rank.reciprocal().sum(), *hits])
        transport.all_reduce(sums, "reduction of the metrics", account=None)
        values = dict(zip(LINK_METRICS, (sums[:, 1:] / sums[:, :1]).t().tolist(), strict=True))
        # Hits@K is left out where there are fewer than K negatives: every pair would be a hit.
        num_negatives = self._links.negatives["val"].shape[1]
        told = {name: found for name, found in values.items() if HITS.get(name, 0) <= num_negatives}
        return by_split(told, self.metric)

    def _ranks(self, rows: Tensor, split: str) -> Tensor:
        """The rank of each of the ``q`` ranked pairs of ``split``, float32 ``[q]``."""
        pairs, negatives, plan = self._links.ranked[split], self._links.negatives[split], self._ranked[split]
        table, count = plan.table(rows), negatives.shape[1]
        block = max(1, BLOCK // max(1, count * table.shape[1]))
        found = [torch.empty(0, device=self._device)]
        for first in range(0, pairs.shape[1], block):
            at = slice(first, first + block)
            source = plan.places(pairs[0, at])
            positive = self._score(table, source, plan.places(pairs[1, at]))[:, None]
            away = plan.places(negatives[at].reshape(-1))
            negative = self._score(table, source.repeat_interleave(count), away).view(-1, count)
            # A score of NaN must not look like the best one, so a negative that is not below counts as above.
            tie = negative == positive
            found.append(1 + (~(negative < positive) & ~tie).sum(1) + 0.5 * tie.sum(1))
        return torch.cat(found)

    def _score(self, table: Tensor, source: Tensor, target: Tensor) -> Tensor:
        scores = self.decoder(table[source], table[target])
        if not isinstance(scores, Tensor) or scores.shape != source.shape:
            shape = list(scores.shape) if isinstance(scores, Tensor) else type(scores).__name__
            raise InputError(f"the decoder gives {shape} for {source.numel()} pairs; it must give one score per pair")
        return scores

    def _rows(self, pairs: Tensor, negatives: Tensor) -> PairRows:
        nodes = torch.cat([pairs[1], negatives.reshape(-1)])
        return PairRows(nodes, self._links, self._shard, self._transport, self._device)


class Places(Protocol):
    """Where all nodes of a graph are: their part and their row in it, int32 ``[N]`` each."""

    @property
    def owner(self) -> Tensor:
        """The part of every node."""

    @property
    def place(self) -> Tensor:
        """The row of every node in its part."""


class PartRows(Protocol):
    """The rows that a part owns: its rank, their ids ``[n]`` and their number."""

    @property
    def rank(self) -> int:
        """The part."""

    @property
    def ids(self) -> Tensor:
        """The ids of the owned rows."""

    @property
    def num_owned(self) -> int:
        """The number of owned rows."""


class PairRows:
    """Makes one table of this worker's own rows and, after them, the rows of ``nodes`` (numbers in the whole graph).

    All workers make their `PairRows` together: each tells the owners once which of their rows it needs. Then
    ``table(h)`` is ``[n + m, k]``: the ``n`` owned rows of ``h``, then ``m`` fetched rows in float32. In backward the
    gradients of the fetched rows return to their owners and are added there, as the gradients of halo rows are.
    ``lists`` are the rows that are sent and fetched, where there are several workers.
    """

    lists: NamedHalo

    def __init__(
        self, nodes: Tensor, links: Places, shard: PartRows, transport: Transport, device: torch.device
    ) -> None:
        self._links = links
        self._shard = shard
        self._transport = transport
        self._device = device
        self._num_nodes = links.owner.numel()
        keys = torch.unique(self._keys(nodes.reshape(-1)))
        owner = torch.div(keys, self._num_nodes, rounding_mode="floor")
        self._wanted = keys[owner != shard.rank]
        if transport.size > 1:
            self._exchange = self._agree(owner[owner != shard.rank])

    def table(self, rows: Tensor) -> Tensor:
        """The owned ``rows`` ``[n, k]``, then the rows fetched from other workers."""
        if self._transport.size == 1:
            return rows
        out: Tensor = Extend.apply(rows.contiguous(), Crossing(self._exchange, PAIRS, None))  # type: ignore[no-untyped-call]
        return out

    def places(self, nodes: Tensor) -> Tensor:
        """The places of ``nodes`` in the table, int64 in the shape of ``nodes``."""
        own = self._links.owner[nodes] == self._shard.rank
        away = torch.searchsorted(self._wanted, self._keys(nodes)) + self._shard.num_owned
        return sent_over(torch.where(own, self._links.place[nodes].long(), away), self._device)

    def _keys(self, nodes: Tensor) -> Tensor:
        """Numbers of ``nodes`` that ascend by owner, then by row of the graph."""
        return self._links.owner[nodes].long() * self._num_nodes + nodes

    def _agree(self, owner: Tensor) -> HaloExchange:
        """Tell the owners which rows this worker needs, and hear which of its rows others need."""
        shard, transport = self._shard, self._transport
        wanted = torch.bincount(owner, minlength=transport.size).tolist()
        asked = transport.swap_counts(wanted, "counts of the pairs' rows")
        nodes = self._wanted % self._num_nodes
        sent = transport.swap(self._links.place[nodes], wanted, asked, "exchange of the pairs' rows").long()
        refuse_outside(sent, asked, shard.num_owned, "the place of a row", transport, "exchange of the pairs' rows")
        self.lists = NamedHalo.of(shard.rank, shard.ids, nodes, sent, asked, wanted)
        return HaloExchange(self.lists, transport, self._device, Policy())
