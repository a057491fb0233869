// The pool behind kernels/buffers.py. A block may come back from any thread, with or without the interpreter lock.
#include "buffers.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <mutex>
#include <new>

namespace halowire {
namespace {

constexpr size_t kHuge = size_t{2} << 20;
constexpr size_t kLine = 64;

size_t eighth_of_memory() {
  const long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGE_SIZE);
  return pages > 0 && size > 0 ? static_cast<size_t>(pages) / 8 * static_cast<size_t>(size) : size_t{1} << 30;
}

struct Block {
  void* memory;
  uint64_t given;  // when it came back, counted in blocks
};

// Idle blocks by capacity. They may take `floor` bytes, or as many as were ever in use at once where that is more: what
// comes back last is kept, so that sizes that are no longer asked for make room.
struct Pool {
  std::mutex mutex;
  std::multimap<size_t, Block> blocks;
  size_t bytes = 0;
  size_t in_use = 0;
  size_t most_in_use = 0;
  size_t floor = eighth_of_memory();
  uint64_t clock = 0;

  void use(size_t capacity) {
    in_use += capacity;
    most_in_use = std::max(most_in_use, in_use);
  }

  void trim() {
    const size_t limit = std::max(floor, most_in_use);
    while (bytes > limit) {
      const auto oldest = std::min_element(blocks.begin(), blocks.end(), [](const auto& a, const auto& b) {
        return a.second.given < b.second.given;
      });
      std::free(oldest->second.memory);
      bytes -= oldest->first;
      blocks.erase(oldest);
    }
  }
};

// Never destroyed: tensors may outlive the destructors of static objects.
Pool& pool() {
  static Pool* const instance = new Pool;
  return *instance;
}

void* allocate(size_t capacity) {
  void* const block = std::aligned_alloc(capacity >= kHuge ? kHuge : kLine, capacity);
  if (block == nullptr) throw std::bad_alloc();
#if defined(MADV_HUGEPAGE)
  if (capacity >= kHuge) madvise(block, capacity, MADV_HUGEPAGE);
#endif
  return block;
}

}  // namespace

void* take_block(size_t bytes, size_t* capacity) {
  const size_t unit = bytes >= kHuge ? kHuge : kLine;
  const size_t need = (bytes + unit - 1) / unit * unit;
  Pool& p = pool();
  {
    const std::lock_guard<std::mutex> lock(p.mutex);
    const auto found = p.blocks.lower_bound(need);
    if (found != p.blocks.end() && found->first <= 2 * need) {
      *capacity = found->first;
      void* const block = found->second.memory;
      p.bytes -= found->first;
      p.use(found->first);
      p.blocks.erase(found);
      return block;
    }
  }
  void* const block = allocate(need);
  const std::lock_guard<std::mutex> lock(p.mutex);
  p.use(need);
  *capacity = need;
  return block;
}

void give_block(void* block, size_t capacity) {
  Pool& p = pool();
  const std::lock_guard<std::mutex> lock(p.mutex);
  p.blocks.emplace(capacity, Block{block, p.clock++});
  p.bytes += capacity;
  p.in_use -= capacity;
  p.trim();
}

size_t cached_bytes() {
  Pool& p = pool();
  const std::lock_guard<std::mutex> lock(p.mutex);
  return p.bytes;
}

void release_blocks() {
  Pool& p = pool();
  const std::lock_guard<std::mutex> lock(p.mutex);
  for (const auto& entry : p.blocks) std::free(entry.second.memory);
  p.blocks.clear();
  p.bytes = 0;
  p.most_in_use = p.in_use;
}

size_t set_floor(size_t bytes) {
  Pool& p = pool();
  const std::lock_guard<std::mutex> lock(p.mutex);
  std::swap(p.floor, bytes);
  p.trim();
  return bytes;
}

}  // namespace halowire
