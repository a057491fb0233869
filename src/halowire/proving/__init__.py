"""A device is proven against the CPU: kernels, recipes, host waits, and the rates of kernels and links."""

from halowire.proving.proof import prove_worker, proving_workers
from halowire.proving.subject import Subject, WaitsByEpoch, this_gpu

__all__ = ["Subject", "WaitsByEpoch", "prove_worker", "proving_workers", "this_gpu"]
