// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/host.h"
#include "base/plan.h"

namespace weft {

class AlignedMemory;

/// Constants as the kernels of a program want them: made once by its load steps, shared by all contexts. What another
/// program of this process has packed in the same way out of the same contents is taken from there (unless the memory
/// is the embedder's own). The source of what is packed is given back to the system when it lies in a mapped file,
/// weight by weight, so that each is held once.
class PackedWeights {
 public:
  /// Runs a load step; `memory` has the address of every persistent and constant buffer.
  using RunStep = std::function<void(const PlanStep& step, std::span<std::byte* const> memory)>;

  PackedWeights() = default;
  /// E401 when they would take more than `host` allows.
  PackedWeights(const Plan& plan, const Host& host, const RunStep& run);

  /// The address of each persistent and constant buffer; null for the others.
  std::span<std::byte* const> memory() const { return memory_; }
  int64_t bytes() const { return bytes_; }  ///< of all that is packed, shared or not
  /// Constants have moved.
  void find_constants(const Plan& plan);

 private:
  void place(const Plan& plan, const Host& host, const std::vector<bool>& is_shared);

  std::vector<std::byte*> memory_;
  std::vector<std::shared_ptr<const AlignedMemory>> blocks_;  // this program's, and those of which it shares a part
  int64_t bytes_ = 0;
};

/// How many packed weights the programs of this process hold that others can share.
size_t packed_weights_held();

}  // namespace weft
