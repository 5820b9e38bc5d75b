// SPDX-License-Identifier: Apache-2.0
#pragma once
/// The data that pass between the host and a compiled kernel. Plain structs without vector types and device code, so
/// that host code may include this file too.

namespace weft {

using i8 = __INT8_TYPE__;
using i16 = __INT16_TYPE__;
using i32 = __INT32_TYPE__;
using i64 = __INT64_TYPE__;
using u8 = __UINT8_TYPE__;
using u16 = __UINT16_TYPE__;
using u32 = __UINT32_TYPE__;
using u64 = __UINT64_TYPE__;

/// The faults of a kernel. Saved programs contain these numbers.
enum class FaultKind : i32 {
  none = 0,
  out_of_bounds = 1,  // an access outside its buffer, which was dropped (a load gave zero)
  index = 2,          // an index (`offset`) that is outside an axis of `size` elements
  race = 3,           // another task of the step wrote these bytes
  unwritten = 4,      // nobody wrote the bytes that are read
  host_function = 5,  // the host function of a custom operator failed with code `offset`
};

/// The first fault of a launch. Indices and host functions are always checked, the rest in checked kernels only.
struct KernelFault {
  FaultKind kind = FaultKind::none;
  i32 buffer = 0;  // index into the kernel's buffers
  i64 offset = 0;  // first byte of the access, relative to the buffer (may be negative); or see FaultKind
  i64 size = 0;    // bytes of the access; or see FaultKind
  i64 bytes = 0;   // bytes of the buffer
};

/// Arguments of a kernel on the CPU: `void NAME(const LaunchArgs*, i64 begin, i64 end)` runs tasks [begin, end).
struct LaunchArgs {
  void* const* buffers = nullptr;
  const i64* sizes = nullptr;
  void* scratch = nullptr;  // private to the running thread, 64-byte aligned
  i64 scratch_bytes = 0;
  const i64* buffer_bytes = nullptr;  // per buffer; read by checked kernels only
  KernelFault* fault = nullptr;
  // A stamp for each byte of the watched buffers: 0 if the byte is unwritten, otherwise the number of the task that
  // wrote it. Stamps up to `earlier` belong to earlier steps; `stamp` is the number of this task. Checked kernels only.
  u32* const* stamps = nullptr;
  u32 earlier = 0, stamp = 0;
};
/// The stamp of bytes that unchecked code has written.
inline constexpr u32 unknown_stamp = ~u32(0);

/// Arguments of a kernel on a GPU, passed by value: these bytes are the kernarg block.
template <int Buffers>
struct DeviceArgs {
  void* buffers[Buffers];
  const i64* sizes;
  // Checked kernels only: the last stamp of the earlier steps, then for each buffer its size in bytes and the address
  // of its stamps (0: writes are not tracked). Block i writes the stamp (last stamp of the earlier steps) + 1 + i.
  const i64* watched;
  KernelFault* fault;
};

}  // namespace weft
