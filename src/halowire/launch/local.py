"""Local workers: N processes on this machine, started by torch's elastic launcher."""

from __future__ import annotations

import logging
import sys
import uuid
from collections.abc import Sequence

from torch.distributed.elastic.multiprocessing import SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from torch.distributed.launcher.api import LaunchConfig, elastic_launch

USAGE, INTERRUPTED, FAILED = 2, 130, 1


def run_local(workers: int, module: str, arguments: Sequence[str], max_restarts: int = 0) -> int:
    """Run ``python -m module arguments`` in ``workers`` processes; the exit code of the whole.

    The launcher's own log is silenced: a worker that fails has already said why, in one line.
    """
    logging.getLogger("torch.distributed.elastic").setLevel(logging.CRITICAL)
    config = LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=workers,
        run_id=uuid.uuid4().hex,
        rdzv_backend="c10d",
        rdzv_endpoint="localhost:0",
        max_restarts=max_restarts,
        monitor_interval=0.1,
    )
    try:
        elastic_launch(config, sys.executable)("-u", "-m", module, *arguments)
    except ChildFailedError as error:
        codes = {failure.exitcode for failure in error.failures.values()}
        return next((code for code in (USAGE, INTERRUPTED) if code in codes), FAILED)
    except (SignalException, KeyboardInterrupt):
        return INTERRUPTED
    return 0
