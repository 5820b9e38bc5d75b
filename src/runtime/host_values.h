// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <span>
#include <vector>

#include "base/strings.h"
#include "plan/plan.h"

namespace weft {

/// For each step of kind `host`, which of its operands are containers that no later step reads: the function may change
/// them in place. Empty for other steps, and entirely empty if the plan has no host step.
std::vector<std::vector<bool>> last_container_reads(const Plan& plan);

/// The values of a run that are not in its memory: containers, and the strings behind the numbers in buffers of
/// strings. One for each context.
class HostValues {
 public:
  /// `strings` are the program's own strings; they must outlive this. A list of more than `memory_limit` bytes is E401.
  /// `last_reads` are those of the plan; they must outlive this as well.
  HostValues(const Plan& plan, const std::vector<std::vector<bool>>& last_reads, const StringPool& strings,
             int64_t memory_limit)
      : plan_(plan),
        last_reads_(last_reads),
        strings_(&strings),
        memory_limit_(memory_limit),
        codes_(plan.buffers.size()),
        containers_(plan.buffers.size()) {}

  /// Drops the values of the previous run.
  void begin() { strings_.clear(); }

  bool is_container(size_t buffer) const;
  bool is_text(size_t buffer) const {
    return !is_container(buffer) && plan_.buffers[buffer].shape.dtype == DType::string;
  }
  Tensor& container(size_t buffer) { return containers_[buffer]; }
  /// Memory with the numbers of an input's strings.
  std::byte* encode(size_t buffer, const Tensor& input);
  /// Memory for the numbers of an output's strings.
  std::byte* room(size_t buffer, size_t bytes);
  Tensor decode(std::vector<int64_t> dims, const std::byte* codes) const;
  void swap(size_t a, size_t b) { std::swap(containers_[a], containers_[b]); }

  /// Runs step number `index`, of kind `host`. `sizes` are the rank and the sizes of each of its buffers.
  void run(size_t index, std::span<const int64_t> sizes, std::span<std::byte* const> memory);

 private:
  /// `is_last`: no later step reads it.
  Tensor operand(size_t buffer, bool is_last, std::vector<int64_t> dims, const std::byte* memory);
  void store(size_t buffer, const std::vector<int64_t>& dims, Tensor result, std::byte* memory);

  const Plan& plan_;
  const std::vector<std::vector<bool>>& last_reads_;
  StringPool strings_;
  int64_t memory_limit_;
  std::vector<std::vector<int64_t>> codes_;
  std::vector<Tensor> containers_;
};

}  // namespace weft
