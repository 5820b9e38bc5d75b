// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <atomic>
#include <memory>
#include <vector>

#include "base/library_call.h"
#include "targets/gpu/device.h"

namespace weft::gpu {

/// E501 unless the vendor's library for collectives (NCCL, RCCL) is here.
void need_collectives(const Device& device);

/// Collectives of the devices of several ranks, by NCCL or RCCL, which are found with dlopen at run time
/// (WEFT_NCCL_LIBRARY, WEFT_RCCL_LIBRARY name other files). A rank's calls come from one thread at a time.
class Communicators {
 public:
  /// Throws E501 without the library, E602 when the library refuses these devices.
  explicit Communicators(std::vector<std::shared_ptr<Device>> devices);
  ~Communicators();
  Communicators(const Communicators&) = delete;

  /// Queues one rank's side on its stream, also while a graph is captured.
  void queue(size_t rank, CollectiveFn fn, DType type, const std::byte* from, std::byte* to, int64_t elements,
             const Stream& stream) const;
  /// E602 when the library has met an error of this rank's since.
  void check(size_t rank) const;
  /// E602 after an abort.
  void check_alive() const;
  /// Aborts the work queued on all devices. Nothing more can be queued.
  void abort();

 private:
  std::vector<std::shared_ptr<Device>> devices_;
  std::vector<Handle> communicators_;
  std::atomic<bool> is_aborted_{false};
};

}  // namespace weft::gpu
