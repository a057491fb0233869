// A caching pool of large blocks: a fresh buffer every epoch would cost page faults, a cached one costs nothing.
#pragma once
#include <cstddef>

namespace halowire {

void* take_block(size_t bytes, size_t* capacity);
void give_block(void* block, size_t capacity);
size_t cached_bytes();
void release_blocks();
// Idle blocks may take this many bytes whatever was in use; the floor before is returned.
size_t set_floor(size_t bytes);

}  // namespace halowire
