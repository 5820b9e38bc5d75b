// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <atomic>
#include <memory>
#include <vector>

#include "base/library_call.h"
#include "targets/gpu/device.h"

namespace weft::gpu {

/// Throws E501 unless the vendor's library for collectives (NCCL, RCCL) is installed.
void need_collectives(const Device& device);

/// Collectives between the devices of several ranks, by NCCL or RCCL. The library is found with dlopen at run time
/// (WEFT_NCCL_LIBRARY and WEFT_RCCL_LIBRARY name another file). A rank's calls come from one thread at a time.
class Communicators {
 public:
  /// Throws E501 without the library, E602 when the library refuses these devices.
  explicit Communicators(std::vector<std::shared_ptr<Device>> devices);
  ~Communicators();
  Communicators(const Communicators&) = delete;

  /// Queues one rank's part of a collective on its stream; works while a graph is captured.
  void queue(size_t rank, CollectiveFn fn, DType type, const std::byte* from, std::byte* to, int64_t elements,
             const Stream& stream) const;
  /// Throws E602 if the library has reported an error for this rank.
  void check(size_t rank) const;
  /// Throws E602 after an abort.
  void check_alive() const;
  /// Aborts the work queued on all devices. Nothing more can be queued.
  void abort();

 private:
  std::vector<std::shared_ptr<Device>> devices_;
  std::vector<Handle> communicators_;
  std::atomic<bool> is_aborted_{false};
};

}  // namespace weft::gpu
