// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <span>
#include <vector>

#include "kernels/mailbox.h"
#include "targets/gpu/device.h"

namespace weft {

/// The memory through which kernels of connected GPUs (gpu::connect) send values to each other; one set per context.
class Mailboxes {
 public:
  explicit Mailboxes(std::span<const std::shared_ptr<gpu::Device>> devices);
  /// Returns the address of a rank's Mailbox, in the memory of the rank's device.
  std::byte* of(size_t rank) const { return mailboxes_[rank].data(); }
  /// Makes kernels that wait for a message continue without the message.
  void abort();

 private:
  std::vector<gpu::Memory> inboxes_, mailboxes_;
  gpu::PinnedMemory is_aborted_;
};

}  // namespace weft
