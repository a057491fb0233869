"""The halo exchange: owned rows out to the peers' halos, halo gradients back to their owners."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import compress

import torch
from torch import Tensor

from halowire.errors import InputError
from halowire.kernels import Csr, Drop, activate, sent_over
from halowire.partitioning import HaloLists
from halowire.wire.code_error import CodeError
from halowire.wire.cover import Cover, Lifted
from halowire.wire.drift import Drift
from halowire.wire.graded import HaloCodecs
from halowire.wire.hand_on import HandOn
from halowire.wire.memory import Memory, check_shapes
from halowire.wire.message import Arrival, Message, Wire
from halowire.wire.once import VALUE, smallest_below, swap_once
from halowire.wire.own_codec import RowCodec, check_codec
from halowire.wire.policy import BACKWARD, FORWARD, NONE, Policy
from halowire.wire.route import HaloRoutes, Piece, Route
from halowire.wire.terms import Draw, Terms
from halowire.wire.transport import Transport

Change = tuple[float | Tensor, float | Tensor]
"""How far rows are from those before, and their size: sums of squares."""
# Messages of set-up and evaluation have buffers of their own: a delayed message may be waiting in those of training.
EXACT_SLOT = 2
WIDEST = 1 << 20
"""The most columns that a message in a checkpoint may have; nothing is allocated for more."""


class HaloExchange:
    """Exchanges rows for one shard: ``start`` encodes and launches a message, ``finish`` waits and adds its rows.

    Forward, ``start(x)`` sends boundary rows and ``finish`` adds ``halo @ x_halo``. Backward, ``start_back(grad)``
    sends the gradients of the halo rows, and ``finish_back`` adds the gradients that arrive to the owned rows, in the
    rank order of the peers, so that the sum is the same in every run. With delayed rows ``finish`` uses the previous
    epoch's message, while this epoch's message is under way; in the first epoch nothing is added.
    """

    def __init__(
        self, shard: HaloLists, transport: Transport, device: torch.device, policy: Policy | None = None
    ) -> None:
        self.transport = transport
        self.device = device
        self.policy = policy or Policy()
        self.memory = Memory(device)
        self.num_boundary = shard.num_boundary
        self.synchronise_next = False
        self.epoch: int | None = None
        freshness = self.policy.freshness
        # A user's codec may depend on the rows that are encoded together, so its messages leave as a whole.
        cut = device.type == "cpu" and not isinstance(self.policy.codec, RowCodec)
        self._piece_rows = self.policy.piece_rows if cut else None
        self._plain = shard.send_index, shard.send_counts, shard.recv_counts
        self._cover: Cover | None = None
        self._lifted: Lifted | None = None
        self._travel_by(shard)
        self.device = self.halo_ids.device
        self._rank = shard.rank
        self._wire = Wire(transport, self.memory)
        # With smoothing, receivers use a running mean, whose delay is not measured: only the error of the code is.
        self._error = CodeError(transport.ledger, freshness.delayed and not freshness.smoothing)
        self._change: Change = (0.0, 0.0)
        self._drift = Drift(self.memory)
        self._sent: dict[tuple[int, str], Message] = {}
        self._late: dict[tuple[int, str], Message | None] = {}

    def cover(self, cover: Cover) -> None:
        """Let the rows and partial sums that the workers agreed on travel from now on, in the place of all halo rows.

        All workers call this together, before any message.
        """
        self._travel_by(cover.lists, cover.back)
        self._cover = replace(cover, sums=cover.sums.to(self.device))

    def _travel_by(self, lists: HaloLists, back: Csr | None = None) -> None:
        """Exchange the rows of ``lists``; ``back`` adds gradients that arrive to owned rows, see `HaloRoutes`.

        Where rows cross the network once per machine, the workers agree here on who carries which.
        """
        self.halo_ids = sent_over(lists.halo_ids, self.device)
        self.num_halo = lists.num_halo
        self._needed = lists.recv_counts
        self._hand_on = None
        if self.policy.once_per_machine:
            self._hand_on = HandOn.agree(lists, self.transport, self.device)
        network = lists
        if self._hand_on is not None:
            network = self._hand_on.lists
            back = None if back is None else back.select_columns(self._hand_on.sent)
        self._codecs = HaloCodecs(network, self.halo_ids.device)
        seed, rows = self.policy.seed, self._piece_rows
        self._routes = HaloRoutes(network, self.device, seed, rows, back, self._hand_on)

    def machine_rows(self) -> tuple[int, int]:
        """How many rows of other machines this worker needs, and how many of them reach it from their owners."""
        across = self.transport.machines.elsewhere(self.transport.rank)
        return sum(compress(self._needed, across)), sum(compress(self._routes.counts[1], across))

    def begin(self, epoch: int | None) -> None:
        """Send what follows as messages of training epoch ``epoch``; None: of set-up or evaluation, which are exact."""
        self.epoch = epoch

    @property
    def cuts(self) -> tuple[int, ...]:
        """Numbers of computed rows at which pieces of a message can leave, ascending up to the boundary's rows."""
        pieces, cover = self._routes.pieces, self._cover
        if pieces is None or cover is None:
            return (self.num_boundary,) if pieces is None else pieces.cuts
        needed = {int(cover.computed[cut - 1]) for cut in pieces.cuts if cut}
        return (*sorted(needed - {self.num_boundary}), self.num_boundary)

    @property
    def halo_pieces(self) -> tuple[Piece, ...]:
        """The pieces of the halo whose gradients may leave one after another; none where no message is cut."""
        pieces = None if self._hand_on is not None else self._routes.pieces
        return pieces.arriving if pieces is not None and any(piece.number for piece in pieces.arriving) else ()

    @property
    def sends_undropped(self) -> bool:
        """Whether forward rows travel before dropout: changes of rows and late rows need rows that change slowly."""
        return self.policy.undropped

    def sends(self, direction: str) -> bool:
        """Whether messages of ``direction`` travel now: all do in set-up and evaluation."""
        return self.epoch is None or self.policy.freshness.sends(direction)

    @property
    def watches(self) -> bool:
        """Whether the change of the rows from epoch to epoch decides when to synchronise."""
        return self.epoch is not None and self.policy.freshness.threshold > 0

    def fetch(self, rows: Tensor) -> Tensor:
        """The halo rows ``[h, k]`` of the matrix with the owned ``rows`` ``[n, k]``, exact and at once: for set-up.

        Under a cover, the rows and partial sums in their place.
        """
        self.begin(None)
        message = self.start(rows, layer=0)
        assert message is not None
        message.wait()
        return message.rows().clone()

    def fetch_once(self, rows: Tensor | Csr) -> Tensor | Csr:
        """The halo rows ``[h, k]`` themselves, also under a cover, sent in the smallest exact form: for set-up.

        They are dense or sparse like ``rows``.
        """
        index, sent, received = self._plain
        own = rows.select_rows(index) if isinstance(rows, Csr) else rows[index.to(rows.device)]
        return swap_once(own, sent, received, self.transport, squeezed=self.policy.squeezed)

    def fetch_fewest(self, rows: Tensor) -> tuple[Tensor, bool]:
        """What takes fewer bytes on the network: the halo rows themselves or, under a cover, what stands for them.

        Returns what arrived, and whether it is the rows themselves; those may be sparse or bf16, sums are float32.
        """
        index, sent, received = self._plain
        own, across = rows[index.to(rows.device)], self.transport.machines.elsewhere(self.transport.rank)
        crossing = torch.repeat_interleave(torch.tensor(across), torch.tensor(sent))
        sums = VALUE * rows.shape[1] * sum(compress(self._routes.counts[0], across))
        form = smallest_below(own, crossing, sums, self.transport)
        if form is None:
            return self.fetch(rows), False
        return torch.as_tensor(swap_once(own, sent, received, self.transport, form, self.policy.squeezed)), True

    def start(self, rows: Tensor, layer: int, delta: bool = False) -> Message | None:
        """Launch the owned ``rows`` ``[n, k]`` to the peers' halos; returns the message whose rows are to be used.

        ``delta``: the rows change slowly, so that their changes are sent where the policy has a decay.
        """
        rows = rows[: self.num_boundary]
        message = self.load(layer, rows.shape[1], delta)
        self.add(message, rows, rows.shape[0])
        return self.launch(message, rows)

    def add(self, message: Message, rows: Tensor, stop: int) -> None:
        """Send the pieces of ``message`` that are complete, now that the first ``stop`` of ``rows`` are computed."""
        pieces = self._routes.pieces
        if self._lifted is None:
            message.add(rows, stop)
        elif pieces is not None:
            ready = self._lifted.add(rows[: self.num_boundary], stop)
            # A message goes on from cut to cut; rows and sums behind the last full one wait for the next.
            message.add(self._lifted.rows, max((cut for cut in pieces.cuts if cut <= ready), default=0))

    def start_back(self, halo_grad: Tensor, layer: int) -> Message | None:
        """Launch the gradients of the halo rows ``[h, k]`` to their owners; returns the message that is to be used.

        Where no gradients travel, there is none.
        """
        if not self.sends(BACKWARD):
            return None
        message = self.load(layer, halo_grad.shape[1], direction=BACKWARD)
        if self._hand_on is not None:
            halo_grad = self._hand_on.gather(halo_grad, message.hop())
        for piece in message.pieces_back:
            message.add_piece(halo_grad, piece)
        return self.launch(message, halo_grad)

    def load(self, layer: int, width: int, delta: bool = False, direction: str = FORWARD) -> Message:
        """Open a message of ``width`` columns; its rows are added piece by piece, and :meth:`launch` ends it."""
        if direction == FORWARD and self._cover is not None:
            self._lifted = Lifted(self._cover, width)
        epoch, freshness = self.epoch, self.policy.freshness
        if epoch is None:
            return self._open(self._routes.all(direction), Terms.exact(layer, direction, width), EXACT_SLOT)
        route, terms = self._agree(epoch, layer, direction, width, delta)
        if not freshness.late(direction):
            return self._open(route, terms, 0)
        # In a delayed epoch the previous message is used in the place of this one.
        previous = self._sent.pop((layer, direction), None)
        self._late.pop((layer, direction), None)
        if not (self.synchronise_next or freshness.synchronous(epoch)):
            self._late[layer, direction] = previous
        elif previous is not None:
            previous.wait()
            if self._keeps_rows(previous.terms):
                self._rows(previous)
        return self._open(route, terms, epoch % 2)

    def launch(self, message: Message, rows: Tensor, watched: Tensor | None = None) -> Message | None:
        """Send what is left of a message whose ``rows`` are all computed; returns the message that is to be used.

        ``rows``: ``[>= boundary, k]`` forward, ``[h, k]`` backward. ``watched`` ``[boundary, any]``: the rows before
        dropout, whose change is measured where :attr:`watches`.
        """
        terms = message.terms
        place = (terms.layer, terms.direction)
        if terms.direction == FORWARD:
            rows = rows[: self.num_boundary]
        # Layer 0's rows never change. Rows of layers above 1 always do, as every epoch has other dropout masks.
        if self.watches and place == (1, FORWARD):
            self._measure_change(rows if watched is None else watched)
        if terms.direction == FORWARD and self._lifted is not None:
            self._lifted.add(rows, self.num_boundary)
            rows, self._lifted = self._lifted.rows, None
        message.launch(rows)
        late = terms.epoch >= 0 and place in self._late
        if self._drifts(terms):
            self._drift.observe(terms.layer, rows, terms.epoch, self.policy.freshness.drift(terms.layer))
        correct = partial(self._drift.correct, terms.layer, epoch=terms.epoch)
        self._error.measure(message, rows, late, correct=correct)
        if terms.epoch >= 0 and self.policy.freshness.late(terms.direction):
            self._sent[place] = message
        return self._late.pop(place) if late else message

    def finish(self, message: Message | None, matrix: Csr, out: Tensor, drop: Drop | None = None) -> None:
        """Wait, then ``out += matrix @ halo`` for the rows ``[h, k]`` of ``message``, with the owners' dropout."""
        self.arrive(message, drop).add(matrix, out)

    def arrive(self, message: Message | None, drop: Drop | None = None) -> Arrival:
        """Wait for ``message``, to add it to one range of rows after another; :meth:`finish` adds to all at once."""
        if message is None:
            return Arrival(None)
        message.wait()
        with self._wire.packing():
            if drop is None and not self._keeps_rows(message.terms):
                return Arrival(message)
            rows = self._used_rows(message)
            return Arrival(message, rows if drop is None else activate(rows, None, None, False, drop)[0])

    def finish_rows(self, message: Message | None, width: int) -> Tensor:
        """Wait, and return the halo rows ``[h, width]``, zeros without a message; valid until the next message."""
        if message is None:
            return torch.zeros(self.num_halo, width, device=self.device)
        message.wait()
        with self._wire.packing():
            return self._used_rows(message)

    def finish_back(self, message: Message | None, out: Tensor) -> None:
        """Wait, and add the gradients of ``message`` to the owned rows ``out`` ``[n, k]``."""
        if message is not None:
            sums = message.route.sums
            assert sums is not None
            damped = message.terms.epoch != self.epoch and self.policy.freshness.damping != 1
            sums = sums.scaled(self.policy.freshness.damping) if damped else sums
            self.arrive(message).add(sums, out[: self.num_boundary])

    def state(self) -> dict[str, Tensor]:
        """Everything that the next epoch depends on, messages under way included, which are waited for."""
        found = dict(self.memory.matrices)
        found |= {f"applied.{name}": torch.tensor(epoch) for name, epoch in self.memory.applied.items()}
        for (layer, direction), message in self._sent.items():
            terms = message.terms
            place = torch.tensor([terms.epoch, layer, terms.width, int(terms.delta is not None)])
            found[f"flight.{direction}.{layer}.place"] = place
            found[f"flight.{direction}.{layer}.bytes"] = message.wait().clone()
        if self.synchronise_next:
            found["synchronise_next"] = torch.tensor(1)
        if isinstance(self.policy.codec, RowCodec):
            found["codec"] = torch.tensor(list(check_codec(self.policy.codec)))
        return found

    def load_state(self, state: dict[str, Tensor]) -> None:
        """Go on from ``state``, which :meth:`state` gave."""
        now = check_codec(self.policy.codec) if isinstance(self.policy.codec, RowCodec) else b""
        if bytes(state.get("codec", torch.empty(0)).tolist()) != now:
            raise InputError("the run to resume had another codec, or none; resume with the one it had")
        check_shapes(state, send=self.num_boundary, recv=self.num_halo)
        self.synchronise_next = "synchronise_next" in state
        for name, value in state.items():
            kind, _, rest = name.partition(".")
            if kind == "applied":
                self.memory.applied[rest] = int(value)
            elif kind == "flight" and rest.endswith(".place"):
                self._restore(rest.removesuffix(".place"), value, state)
            elif kind not in ("flight", "synchronise_next", "codec"):
                self.memory.matrices[name] = value.to(self.device)

    def forget(self) -> None:
        """Forget everything that :meth:`state` holds; the next epoch uses its own rows, as a synchronous one does."""
        for message in self._sent.values():
            message.wait()
        self._sent.clear()
        self._late.clear()
        self.memory.matrices.clear()
        self.memory.applied.clear()
        self._change = (0.0, 0.0)
        self.synchronise_next = True

    def take_change(self) -> Change:
        """Squared change of layer 1's boundary rows since the previous epoch, and their squared norm.

        They are tensors without a dimension where they were measured: the host does not wait for them here.
        """
        change = self._change
        self._change = (0.0, 0.0)
        return change

    def _agree(self, epoch: int, layer: int, direction: str, width: int, delta: bool) -> tuple[Route, Terms]:
        """The route and the terms of a training message; forward and backward sample the same rows."""
        route = self._routes.sampled(direction, self.policy.rates(epoch, layer, FORWARD).rows, epoch)
        draw = Draw.halo(layer, direction, self._rank)
        return route, Terms.of(self.policy, draw, epoch, width, route.share, delta, self._codecs.of, self.device)

    def _open(self, route: Route, terms: Terms, slot: int) -> Message:
        """Open a message; ``slot`` tells apart messages of one layer and direction that may be under way together."""
        kept = None
        if terms.delta is not None:
            kept = self.memory.matrix(f"delta.send.{terms.layer}", self.num_boundary, terms.width)
        when = "set-up or evaluation" if terms.epoch < 0 else f"epoch {terms.epoch}"
        where = f"{when}, layer {terms.layer}, {terms.direction}"
        message = Message(self._wire, route, terms, where, kept=kept)
        return message.open(terms.layer, terms.direction, slot)

    def _restore(self, name: str, place: Tensor, state: dict[str, Tensor]) -> None:
        epoch, layer, width, delta = (int(value) for value in place)
        direction = name.partition(".")[0]
        if direction not in (FORWARD, BACKWARD) or not 0 < width <= WIDEST:  # columns are drawn among so many
            raise ValueError(f"a message goes {direction!r} with {width} columns, expected some that a model has")
        data = state[f"flight.{name}.bytes"].to(self.device)
        agreed = self._agree(epoch, layer, direction, width, bool(delta))
        self._sent[layer, direction] = Message.restored(self._wire, *agreed, data)

    def _keeps_rows(self, terms: Terms) -> bool:
        """Whether the rows must be written to memory, because they are averaged, corrected or coded as changes."""
        averaged = terms.epoch >= 0 and self.policy.freshness.smoothing > 0
        return averaged or terms.delta is not None or self._drifts(terms)

    def _drifts(self, terms: Terms) -> bool:
        """Whether rows of such a message are corrected where they are used late."""
        forward = terms.epoch >= 0 and terms.direction == FORWARD
        return forward and self.policy.freshness.drift(terms.layer) != NONE

    def _used_rows(self, message: Message) -> Tensor:
        """The rows ``[h, width]`` of a message that has arrived; rows of the previous epoch are corrected."""
        rows, terms = self._rows(message), message.terms
        late = self.epoch is not None and terms.epoch == self.epoch - 1
        return self._drift.correct(terms.layer, rows, terms.epoch + 1) if late else rows

    def _rows(self, message: Message) -> Tensor:
        """The rows ``[h or m, width]`` of a message that has arrived, after delta coding and smoothing."""
        terms, memory = message.terms, self.memory
        name = f"{terms.direction}.{terms.layer}"
        if terms.delta is None:
            rows = message.rows()
        else:
            kept = memory.matrix(f"delta.recv.{terms.layer}", self.num_halo, terms.width)
            rows = message.rows(kept, memory.is_new(f"delta.{name}", terms.epoch))
        momentum = self.policy.freshness.smoothing
        if not momentum or terms.epoch < 0:
            return rows
        mean = memory.matrix(f"smooth.{name}", *rows.shape)
        if memory.is_new(f"smooth.{name}", terms.epoch):
            mean.mul_(momentum).add_(rows, alpha=1 - momentum)
        return mean

    def _measure_change(self, rows: Tensor) -> None:
        last = self.memory.matrix("last", *rows.shape)
        self._change = ((rows - last).square().sum(), rows.square().sum())
        last.copy_(rows)
