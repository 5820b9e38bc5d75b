// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <vector>

#include "runtime/ranks.h"

namespace weft {

namespace gpu {
class Communicators;
}
class Mailboxes;

/// The synchronisation of the ranks of one context. A rank that fails wakes all waiting ranks.
class RankGroup {
 public:
  /// Without communicators the ranks share host memory. Mailboxes are for connected GPUs.
  RankGroup(size_t ranks, std::shared_ptr<gpu::Communicators> communicators, std::unique_ptr<Mailboxes> mailboxes);
  ~RankGroup();

  /// Prepares a run. Throws E602 if ranks on GPUs have failed before, because their communicators no longer exist.
  void begin();
  /// Notes that a rank ends before it has done all of its steps, and wakes the ranks that wait.
  void fail();
  Rank& rank(size_t number);

 private:
  class Member;
  /// Waits until all ranks have called this function; throws E603 if a rank has failed.
  void meet();
  void refuse() const;
  void exchange(size_t rank, const Exchange& mine);

  std::vector<std::unique_ptr<Member>> members_;
  std::shared_ptr<gpu::Communicators> communicators_;
  std::unique_ptr<Mailboxes> mailboxes_;
  std::vector<Exchange> posted_;
  std::mutex mutex_;
  std::condition_variable all_here_;
  size_t here_ = 0;
  uint64_t meetings_ = 0;
  std::atomic<bool> failed_{false};
  int64_t seed_ = 0;
};

}  // namespace weft
