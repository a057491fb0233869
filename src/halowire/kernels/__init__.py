"""The hot loops: C++ kernels, each with a plain-torch twin, behind one dispatcher."""

from halowire.kernels.csr import Csr
from halowire.kernels.errors import InputError

__all__ = ["Csr", "InputError"]
