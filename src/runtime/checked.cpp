// SPDX-License-Identifier: Apache-2.0
#include "runtime/checked.h"

#include <algorithm>
#include <cstring>

namespace weft {

void CheckedRun::begin(int buffer, std::byte* memory) {
  auto at = static_cast<size_t>(buffer);
  stamps_[at].assign(static_cast<size_t>(bytes_[at]), 0);
  if (bytes_[at] > 0) std::memset(memory, 0xff, static_cast<size_t>(bytes_[at]));
}

void CheckedRun::resize(int buffer, int64_t bytes) {
  auto at = static_cast<size_t>(buffer);
  if (bytes_[at] == bytes) return;
  bytes_[at] = bytes;
  stamps_[at].clear();
}

void CheckedRun::swap(int a, int b) {
  auto x = static_cast<size_t>(a), y = static_cast<size_t>(b);
  std::swap(bytes_[x], bytes_[y]);
  std::swap(stamps_[x], stamps_[y]);
}

void CheckedRun::written(std::span<const int> buffers) {
  ++last_;
  for (int id : buffers) std::ranges::fill(stamps_[id], last_);
}

KernelFault CheckedRun::run(Entry* entry, LaunchArgs args, std::span<const int> buffers, int64_t tasks) {
  std::vector<i64> bytes;
  std::vector<u32*> stamps;
  for (int id : buffers) {
    auto at = static_cast<size_t>(id);
    bytes.push_back(bytes_[at]);
    stamps.push_back(stamps_[at].empty() ? nullptr : stamps_[at].data());
  }
  KernelFault fault;
  args.buffer_bytes = bytes.data();
  args.stamps = stamps.data();
  args.fault = &fault;
  args.earlier = last_;
  for (int64_t task = 0; task < tasks && fault.kind == FaultKind::none; ++task) {
    args.stamp = ++last_;
    entry(&args, task, task + 1);
  }
  return fault;
}

}  // namespace weft
