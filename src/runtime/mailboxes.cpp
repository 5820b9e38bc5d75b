// SPDX-License-Identifier: Apache-2.0
#include "runtime/mailboxes.h"

#include <atomic>
#include <cstddef>
#include <cstring>

namespace weft {

Mailboxes::Mailboxes(std::span<const std::shared_ptr<gpu::Device>> devices) : is_aborted_(devices[0], sizeof(u32)) {
  *reinterpret_cast<u32*>(is_aborted_.data()) = 0;
  const auto ranks = static_cast<int64_t>(devices.size());
  for (const auto& device : devices) {
    device->use();
    inboxes_.emplace_back(device, 2 * ranks * mailbox_lines * static_cast<int64_t>(sizeof(MailboxLine)));
    gpu::Stream stream(device);
    stream.fill(inboxes_.back().data(), 0, inboxes_.back().bytes());
    stream.synchronize();
  }
  for (int64_t rank = 0; rank < ranks; ++rank) {
    Mailbox box{.rank = rank, .is_aborted = reinterpret_cast<const u32*>(is_aborted_.data())};
    std::vector<std::byte> bytes(offsetof(Mailbox, inboxes));
    std::memcpy(bytes.data(), &box, bytes.size());
    for (const gpu::Memory& inbox : inboxes_) {
      auto address = std::bit_cast<std::array<std::byte, sizeof(void*)>>(inbox.data());
      bytes.insert(bytes.end(), address.begin(), address.end());
    }
    const auto& device = devices[rank];
    device->use();
    mailboxes_.emplace_back(device, static_cast<int64_t>(bytes.size()));
    gpu::Stream stream(device);
    stream.copy_to_device(mailboxes_.back().data(), bytes.data(), mailboxes_.back().bytes());
    stream.synchronize();
  }
}

void Mailboxes::abort() { std::atomic_ref(*reinterpret_cast<u32*>(is_aborted_.data())).store(1); }

}  // namespace weft
