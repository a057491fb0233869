// The Python module halowire.kernels._native: binds every native kernel.
#include <nanobind/nanobind.h>

namespace nb = nanobind;

NB_MODULE(_native, m) { m.doc() = "halowire's native kernels"; }
