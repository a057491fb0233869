"""Stages, chunks, schedule, historical rows: layer parallelism (GNNPipe) and its hybrid with graph parallelism.

Workers are a **mesh** of stages x parts. A stage holds a contiguous range of the model's blocks and, of its part, all
rows; a part is cut into C **chunks** by METIS. In an epoch every chunk goes forward through the S stages, one after
another, then all go backward in the reverse order, and there is one optimiser step: no weight is ever stale. With
equal stages and chunks a worker is idle for (S-1)/(C+S-1) of the time, the bubble.

When a chunk is aggregated, rows of chunks before it in this epoch's order are current, rows of those after it are
historical. Three techniques keep this close to exact training, each with its switch: the order is drawn anew every
epoch (``mesh.shuffle``), historical rows are a snapshot that stays for a period of epochs (``mesh.history``, see
``history``), and gradients along edges between chunks are weighted so that every edge counts once in the mean
(``mesh.gradient_rule``, see ``chunk_spread``). With one chunk per part everything is exact. Evaluation always is:
float32, all rows current.

Bytes per epoch, float32, N nodes, H hidden columns: ``2 (S-1) N H 4`` between stages, twice that for GCNII, whose
initial rows travel too, however deep the model is; and ``2 H 4`` per halo row and layer between parts. Both kinds of
rows take any code and schedule of ratios (``link``, ``chunk_exchange``), and the ledger counts them apart.

Files in the order of the data: ``mesh`` (who is where), ``split`` and ``measure`` (which blocks on which stage),
``chunks``, ``stage``, ``blocks``, ``pieces``, ``inputs`` (the model as the engine runs it), ``spread`` and
``chunk_spread`` (aggregation), ``history``, ``lists`` and ``chunk_exchange`` (halo rows of chunks), ``link`` and
``border`` (rows between stages), ``engine`` (the schedule), ``timeline`` (what a worker did when).
"""
