"""The halo exchange: owned rows out to the peers' halos, halo gradients back to their owners."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from halowire.errors import InputError
from halowire.kernels import Csr, Drop, activate, empty
from halowire.partitioning import Shard
from halowire.wire.arrival import Arrival, add_columns
from halowire.wire.codec import Full, Source
from halowire.wire.codec_check import check_codec
from halowire.wire.loading import Flight, Loading, Wire, apply_delta
from halowire.wire.memory import Memory
from halowire.wire.own_codec import RowCodec
from halowire.wire.pieces import Piece
from halowire.wire.policy import Policy
from halowire.wire.rate import BACKWARD, FORWARD
from halowire.wire.terms import Terms, TermsMaker
from halowire.wire.transport import Pending, Transport

# How often, and on how many rows, the error of a code and of a delay is measured.
MEASURE_EVERY, MEASURED_ROWS = 10, 256
# Messages of set-up and evaluation have buffers of their own: a delayed message may be waiting in the others.
EXACT_SLOT = 2


@dataclass(frozen=True, eq=False)
class Sample:
    """Some ``rows`` ``[m, k]`` of a message, their ``index`` ``[m]``, and what is ``seen`` of them at the other end."""

    index: Tensor
    rows: Tensor
    seen: Tensor


class HaloExchange:
    """Exchanges rows for one shard: ``start`` encodes and launches, ``finish`` waits and adds what arrived.

    Forward, ``start(x)`` sends boundary rows and ``finish`` adds ``halo @ x_halo``. Backward, ``start_back(grad)``
    sends the gradients of the halo rows, and ``finish_back`` adds what returns to the owned rows, over all peers that
    hold them, in rank order, so that the sum is the same in every run. With delayed rows ``finish`` uses the previous
    epoch's message instead, while this epoch's is under way; nothing is added before there is one.
    """

    def __init__(self, shard: Shard, transport: Transport, device: torch.device, policy: Policy | None = None) -> None:
        self.transport, self.policy = transport, policy or Policy()
        self.memory = Memory(device)
        self._maker = TermsMaker(shard, self.policy, in_pieces=self._in_pieces(device))
        self._boundary_ids, self.halo_ids = shard.ids[: shard.num_boundary].to(device), shard.halo_ids.to(device)
        self.num_boundary, self.num_halo = shard.num_boundary, shard.num_halo
        self._decay = 1.0 if self.policy.decay is None else self.policy.decay
        self._wire = Wire(transport, self.memory, self._boundary_ids, self.halo_ids, self._decay, self.policy.gain)
        self.synchronise_next = False
        self._change = (0.0, 0.0)
        self._epoch: int | None = None
        self._flights: dict[tuple[int, str], Flight] = {}
        self._sampled: dict[tuple[int, str], tuple[int, Sample]] = {}

    def _in_pieces(self, device: torch.device) -> bool:
        """Not with a user's codec, which may depend on the rows that are encoded together."""
        return device.type == "cpu" and not isinstance(self.policy.codec, RowCodec)

    def begin(self, epoch: int | None) -> None:
        """What follows belongs to training epoch ``epoch``; None: set-up or evaluation, which are exact."""
        self._epoch = epoch

    @property
    def epoch(self) -> int | None:
        """The training epoch that messages belong to; None: they are exact."""
        return self._epoch

    @property
    def cuts(self) -> tuple[int, ...]:
        """Numbers of owned rows, ascending up to the boundary, whose completion lets a piece of a message leave."""
        pieces = self._maker.all.pieces
        return (self.num_boundary,) if pieces is None else pieces.cuts

    @property
    def halo_pieces(self) -> tuple[Piece, ...]:
        """The parts of the halo whose gradients may leave one after another; none where all of them leave whole."""
        pieces = self._maker.all.pieces
        return pieces.halo if pieces is not None and any(piece.number for piece in pieces.halo) else ()

    @property
    def sends_undropped(self) -> bool:
        """Whether forward rows travel before dropout: delta coding needs rows that change slowly."""
        return self.policy.decay is not None

    def fetch(self, rows: Tensor, layer: int) -> Tensor:
        """The halo's ``rows`` ``[h, k]``, exactly and at once: for set-up."""
        self.begin(None)
        flight = self._start(rows[: self.num_boundary], layer, FORWARD)
        assert flight is not None
        return flight.terms.decoder.decode(self._land(flight), rows.shape[1]).clone()

    def start(self, rows: Tensor, layer: int, delta: bool = False) -> Flight | None:
        """Launch the owned ``rows`` ``[n, k]`` towards the peers' halos; the message whose rows are to be used.

        ``delta``: the rows change slowly, so their changes are sent; only where the policy has a decay.
        """
        return self._start(rows[: self.num_boundary], layer, FORWARD, delta)

    def load(self, layer: int, width: int, delta: bool = False) -> Loading:
        """:meth:`start` piece by piece: a message of ``width`` columns whose rows are still to be computed."""
        return self._load(layer, FORWARD, width, delta)

    def load_back(self, layer: int, width: int) -> Loading:
        """:meth:`start_back` piece by piece."""
        return self._load(layer, BACKWARD, width)

    @property
    def watches(self) -> bool:
        """Whether the change of the rows from epoch to epoch decides when to synchronise."""
        return self._epoch is not None and self.policy.freshness.threshold > 0

    def launch(self, loading: Loading, rows: Tensor, watched: Tensor | None = None) -> Flight | None:
        """All ``rows`` of the message are computed, ``[>= boundary, k]`` or ``[h, k]``; the message to be used.

        ``watched`` ``[boundary, any]``: the rows before dropout, whose change is measured where :attr:`watches`.
        """
        terms, freshness = loading.terms, self.policy.freshness
        if terms.direction == FORWARD:
            rows = rows[: self.num_boundary]
        # The input, layer 0, never changes; those of later layers change even at rest, by other masks in every epoch.
        if self.watches and terms.direction == FORWARD and terms.layer == 1:
            self._measure_change(rows if watched is None else watched)
        flight = loading.close(rows)
        self._measure_error(rows, terms, loading.late)
        if terms.epoch < 0 or not freshness.delayed:
            return flight
        self._flights[terms.layer, terms.direction] = flight
        return loading.previous if loading.late else flight

    def finish(self, flight: Flight | None, matrix: Csr, out: Tensor, drop: Drop | None = None) -> None:
        """``out += matrix @ halo`` for the rows ``[h, k]`` of ``flight``, with the owners' dropout if given."""
        self.arrive(flight, drop).add(matrix, out)

    def arrive(self, flight: Flight | None, drop: Drop | None = None) -> Arrival:
        """:meth:`finish` for one range of rows after another: wait here, and add to each when it is its turn."""
        if flight is None:
            return Arrival(self.transport.ledger)
        terms, data = flight.terms, self._land(flight)
        with self.transport.ledger.phase("pack"):
            if drop is None and not self._keeps_rows(terms):
                return Arrival(self.transport.ledger, terms, data)
            rows = self._rows(terms, data)
            rows = rows if drop is None else activate(rows, None, None, False, drop)[0]
            return Arrival(self.transport.ledger, terms, data, rows)

    def finish_rows(self, flight: Flight | None, width: int) -> Tensor:
        """The halo rows ``[h, width]`` of ``flight`` themselves, zeros without one; valid until the next message."""
        if flight is None:
            return torch.zeros(self.num_halo, width, device=self.halo_ids.device)
        data = self._land(flight)
        with self.transport.ledger.phase("pack"):
            if flight.terms.epoch < 0:
                return flight.terms.codec.decode(data, width)
            return self._rows(flight.terms, data)

    def start_back(self, halo_grad: Tensor, layer: int) -> Flight | None:
        """Launch the gradients of the halo rows ``[h, k]`` towards their owners."""
        return self._start(halo_grad, layer, BACKWARD)

    def finish_back(self, flight: Flight | None, out: Tensor) -> None:
        """Add the returned gradients to the owned rows ``out`` ``[n, k]``."""
        if flight is not None:
            self.arrive(flight).add(flight.terms.lists.targets, out[: self.num_boundary])

    def state(self) -> dict[str, Tensor]:
        """Everything that the next epoch depends on; messages under way are waited for and become part of it."""
        found = dict(self.memory.matrices)
        found |= {f"applied.{name}": torch.tensor(epoch) for name, epoch in self.memory.applied.items()}
        for (layer, direction), flight in self._flights.items():
            place = torch.tensor([flight.terms.epoch, layer, flight.terms.width, int(flight.terms.delta)])
            found[f"flight.{direction}.{layer}.place"] = place
            found[f"flight.{direction}.{layer}.bytes"] = self._land(flight).clone()
        if self.synchronise_next:
            found["synchronise_next"] = torch.tensor(1)
        if isinstance(self.policy.codec, RowCodec):
            found["codec"] = torch.tensor(list(check_codec(self.policy.codec)))
        return found

    def load_state(self, state: dict[str, Tensor]) -> None:
        """Go on from :meth:`state`."""
        now = check_codec(self.policy.codec) if isinstance(self.policy.codec, RowCodec) else b""
        if bytes(state.get("codec", torch.empty(0)).tolist()) != now:
            raise InputError("the run to resume had another codec, or none; resume with the one it had")
        self.synchronise_next = "synchronise_next" in state
        for name, value in state.items():
            kind, _, rest = name.partition(".")
            if kind == "applied":
                self.memory.applied[rest] = int(value)
            elif kind == "flight" and rest.endswith(".place"):
                self._restore_flight(rest.removesuffix(".place"), value, state)
            elif kind not in ("flight", "synchronise_next", "codec"):
                self.memory.matrices[name] = value.to(self.halo_ids.device)

    def take_change(self) -> tuple[float, float]:
        """Squared change of layer 1's boundary rows since the previous epoch, and their squared norm."""
        change, self._change = self._change, (0.0, 0.0)
        return change

    def _start(self, rows: Tensor, layer: int, direction: str, delta: bool = False) -> Flight | None:
        loading = self._load(layer, direction, rows.shape[1], delta)
        if direction == FORWARD:
            loading.add(rows, rows.shape[0])
        else:
            for piece in loading.pieces_back:
                loading.add_piece(rows, piece)
        return self.launch(loading, rows)

    def _load(self, layer: int, direction: str, width: int, delta: bool = False) -> Loading:
        epoch, freshness = self._epoch, self.policy.freshness
        if epoch is None:
            return Loading(self._wire, self._maker.exact(layer, direction, width), EXACT_SLOT)
        terms = self._maker.of(epoch, layer, direction, width, delta)
        if not freshness.delayed:
            return Loading(self._wire, terms, 0)
        previous = self._flights.pop((layer, direction), None)
        synchronous = self.synchronise_next or freshness.synchronous(epoch)
        if synchronous and previous is not None:
            self._absorb(previous)
        return Loading(self._wire, terms, epoch % 2, previous, late=not synchronous)

    def _restore_flight(self, name: str, place: Tensor, state: dict[str, Tensor]) -> None:
        epoch, layer, width, delta = (int(value) for value in place)
        direction = name.partition(".")[0]
        data = state[f"flight.{name}.bytes"].to(self.halo_ids.device)
        terms = self._maker.of(epoch, layer, direction, width, bool(delta))
        self._flights[layer, direction] = Flight(Pending((), data, data, "restored"), terms)

    def _absorb(self, flight: Flight) -> None:
        data = self._land(flight)
        if self._keeps_rows(flight.terms):
            self._rows(flight.terms, data)

    def _keeps_rows(self, terms: Terms) -> bool:
        """Whether the rows must be written to memory: averaged or coded as changes."""
        return terms.epoch >= 0 and (terms.delta or self.policy.freshness.smoothing > 0)

    def _rows(self, terms: Terms, data: Tensor) -> Tensor:
        """The rows of a message as a matrix ``[h or m, width]``, through delta coding and smoothing."""
        forward = terms.direction == FORWARD
        name = f"{terms.direction}.{terms.layer}"
        values = terms.decoder.decode(data, terms.sent_columns)
        if terms.delta:
            kept = self.memory.matrix(f"delta.recv.{terms.layer}", self.num_halo, terms.width)
            if self.memory.is_new(f"delta.{name}", terms.epoch):
                apply_delta(kept, values, terms.columns, self._decay, self.policy.gain)
            rows = kept
            if self.policy.gain != 1:  # r = g m + Q is the new m + (1 - a) Q
                rows = empty(*kept.shape).copy_(kept)
                add_columns(rows, terms.columns, values, 1 - self.policy.gain)
        else:
            rows = self._spread(values, terms, forward)
        momentum = self.policy.freshness.smoothing
        if not momentum:
            return rows
        mean = self.memory.matrix(f"smooth.{name}", *rows.shape)
        if self.memory.is_new(f"smooth.{name}", terms.epoch):
            mean.mul_(momentum).add_(rows, alpha=1 - momentum)
        return mean

    def _spread(self, values: Tensor, terms: Terms, forward: bool) -> Tensor:
        """Received values in their rows and columns, zeros elsewhere."""
        places = terms.lists.places if forward else None
        count = self.num_halo if places is not None else values.shape[0]
        if places is None and terms.columns is None:
            return values * terms.factor if terms.factor != 1 else values
        full = torch.zeros(count, terms.width, device=values.device)
        chosen = torch.arange(count, device=values.device) if places is None else places
        columns = torch.arange(terms.width, device=values.device) if terms.columns is None else terms.columns
        full[chosen[:, None], columns[None, :]] = values * terms.factor
        return full

    def _measure_error(self, rows: Tensor, terms: Terms, late: bool) -> None:
        """Book the error of some rows: what is used of them, late ones as they were an epoch before, and what they are.

        A delay without a message before is not measured, and of the running mean of late rows only the code is.
        """
        delayed = self.policy.freshness.delayed and not self.policy.freshness.smoothing
        plain = isinstance(terms.codec, Full) and terms.columns is None and not delayed
        due, next_due = terms.epoch % MEASURE_EVERY == 0, delayed and (terms.epoch + 1) % MEASURE_EVERY == 0
        if plain or terms.epoch < 0 or not len(rows) or not (due or next_due):
            return
        place = terms.layer, terms.direction
        with self.transport.ledger.phase("pack"):
            now = self._sample(rows, terms)
            then, used = self._sampled.pop(place, (None, now)) if late and delayed else (terms.epoch - 1, now)
            if next_due:
                self._sampled[place] = terms.epoch, now
            norm = float(now.rows.square().sum())
            if due and then == terms.epoch - 1 and norm and torch.equal(used.index, now.index):
                self.transport.ledger.error(*place, float((used.seen - now.rows).square().sum()) / norm)

    def _sample(self, rows: Tensor, terms: Terms) -> Sample:
        """Some rows, and what arrives of them: they are coded once more, with the same random numbers."""
        ids = self._boundary_ids if terms.direction == FORWARD else self.halo_ids
        # The factor for sampled rows makes up for rows that did not travel: it is no error of those that did.
        factor = terms.factor * terms.lists.share
        found: list[tuple[Tensor, Tensor, Tensor]] = []
        for codec, index in terms.codec.samples(min(MEASURED_ROWS, len(rows))):
            wanted = rows[index]
            if terms.delta:
                seen = self.memory.matrices[f"delta.send.{terms.layer}"][index]
                packed = self.memory.buffer(terms.row_bytes * self.num_boundary, "delta", terms.layer)
                change = terms.codec.decode(packed.view(-1, terms.row_bytes)[index].view(-1), terms.sent_columns)
                add_columns(seen, terms.columns, change, 1 - self.policy.gain)
            else:
                size = len(wanted) * codec.row_bytes(terms.sent_columns)
                data = torch.empty(size, dtype=torch.uint8, device=rows.device)
                codec.encode(wanted, Source(ids[index], None, None, terms.columns, terms.stream), data)
                seen = torch.zeros_like(wanted)
                add_columns(seen, terms.columns, codec.decode(data, terms.sent_columns) * factor)
            found.append((index, wanted, seen))
        return Sample(*(torch.cat(parts) for parts in zip(*found, strict=True)))

    def _measure_change(self, rows: Tensor) -> None:
        last = self.memory.matrix("last", *rows.shape)
        self._change = (float((rows - last).square().sum()), float(rows.square().sum()))
        last.copy_(rows)

    def _land(self, flight: Flight) -> Tensor:
        with self.transport.ledger.waiting(flight.terms.layer, flight.terms.direction):
            return self.transport.wait(flight.pending)
