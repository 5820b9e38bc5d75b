// SPDX-License-Identifier: Apache-2.0
#include "runtime/rank_group.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <thread>

#include "base/error.h"
#include "base/numeric.h"
#include "base/random.h"
#include "runtime/mailboxes.h"
#include "targets/gpu/communicators.h"

namespace weft {

/// Adds elements [begin, end) of all ranks' operands in rank order, so that every rank gets identical results.
template <class T>
static void sum_plain(const std::vector<Exchange>& all, std::byte* to, int64_t begin, int64_t end) {
  auto* out = reinterpret_cast<T*>(to);
  std::copy(reinterpret_cast<const T*>(all[0].from) + begin, reinterpret_cast<const T*>(all[0].from) + end,
            out + begin);
  for (size_t r = 1; r < all.size(); ++r) {
    const auto* in = reinterpret_cast<const T*>(all[r].from);
    for (int64_t i = begin; i < end; ++i) out[i] = static_cast<T>(out[i] + in[i]);
  }
}

/// Adds 16-bit floats of all ranks in rank order, in f32, and rounds each sum once.
static void sum_narrow(const std::vector<Exchange>& all, std::byte* to, int64_t begin, int64_t end) {
  const FloatFormat format = float_format(all[0].type);
  bool is_bf16 = all[0].type == DType::bf16;
  auto* out = reinterpret_cast<uint16_t*>(to);
  for (int64_t i = begin; i < end; ++i) {
    float sum = 0;
    for (const Exchange& e : all) {
      uint16_t x = reinterpret_cast<const uint16_t*>(e.from)[i];
      sum += is_bf16 ? std::bit_cast<float>(uint32_t{x} << 16) : static_cast<float>(decode_float(x, format));
    }
    out[i] = static_cast<uint16_t>(encode_float(sum, format));
  }
}

static void sum_part(const std::vector<Exchange>& all, std::byte* to, int64_t begin, int64_t end) {
  switch (all[0].type) {
    case DType::f32: return sum_plain<float>(all, to, begin, end);
    case DType::f64: return sum_plain<double>(all, to, begin, end);
    case DType::i32: return sum_plain<uint32_t>(all, to, begin, end);  // unsigned, because sums may wrap
    case DType::i64: return sum_plain<uint64_t>(all, to, begin, end);
    case DType::f16:
    case DType::bf16: return sum_narrow(all, to, begin, end);
    default: internal_error(cat("ranks add elements of ", all[0].type));
  }
}

class RankGroup::Member final : public Rank {
 public:
  Member(RankGroup& group, size_t number) : group_(group), number_(number) {}

  void exchange(const Exchange& mine, const gpu::Stream* stream) override {
    check();
    if (stream) group_.communicators_->queue(number_, mine.fn, mine.type, mine.from, mine.to, mine.elements, *stream);
    else group_.exchange(number_, mine);
  }

  void wait(const gpu::Stream& stream) override {
    constexpr int spins = 2000;  // iterations before the thread sleeps: about the duration of a small model's run
    for (int tried = 0; !stream.is_done(); ++tried) {
      check();
      group_.communicators_->check(number_);
      if (tried > spins) std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }

  void check() override {
    if (group_.failed_) group_.refuse();
  }
  std::byte* mailbox() const override { return group_.mailboxes_ ? group_.mailboxes_->of(number_) : nullptr; }
  int64_t seed() const override { return group_.seed_; }

 private:
  RankGroup& group_;
  size_t number_;
};

RankGroup::RankGroup(size_t ranks, std::shared_ptr<gpu::Communicators> communicators,
                     std::unique_ptr<Mailboxes> mailboxes)
    : communicators_(std::move(communicators)), mailboxes_(std::move(mailboxes)), posted_(ranks) {
  for (size_t i = 0; i < ranks; ++i) members_.push_back(std::make_unique<Member>(*this, i));
}

RankGroup::~RankGroup() = default;

void RankGroup::begin() {
  if (communicators_) communicators_->check_alive();
  failed_ = false;
  here_ = 0;
  seed_ = fresh_seed();
}

void RankGroup::fail() {
  {
    std::lock_guard lock(mutex_);
    if (failed_.exchange(true)) return;
  }
  all_here_.notify_all();
  if (mailboxes_) mailboxes_->abort();
  if (communicators_) communicators_->abort();
}

Rank& RankGroup::rank(size_t number) { return *members_[number]; }

void RankGroup::refuse() const {
  throw Error({.kind = ErrorKind::device, .code = "E603", .what = "another rank of the program has failed"});
}

void RankGroup::meet() {
  std::unique_lock lock(mutex_);
  if (failed_) refuse();
  uint64_t meeting = meetings_;
  if (++here_ == posted_.size()) {
    here_ = 0;
    ++meetings_;
    all_here_.notify_all();
    return;
  }
  all_here_.wait(lock, [&] { return meetings_ != meeting || failed_; });
  if (meetings_ == meeting) refuse();
}

/// Runs a collective in host memory. For a sum, each rank sums its share of the elements (reduce-scatter), then reads
/// the other ranks' shares (all-gather). Ends with a barrier.
void RankGroup::exchange(size_t rank, const Exchange& mine) {
  posted_[rank] = mine;
  meet();
  for (const Exchange& other : posted_) {
    weft::check(other.fn == mine.fn && other.type == mine.type && other.elements == mine.elements,
                "all ranks take the same step");
  }
  auto ranks = static_cast<int64_t>(posted_.size());
  auto bytes = [&](int64_t elements) { return byte_size(mine.type, elements); };
  auto share = [&](size_t r) { return mine.elements * static_cast<int64_t>(r) / ranks; };
  if (mine.fn == CollectiveFn::sum) {
    sum_part(posted_, mine.to, share(rank), share(rank + 1));
    meet();
  }
  for (size_t r = 0; r < posted_.size(); ++r) {
    int64_t begin = mine.fn == CollectiveFn::sum ? share(r) : 0;
    int64_t end = mine.fn == CollectiveFn::sum ? share(r + 1) : mine.elements;
    const std::byte* from = mine.fn == CollectiveFn::sum ? posted_[r].to + bytes(begin) : posted_[r].from;
    std::byte* to = mine.fn == CollectiveFn::sum ? mine.to + bytes(begin) : mine.to + r * bytes(mine.elements);
    if (end > begin && from != to) std::memcpy(to, from, bytes(end - begin));
  }
  meet();
}

}  // namespace weft
