// SPDX-License-Identifier: Apache-2.0
#pragma once
/// Code that the stand-ins for AMD's libraries share: the host does the work in stream order. This tests descriptors,
/// ordering and graph capture.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>

extern "C" {
int hipHostMalloc(void** memory, size_t bytes, unsigned flags);
int hipMemcpyDtoHAsync(void* to, void* from, size_t bytes, void* stream);
int hipMemcpyHtoDAsync(void* to, const void* from, size_t bytes, void* stream);
int hipLaunchHostFunc(void* stream, void (*function)(void*), void* data);
int hipStreamSynchronize(void* stream);
}

#define EXPORTED extern "C" __attribute__((visibility("default"))) int

namespace {

enum class Element { f32, f16, bf16 };

inline int64_t bytes_of(Element element) { return element == Element::f32 ? 4 : 2; }

inline float read(Element element, const std::byte* data, int64_t at) {
  const std::byte* from = data + at * bytes_of(element);
  float value;
  uint16_t half;
  _Float16 narrow;
  switch (element) {
    case Element::f32: return std::memcpy(&value, from, sizeof value), value;
    case Element::f16: return std::memcpy(&narrow, from, sizeof narrow), static_cast<float>(narrow);
    case Element::bf16: break;
  }
  std::memcpy(&half, from, sizeof half);
  return __builtin_bit_cast(float, uint32_t{half} << 16);
}

inline void write(Element element, std::byte* data, int64_t at, float value) {
  std::byte* to = data + at * bytes_of(element);
  const auto narrow = static_cast<_Float16>(value);
  const auto wide = __builtin_bit_cast(uint32_t, value);
  // bf16, ties to even; for finite numbers only.
  const auto half = static_cast<uint16_t>((wide + 0x7fff + (wide >> 16 & 1)) >> 16);
  switch (element) {
    case Element::f32: std::memcpy(to, &value, sizeof value); return;
    case Element::f16: std::memcpy(to, &narrow, sizeof narrow); return;
    case Element::bf16: std::memcpy(to, &half, sizeof half); return;
  }
}

inline std::byte* pinned(size_t bytes) {
  void* memory = nullptr;
  hipHostMalloc(&memory, bytes, 0);
  return static_cast<std::byte*>(memory);
}

/// An operand or result of queued work: device memory and its pinned copy on the host. Copies are kept until the
/// process ends, because a captured graph may run the work again at any time.
struct Operand {
  void* device;
  size_t bytes;
  std::byte* host = nullptr;
};

template <class Job>
int queue(Job* job, Operand& a, Operand& b, Operand& result, void* stream) {
  int error = 0;
  for (Operand* operand : {&a, &b, &result}) operand->host = pinned(operand->bytes);
  for (const Operand* operand : {&a, &b})
    if (!error) error = hipMemcpyDtoHAsync(operand->host, operand->device, operand->bytes, stream);
  auto run = [](void* data) { static_cast<Job*>(data)->run(); };
  if (!error) error = hipLaunchHostFunc(stream, run, job);
  return error ? error : hipMemcpyHtoDAsync(result.device, result.host, result.bytes, stream);
}

template <class T>
int drop(void* handle) {
  delete static_cast<T*>(handle);
  return 0;
}

}  // namespace
