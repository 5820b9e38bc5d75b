// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <span>
#include <vector>

#include "base/strings.h"
#include "plan/plan.h"

namespace weft {

/// Returns, for each host step and operand, true if the function may change the operand in place, because it is a
/// container that no later step reads. Entries of other steps are empty; without host steps the list is empty.
PerStep<std::vector<bool>> last_container_reads(const Plan& plan);

/// The values of a run that are not in its buffers: containers, and strings (buffers hold only the strings' numbers).
/// Each context has one such object.
class HostValues {
 public:
  /// `strings` are the program's own strings, `last_reads` the plan's last_container_reads; both must outlive this
  /// object. A container of more than `memory_limit` bytes throws E401.
  HostValues(const Plan& plan, const PerStep<std::vector<bool>>& last_reads, const StringPool& strings,
             int64_t memory_limit)
      : plan_(plan),
        last_reads_(last_reads),
        strings_(&strings),
        memory_limit_(memory_limit),
        codes_(plan.buffers.size()),
        containers_(plan.buffers.size()) {}

  /// Drops the strings of the previous run.
  void begin() { strings_.clear(); }

  bool is_container(BufferId buffer) const;
  bool is_text(BufferId buffer) const {
    return !is_container(buffer) && plan_.buffers[buffer].shape.dtype == DType::string;
  }
  Tensor& container(BufferId buffer) { return containers_[buffer]; }
  /// Returns memory that holds the numbers of an input's strings.
  std::byte* encode(BufferId buffer, const Tensor& input);
  /// Returns memory for the numbers of an output's strings.
  std::byte* room(BufferId buffer, size_t bytes);
  Tensor decode(std::vector<int64_t> dims, const std::byte* codes) const;
  void swap(BufferId a, BufferId b) { std::swap(containers_[a], containers_[b]); }

  /// Runs a host step. `sizes` holds, for each of the step's buffers, the rank and then the sizes.
  void run(StepId id, std::span<const int64_t> sizes, const PerBuffer<std::byte*>& memory);

 private:
  /// Returns the value of a buffer. `is_last`: no later step reads the container in the buffer, which is moved out.
  Tensor operand(BufferId buffer, bool is_last, std::vector<int64_t> dims, const std::byte* memory);
  void store(BufferId buffer, const std::vector<int64_t>& dims, Tensor result, std::byte* memory);

  const Plan& plan_;
  const PerStep<std::vector<bool>>& last_reads_;
  StringPool strings_;
  int64_t memory_limit_;
  PerBuffer<std::vector<int64_t>> codes_;
  PerBuffer<Tensor> containers_;
};

}  // namespace weft
