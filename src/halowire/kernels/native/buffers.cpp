// The pool behind kernels/buffers.py. A block may come back from any thread, with or without the interpreter lock.
#include "buffers.h"

#include <sys/mman.h>

#include <cstdlib>
#include <map>
#include <mutex>
#include <new>

namespace halowire {
namespace {

constexpr size_t kHuge = size_t{2} << 20;
constexpr size_t kLine = 64;

struct Pool {
  std::mutex mutex;
  std::multimap<size_t, void*> blocks;
  size_t bytes = 0;
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
      void* const block = found->second;
      p.bytes -= found->first;
      p.blocks.erase(found);
      return block;
    }
  }
  *capacity = need;
  return allocate(need);
}

void give_block(void* block, size_t capacity) {
  Pool& p = pool();
  const std::lock_guard<std::mutex> lock(p.mutex);
  p.blocks.emplace(capacity, block);
  p.bytes += capacity;
}

size_t cached_bytes() {
  Pool& p = pool();
  const std::lock_guard<std::mutex> lock(p.mutex);
  return p.bytes;
}

void release_blocks() {
  Pool& p = pool();
  const std::lock_guard<std::mutex> lock(p.mutex);
  for (const auto& entry : p.blocks) std::free(entry.second);
  p.blocks.clear();
  p.bytes = 0;
}

}  // namespace halowire
