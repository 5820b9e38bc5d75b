// SPDX-License-Identifier: Apache-2.0
#pragma once
/// The memory through which ranks on several GPUs send values to each other: all_reduce.h writes it, and the host
/// prepares it (runtime/mailboxes.h). Every rank has an inbox, and a Mailbox with the addresses of all inboxes.
#include "launch.h"

namespace weft {

/// A line of an inbox: eight bytes of data in two halves, each written together with the number of its message.
struct MailboxLine {
  u32 low = 0, low_message = 0, high = 0, high_message = 0;
};

/// Threads of a block (each thread sends one line to every other rank), and the most blocks of a message.
inline constexpr int mailbox_threads = 256, max_mailbox_blocks = 256;
inline constexpr i64 mailbox_lines = i64(mailbox_threads) * max_mailbox_blocks;
inline constexpr i64 max_mailbox_bytes = mailbox_lines * 8;  ///< of a message

/// An inbox is MailboxLine[2][ranks][mailbox_lines]: a buffer for even and one for odd message numbers, each with lines
/// from every rank. Two buffers are enough: a rank sends message n + 2 after it has received all of message n + 1,
/// which other ranks send after they have read message n.
struct Mailbox {
  i64 rank = 0;
  const u32* is_aborted = nullptr;        // in memory of the host: not 0 when a rank has failed
  u32 messages[max_mailbox_blocks] = {};  // for each block, the number of its last message
  MailboxLine* inboxes[1] = {};           // one pointer for each rank: the allocated array is longer
};

}  // namespace weft
