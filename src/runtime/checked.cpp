// SPDX-License-Identifier: Apache-2.0
#include "runtime/checked.h"

#include <algorithm>
#include <cstring>

namespace weft {

void CheckedRun::begin(BufferId buffer, std::byte* memory) {
  stamps_[buffer].assign(bytes_[buffer], 0);
  if (bytes_[buffer] > 0) std::memset(memory, 0xff, bytes_[buffer]);
}

void CheckedRun::resize(BufferId buffer, int64_t bytes) {
  if (bytes_[buffer] == bytes) return;
  bytes_[buffer] = bytes;
  stamps_[buffer].clear();
}

void CheckedRun::swap(BufferId a, BufferId b) {
  std::swap(bytes_[a], bytes_[b]);
  std::swap(stamps_[a], stamps_[b]);
}

void CheckedRun::written(std::span<const BufferId> buffers) {
  ++last_;
  for (BufferId id : buffers) std::ranges::fill(stamps_[id], last_);
}

KernelFault CheckedRun::run(Entry* entry, LaunchArgs args, std::span<const BufferId> buffers, int64_t tasks) {
  std::vector<i64> bytes;
  std::vector<u32*> stamps;
  for (BufferId id : buffers) {
    bytes.push_back(bytes_[id]);
    stamps.push_back(stamps_[id].empty() ? nullptr : stamps_[id].data());
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
