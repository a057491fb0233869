"""The weight of a gradient that passes from one chunk to another, and the mean weight of paths through several chunks.

Backward takes the C chunks in an order drawn at random; a gradient can pass from the chunk at place ``q`` only to a
chunk at a later place ``q'``. With the weights ``W(q, q')``, zero unless ``q < q'``, a path through m edges between
m + 1 different chunks weighs ``1^T W^m 1 (C - m - 1)! / C!`` in the mean over all orders; 1 means no bias.

- ``double``: ``W = 2``. The mean is ``2^m / (m + 1)!``, which is 1 for one edge only.
- ``position``: ``W = C / (C - 1 - q)``, the inverse of the chance that a chunk is at a later place. The mean is 1 for
  one edge; for longer paths the bias is smaller than that of ``double``, and goes away slowly as C grows.
- ``unbiased``: ``W = q + 2`` if ``q' = q + 1``, else 1. The mean is 1 for every m. Proof: with the falling powers
  ``(q)_m = q (q - 1) ... (q - m + 1)``, all chains of m edges that end at ``q'`` weigh ``v_m(q') = (m + 1) (q')_m``
  together: ``v_0 = 1``, and ``v_(m+1)(q') = sum_(q < q') v_m(q) + q' v_m(q' - 1)``, which are ``(q')_(m+1)`` and
  ``(m + 1) (q')_(m+1)``. Over all ends that is ``sum_q v_m(q) = (C)_(m+1) = C! / (C - m - 1)!``. The price is noise:
  the square of an edge's weight is about C / 3 in the mean, against 2 of ``double``.

A path that returns to a chunk has no order in which all its edges are current, so no weights make it unbiased.
"""

from __future__ import annotations

import math

DOUBLE, POSITION, UNBIASED, STALE = "double", "position", "unbiased", "stale"


def hop_weight(rule: str, chunks: int, place: int, later: int) -> float:
    """The weight ``W(place, later)`` for ``chunks`` chunks; places are counted from 0 in backward's order."""
    if rule == DOUBLE:
        return 2.0
    if rule == POSITION:
        return chunks / (chunks - 1 - place)
    if rule == UNBIASED:
        return place + 2.0 if later == place + 1 else 1.0
    return 1.0


def mean_path_weight(rule: str, chunks: int, hops: int, power: int = 1) -> float:
    """The mean, over all orders, of the weight of a path through ``hops`` + 1 different chunks, to the ``power``."""
    chains = [1.0] * chunks
    for _ in range(hops):
        chains = [
            sum(chains[place] * hop_weight(rule, chunks, place, later) ** power for place in range(later))
            for later in range(chunks)
        ]
    return sum(chains) / math.perm(chunks, hops + 1)
