// One instruction-set level of the kernels; compiled once per level with that level's flags and HALOWIRE_LEVEL as the name.
#include "activate.h"
#include "aggregate.h"
#include "attend.h"
#include "look.h"
#include "mark.h"
#include "scan.h"

namespace halowire {

extern const Kernels HALOWIRE_LEVEL;
const Kernels HALOWIRE_LEVEL = {::aggregate, ::activate, ::activate_backward, ::attend, ::attend_targets,
                                ::attend_sources, ::scan_range, ::look, ::digests, ::mark};

}  // namespace halowire
