// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <span>
#include <vector>

#include "kernels/mailbox.h"
#include "targets/gpu/device.h"

namespace weft {

/// Memory through which kernels of connected GPUs send values to each other (gpu::connect). Each context has one set.
class Mailboxes {
 public:
  explicit Mailboxes(std::span<const std::shared_ptr<gpu::Device>> devices);
  /// Returns a rank's Mailbox, in the memory of its device.
  std::byte* of(size_t rank) const { return mailboxes_[rank].data(); }
  /// Makes kernels that wait for a message continue without it.
  void abort();

 private:
  std::vector<gpu::Memory> inboxes_, mailboxes_;
  gpu::PinnedMemory is_aborted_;
};

}  // namespace weft
