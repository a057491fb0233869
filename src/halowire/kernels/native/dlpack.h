// Hands a pool block to torch as a DLPack capsule: the block returns to the pool when the tensor's storage dies.
#pragma once
#include <Python.h>

#include <cstdint>

#include "buffers.h"

namespace halowire {

// The layout of DLPack's managed tensor (version 0.x), which torch.from_dlpack takes over.
struct ManagedTensor {
  void* data;
  int32_t device_type, device_id;
  int32_t dims;
  uint8_t type_code, type_bits;
  uint16_t type_lanes;
  int64_t* shape;
  int64_t* strides;
  uint64_t byte_offset;
  void* context;
  void (*deleter)(ManagedTensor*);
};

struct Buffer {
  ManagedTensor tensor;
  int64_t shape[2], strides[2];
  size_t capacity;
};

inline void free_buffer(ManagedTensor* tensor) {
  Buffer* const buffer = static_cast<Buffer*>(tensor->context);
  give_block(tensor->data, buffer->capacity);
  delete buffer;
}

// torch renames the capsule when it takes the tensor over; one that was never taken gives its block back here.
inline void free_capsule(PyObject* capsule) {
  if (!PyCapsule_IsValid(capsule, "dltensor")) return;
  ManagedTensor* const tensor = static_cast<ManagedTensor*>(PyCapsule_GetPointer(capsule, "dltensor"));
  tensor->deleter(tensor);
}

inline PyObject* buffer_capsule(int64_t rows, int64_t cols, int64_t stride) {
  constexpr int32_t cpu = 1;
  constexpr uint8_t floating = 2, bits = 32;
  Buffer* const buffer = new Buffer;
  void* const block = take_block(static_cast<size_t>(rows * stride) * sizeof(float), &buffer->capacity);
  buffer->shape[0] = rows;
  buffer->shape[1] = cols;
  buffer->strides[0] = stride;
  buffer->strides[1] = 1;
  buffer->tensor = {block, cpu, 0, 2, floating, bits, 1, buffer->shape, buffer->strides, 0, buffer, free_buffer};
  return PyCapsule_New(&buffer->tensor, "dltensor", free_capsule);
}

}  // namespace halowire
