"""NCCL's rule of order: messages between two workers have no tags, so the k-th receive takes what the k-th send gives.

A worker notes what it posts, in its order. When the notes of all workers are together, :func:`wrong_meetings` plays
NCCL: on every lane, which is the communicator of some workers, a send meets the next receive of its peer, and a
collective operation meets the next one of every member.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

from torch import Tensor

from halowire.wire import Circle, Envelope, Pending, Transport

TOGETHER = -1
"""The peer of an operation in which all workers of a lane take part."""


class Post(NamedTuple):
    """One operation that a worker posted: on which ``lane``, with which ``peer``, and ``label``, what it is about.

    A lane is named by the ranks of its workers and by its use. The label is the same at both ends.
    """

    lane: tuple[str, tuple[int, ...]]
    peer: int
    sends: bool
    label: str
    nbytes: int


def wrong_meetings(logs: Sequence[Sequence[Post]]) -> list[str]:
    """Every operation that would meet another one than its own; ``logs[r]`` is what rank ``r`` posted."""
    found = []
    for lane in dict.fromkeys(post.lane for log in logs for post in log):
        found += _collectives_apart(lane, logs)
        for one, other in itertools.permutations(lane[1], 2):
            sent = [post for post in logs[one] if post.lane == lane and post.peer == other and post.sends]
            taken = [post for post in logs[other] if post.lane == lane and post.peer == one and not post.sends]
            found += _apart(f"{lane[0]}, rank {one} to rank {other}", sent, taken)
    return found


def _collectives_apart(lane: tuple[str, tuple[int, ...]], logs: Sequence[Sequence[Post]]) -> list[str]:
    """What the members of a lane do not do together; bytes may differ by member."""
    together = [[post for post in logs[rank] if post.lane == lane and post.peer == TOGETHER] for rank in lane[1]]
    found = []
    for rank, posts in zip(lane[1][1:], together[1:], strict=True):
        alike = [post._replace(nbytes=0) for post in posts], [post._replace(nbytes=0) for post in together[0]]
        found += _apart(f"{lane[0]}, rank {rank} beside rank {lane[1][0]}", *alike)
    return found


def _apart(way: str, here: Sequence[Post], there: Sequence[Post]) -> list[str]:
    """Where two lists of operations that meet by their order differ."""
    pairs = enumerate(itertools.zip_longest(here, there))
    return [f"{way}, number {k}: {_words(a)} meets {_words(b)}" for k, (a, b) in pairs if _words(a) != _words(b)]


def _words(post: Post | None) -> str:
    return "nothing" if post is None else f"{post.label} ({post.nbytes} bytes)"


class NotedTransport(Transport):
    """A transport that notes the messages of stage links, which NCCL sends from one worker to another."""

    def __init__(self, *args: Any, log: list[Post] | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.log: list[Post] = [] if log is None else log

    def among(self, circle: Circle) -> NotedTransport:
        """A transport that notes in the same list."""
        return NotedTransport(self.ledger, self.deadline, circle, run=self.run, log=self.log)

    def all_to_all(
        self,
        send: Tensor,
        send_bytes: Sequence[int],
        received: Tensor,
        recv_bytes: Sequence[int],
        where: str,
        tag: int | None = None,
        envelope: Envelope | None = None,
    ) -> Pending:
        """Note what a stage link posts, and post it."""
        if tag is not None:
            self.log += link_posts(self, send_bytes, recv_bytes, f"{where}, tag {tag}")
        return super().all_to_all(send, send_bytes, received, recv_bytes, where, tag, envelope)


def link_posts(transport: Transport, sent: Sequence[int], received: Sequence[int], label: str) -> list[Post]:
    """The notes of a message with these numbers of bytes by peer; a pair of workers is a lane."""
    mine = transport.members[transport.rank]
    found = []
    for sends, sizes in ((False, received), (True, sent)):
        for peer, size in zip(transport.members, sizes, strict=True):
            if size:
                low, high = sorted((mine, peer))
                found.append(Post(("stage link", (low, high)), peer, sends, label, size))
    return found
