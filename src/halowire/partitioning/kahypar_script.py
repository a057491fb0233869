"""A program of its own that partitions one hypergraph with Mt-KaHyPar; ``hypergraph.py`` starts it.

A second call in one process finds another partition than the first, whatever the seed, so every call has a process.
The program imports neither torch nor halowire, so that it starts at once.
"""

from __future__ import annotations

import itertools
import sys
from pathlib import Path

import numpy as np

ONE_THREAD = 1  # several threads would find another partition in every run


def main(folder: Path) -> None:
    """Read ``indptr``, ``pins``, ``weight`` and ``numbers`` (parts, seed) from ``folder``; write ``owner`` there.

    Net ``i`` joins the nodes ``pins[indptr[i] : indptr[i + 1]]``.
    """
    import mtkahypar

    indptr, pins, weight, numbers, slack = (
        np.load(folder / f"{name}.npy").tolist() for name in ("indptr", "pins", "weight", "numbers", "slack")
    )
    parts, seed = numbers
    nets = [pins[first:last] for first, last in itertools.pairwise(indptr)]
    mtkahypar.set_seed(seed)
    start = mtkahypar.initialize(ONE_THREAD, False)
    context = start.context_from_preset(mtkahypar.PresetType.DEFAULT)
    context.set_partitioning_parameters(parts, slack, mtkahypar.Objective.KM1)
    context.logging = False
    hypergraph = start.create_hypergraph(context, len(weight), len(nets), nets, weight, [1] * len(nets))
    np.save(folder / "owner.npy", np.array(hypergraph.partition(context).get_partition(), dtype=np.int64))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
