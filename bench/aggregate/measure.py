"""Times one thread count in a process of its own: native aggregation and torch's CSR product, taking turns."""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable

import torch
from torch import Tensor

from halowire.graph import rmat
from halowire.kernels import Csr, empty

Contender = Callable[[], object]


def contenders(a: Csr, columns: int) -> dict[str, Contender]:
    """Every way to compute ``a @ x``, by ``"<who> <pages>"``; all get the same values and a warm output buffer.

    torch multiplies with int32 and with int64 indices; memory is what torch allocates ("ordinary") or in huge pages.
    """
    assert a.weight is not None
    shape = (a.num_rows, a.num_cols)
    narrow = torch.sparse_csr_tensor(a.indptr.int(), a.indices, a.weight, shape, check_invariants=False)
    wide = torch.sparse_csr_tensor(a.indptr, a.indices.long(), a.weight, shape, check_invariants=False)
    plain = torch.randn(a.num_cols, columns, generator=torch.Generator().manual_seed(0))
    found: dict[str, Contender] = {}
    for pages, x, out in (
        ("ordinary", plain, torch.zeros(a.num_rows, columns)),
        ("huge", empty(a.num_cols, columns).copy_(plain), empty(a.num_rows, columns).zero_()),
    ):
        found[f"native {pages}"] = lambda x=x, out=out: a.matmul(x, out=out)
        found[f"torch int32 {pages}"] = lambda x=x, out=out: torch.mm(narrow, x, out=out)
        found[f"torch int64 {pages}"] = lambda x=x, out=out: torch.mm(wide, x, out=out)
        check(a.matmul(x), narrow @ x)
    return found


def check(native: Tensor, reference: Tensor) -> None:
    """Raise if the two results differ by more than rounding."""
    error = float((native - reference).abs().max() / reference.abs().max())
    if error > 1e-4:
        raise SystemExit(f"native and torch differ by {error:.1e} of the largest value: do not trust these timings")


def best_seconds(found: dict[str, Contender], repeats: int) -> dict[str, float]:
    """The fastest of ``repeats`` runs of each; they take turns so that a disturbance hits all of them."""
    best = dict.fromkeys(found, float("inf"))
    for _ in range(repeats):
        for name, run in found.items():
            start = time.perf_counter()
            run()
            best[name] = min(best[name], time.perf_counter() - start)
    return best


def main() -> None:
    """Print one JSON object: seconds by columns and contender."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, required=True)
    parser.add_argument("--edges", type=int, required=True)
    parser.add_argument("--columns", type=int, nargs="+", required=True)
    parser.add_argument("--repeats", type=int, required=True)
    parser.add_argument("--threads", type=int, required=True)
    options = parser.parse_args()
    warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
    torch.set_num_threads(options.threads)
    adj = rmat(options.nodes, options.edges, num_features=1, num_classes=2, seed=0).adj
    a = adj.with_weight(torch.rand(adj.nnz, generator=torch.Generator().manual_seed(1)))
    seconds = {str(columns): best_seconds(contenders(a, columns), options.repeats) for columns in options.columns}
    print(json.dumps({"threads": options.threads, "edges": a.nnz, "seconds": seconds}))


if __name__ == "__main__":
    main()
