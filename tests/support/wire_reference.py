"""The slow, obvious reference of the wire: all parts in one process, dense matrices, every rule written out."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from halowire.kernels import Packing, pack_rows, stream_key, unpack_rows
from halowire.wire import BACKWARD, FORWARD, Policy, Rate, column_subset, row_subset


def quantise(rows: Tensor, bits: int, code: str, stream: int, ids: Tensor, columns: Tensor | None) -> Tensor:
    """What the receiver sees of ``rows``: all columns, or the subset in its place and zeros elsewhere."""
    chosen = torch.arange(rows.shape[1]) if columns is None else columns
    seen = torch.zeros_like(rows)
    if bits == 32:
        seen[:, chosen] = rows[:, chosen]
        return seen
    packing = Packing(bits, code if bits in {"levels": (1, 2, 4), "clipped": (1,)}.get(code, ()) else "minmax")
    data = torch.empty(rows.shape[0] * packing.row_bytes(chosen.numel()), dtype=torch.uint8)
    pack_rows(rows.contiguous(), packing, stream, ids, data, chosen.int())
    seen[:, chosen] = unpack_rows(data, packing, chosen.numel())
    return seen


def base_bits(losses: list[float], start: int) -> tuple[int, bool]:
    """Time-adaptive bits of the next epoch after ``losses``, and whether it is synchronous, from the very beginning."""
    bits, synchronous = start, False
    for end in range(1, len(losses) + 1):
        averages = [losses[0]]
        for loss in losses[1:end]:
            averages.append(0.9 * averages[-1] + 0.1 * loss)
        falls = [averages[i] - averages[i + 1] for i in range(end - 1)][-5:]
        if len(falls) < 5:
            continue
        slower = falls == sorted(falls, reverse=True)
        faster = falls == sorted(falls)
        new = min(8, bits * 2) if slower else max(1, bits // 2) if faster else bits
        synchronous = synchronous if new == bits else new > bits
        bits = new
    return bits, synchronous


@dataclass
class DenseWire:
    """``A x`` with every edge between parts going over the wire of ``policy``; state is kept from epoch to epoch."""

    a: Tensor
    owner: Tensor
    ids: Tensor
    policy: Policy
    degree: Tensor | None = None
    adaptive: bool = False
    kept: dict[str, Tensor] = field(default_factory=dict)
    last: dict[str, Tensor] = field(default_factory=dict)

    @property
    def parts(self) -> int:
        return int(self.owner.max()) + 1

    def halo(self, part: int) -> tuple[Tensor, tuple[int, ...]]:
        """Rows that ``part`` needs, by owner and then by number, and how many of each owner."""
        needed = (self.a[self.owner == part] != 0).any(0) & (self.owner != part)
        groups = [(needed & (self.owner == peer)).nonzero()[:, 0] for peer in range(self.parts)]
        return torch.cat(groups), tuple(len(group) for group in groups)

    def halo_bits(self, part: int, base: int) -> list[int]:
        """Node-adaptive bits of every row of :meth:`halo`: shares of each owner's list, the highest degrees last."""
        rows, counts = self.halo(part)
        ladder = {1: [1, 2, 4, 8], 2: [2, 4, 8], 4: [4, 8], 8: [8]}[base]
        bits, start = [0] * len(rows), 0
        for count in counts:
            ranked = sorted(range(start, start + count), key=lambda place: (float(self.degree[rows[place]]), place))
            for rank, place in enumerate(ranked):
                bits[place] = ladder[int(rank / count * len(ladder) + 1e-9)]
            start += count
        return bits

    def code(self, values: Tensor, rows: Tensor, bits: list[int], code: str, stream: int, columns) -> Tensor:
        """What is seen of ``values`` ``[len(rows), k]``, each row in its own bits."""
        seen = [
            quantise(values[i : i + 1], bits[i], code, stream, self.ids[rows[i : i + 1]], columns)
            for i in range(len(rows))
        ]
        return torch.cat(seen) if seen else values

    def columns(self, rate: Rate, width: int, epoch: int, layer: int) -> Tensor | None:
        count = rate.columns(width)
        if self.policy.first_columns:
            return torch.arange(count)
        return column_subset(width, count, self.policy.seed, epoch, layer)

    def synchronous(self, epoch: int) -> bool:
        return self.adaptive or self.policy.freshness.synchronous(epoch)

    def seen(self, h: Tensor, epoch: int, layer: int, delta: bool) -> list[Tensor]:
        """What every part sees of all rows in the forward message of ``epoch``."""
        p, views = self.policy, []
        rate = p.rates(epoch, layer, FORWARD)
        columns = self.columns(rate, h.shape[1], epoch, layer)
        stream = stream_key(p.seed, epoch, layer, 200)
        if delta and p.decay is not None:
            r = self.kept.setdefault(f"r{layer}", torch.zeros_like(h))
            step = quantise(h - p.decay * r, rate.bits, rate.code, stream, self.ids, columns)
            chosen = slice(None) if columns is None else columns
            before = r.clone()
            r[:, chosen] = (r[:, chosen] * p.decay) + step[:, chosen] * p.gain
            sent = before
            sent[:, chosen] = before[:, chosen] * p.decay + step[:, chosen]
        else:
            sent = quantise(h, rate.bits, rate.code, stream, self.ids, columns)
            if columns is not None and p.rescale:
                sent = sent * (h.shape[1] / columns.numel())
        for part in range(self.parts):
            view = sent.clone()
            if rate.graded:
                rows, _ = self.halo(part)
                view[rows] = self.code(h[rows], rows, self.halo_bits(part, rate.bits), rate.code, stream, columns)
                view = view * (h.shape[1] / columns.numel() if columns is not None and p.rescale else 1.0)
            if rate.rows < 1:
                rows, counts = self.halo(part)
                chosen, _ = row_subset(self.ids[rows], counts, rate.rows, p.seed, epoch)
                stay = torch.zeros(len(h), dtype=torch.bool)
                stay[rows[chosen]] = True
                view = torch.where(stay[:, None], view / rate.rows, torch.zeros_like(view))
            views.append(view)
        return views

    def returned(self, grad: Tensor, epoch: int, layer: int) -> Tensor:
        """What the owners add to the gradients of their rows from the backward message of ``epoch``."""
        p, total = self.policy, torch.zeros_like(grad)
        forward, rate = p.rates(epoch, layer, FORWARD), p.rates(epoch, layer, BACKWARD)
        columns = self.columns(forward, grad.shape[1], epoch, layer)
        for part in range(self.parts):
            mine = self.owner == part
            rows, counts = self.halo(part)
            values = self.a[mine][:, rows].T @ grad[mine]
            stream = stream_key(p.seed, epoch, layer, 1000 + part)
            if rate.graded:
                values = self.code(values, rows, self.halo_bits(part, rate.bits), rate.code, stream, columns)
            else:
                values = quantise(values, rate.bits, rate.code, stream, self.ids[rows], columns)
            if columns is not None and p.rescale:
                values = values * (grad.shape[1] / columns.numel())
            if forward.rows < 1:
                chosen, _ = row_subset(self.ids[rows], counts, forward.rows, p.seed, epoch)
                stay = torch.zeros(len(rows), dtype=torch.bool)
                stay[chosen] = True
                values = torch.where(stay[:, None], values / forward.rows, torch.zeros_like(values))
            total.index_add_(0, rows, values)
        return total

    def corrected(self, views: list[Tensor], sent: Tensor, epoch: int, layer: int) -> list[Tensor]:
        """Late views, moved as each part's own rows moved since the last epoch; a part sends its own rows to others."""
        before, kind = self.last.get(f"own{layer}"), self.policy.freshness.drift(layer)
        self.last[f"own{layer}"] = sent.clone()
        if kind == "none" or before is None or self.synchronous(epoch):
            return views
        found = []
        for part, view in enumerate(views):
            mine = self.owner == part
            own = mine & (self.a[~mine] != 0).any(0)
            x, y = before[own].double(), sent[own].double()
            centre = x - x.mean(0)
            squares = centre.T @ centre
            ridge = 1e-3 * squares.diagonal().mean() * torch.eye(len(squares), dtype=torch.float64)
            change = torch.linalg.solve(squares + ridge, centre.T @ (y - y.mean(0) - centre))
            matrix = torch.eye(len(squares), dtype=torch.float64) + (change if kind == "affine" else 0)
            found.append(((view.double() - x.mean(0)) @ matrix + y.mean(0)).float())
        return found

    def back(self, grad: Tensor, epoch: int, layer: int) -> Tensor:
        """What the owners add to the gradients of their rows in ``epoch``."""
        fresh = self.policy.freshness
        if fresh.silent or fresh.gradients == "none":
            return torch.zeros_like(grad)
        now = self.returned(grad, epoch, layer)
        if fresh.gradients == "fresh":
            return now
        (used,) = self.delayed(f"b{layer}", [now], epoch)
        return used if self.synchronous(epoch) else fresh.damping * used

    def delayed(self, key: str, now: list[Tensor], epoch: int) -> list[Tensor]:
        """This epoch's message, or the last one's (zeros at first), smoothed where the policy says so."""
        fresh = self.policy.freshness
        if not fresh.delayed:
            return now
        before = self.last.get(key)
        self.last[key] = now
        use = now if self.synchronous(epoch) else before
        if use is None:
            return [torch.zeros_like(value) for value in now]
        if not fresh.smoothing:
            return use
        # A message enters the mean once: when it is used, or when a synchronous epoch drains it.
        entering = [before, now] if self.synchronous(epoch) else [before]
        for message in entering:
            if message is not None and not any(message is m for m in self.kept.get(f"in{key}", [])):
                self.kept.setdefault(f"in{key}", []).append(message)
                mean = self.kept.setdefault(f"mean{key}", [torch.zeros_like(v) for v in message])
                self.kept[f"mean{key}"] = [
                    fresh.smoothing * m + (1 - fresh.smoothing) * v for m, v in zip(mean, message, strict=True)
                ]
        return self.kept[f"mean{key}"]

    def product(self, x: Tensor, epoch: int, layer: int, undropped: Tensor | None, mask: Tensor | None) -> Tensor:
        """``A x`` over the wire, differentiable; with delta coding ``undropped`` travels and ``mask`` is put on it."""
        return _Product.apply(x, self, epoch, layer, undropped, mask)


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, wire, epoch, layer, undropped, mask):
        ctx.wire, ctx.epoch, ctx.layer = wire, epoch, layer
        sent = x if undropped is None else undropped
        views = wire.delayed(f"f{layer}", wire.seen(sent.detach(), epoch, layer, undropped is not None), epoch)
        views = wire.corrected(views, sent.detach(), epoch, layer)
        if wire.policy.freshness.silent:
            views = [torch.zeros_like(view) for view in views]
        out = torch.zeros(len(x), x.shape[1])
        for part in range(wire.parts):
            mine = wire.owner == part
            view = views[part] if mask is None else views[part] * mask
            rows = torch.where(mine[:, None], x, view)
            out[mine] = wire.a[mine] @ rows
        return out

    @staticmethod
    def backward(ctx, grad):
        wire = ctx.wire
        same = wire.owner[:, None] == wire.owner[None, :]
        own = torch.where(same, wire.a, torch.zeros_like(wire.a)).T @ grad
        return own + wire.back(grad, ctx.epoch, ctx.layer), None, None, None, None, None
