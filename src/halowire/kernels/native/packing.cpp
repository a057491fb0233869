// One instruction-set level of the packing kernels. Compiled like level.cpp, but never contracting a * b + c: both ends of
// the wire must compute the same values whatever their level.
#include "aggregate_packed.h"
#include "pack.h"
#include "unpack.h"

namespace halowire {

extern const PackingKernels HALOWIRE_PACKING;
const PackingKernels HALOWIRE_PACKING = {::pack_rows, ::unpack_rows, ::aggregate_packed};

}  // namespace halowire
