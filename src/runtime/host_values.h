// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <span>
#include <vector>

#include "base/plan.h"
#include "base/texts.h"

namespace weft {

/// What a run holds beside its memory: the containers in buffers that have none, and the texts behind the numbers in
/// those of texts. One for each context.
class HostValues {
 public:
  /// `texts` are the program's own; they must outlive this. A list of more than `memory_limit` bytes is E401.
  HostValues(const Plan& plan, const TextPool& texts, int64_t memory_limit)
      : plan_(plan),
        texts_(&texts),
        memory_limit_(memory_limit),
        codes_(plan.buffers.size()),
        containers_(plan.buffers.size()) {}

  /// Forgets the run before.
  void begin() { texts_.clear(); }

  bool is_container(size_t buffer) const;
  bool is_text(size_t buffer) const {
    return !is_container(buffer) && plan_.buffers[buffer].shape.dtype == DType::string;
  }
  Tensor& container(size_t buffer) { return containers_[buffer]; }
  /// Memory with the numbers of an input's texts.
  std::byte* encode(size_t buffer, const Tensor& input);
  /// Memory for the numbers of an output's texts.
  std::byte* room(size_t buffer, size_t bytes);
  Tensor decode(std::vector<int64_t> dims, const std::byte* codes) const;
  void swap(size_t a, size_t b) { std::swap(containers_[a], containers_[b]); }

  /// Runs a step of kind `host`. `sizes` are the rank and the sizes of each of its buffers.
  void run(const PlanStep& step, std::span<const int64_t> sizes, std::span<std::byte* const> memory);

 private:
  Tensor operand(size_t buffer, std::vector<int64_t> dims, const std::byte* memory) const;
  void store(size_t buffer, const std::vector<int64_t>& dims, Tensor result, std::byte* memory);

  const Plan& plan_;
  TextPool texts_;
  int64_t memory_limit_;
  std::vector<std::vector<int64_t>> codes_;
  std::vector<Tensor> containers_;
};

}  // namespace weft
