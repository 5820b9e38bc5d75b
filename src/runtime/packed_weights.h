// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "base/host.h"
#include "plan/plan.h"

namespace weft {

class AlignedMemory;

/// Constants in the layout that a program's kernels read. Load steps pack them once, and all contexts share them.
/// Programs of this process that pack equal contents in the same way also share the packed weights (unless the embedder
/// allocates the memory). Once a weight is packed, its pages in a mapped file are dropped if no run reads them.
class PackedWeights {
 public:
  /// A function that runs a load step; `memory` has the address of every persistent and constant buffer.
  using RunStep = std::function<void(const PlanStep& step, const PerBuffer<std::byte*>& memory)>;

  PackedWeights() = default;
  /// Packs the weights with `run`. Throws E401 if they would take more than `host` allows.
  PackedWeights(const Plan& plan, const Host& host, const RunStep& run);

  /// Returns the address of each persistent and constant buffer; null for other buffers.
  const PerBuffer<std::byte*>& memory() const { return memory_; }
  int64_t bytes() const { return bytes_; }  ///< of all packed weights, shared or not
  /// Updates the addresses of the constant buffers after the plan's constants were copied.
  void find_constants(const Plan& plan);

 private:
  void place(const Plan& plan, const Host& host, const PerBuffer<bool>& is_shared);

  PerBuffer<std::byte*> memory_;
  std::vector<std::shared_ptr<const AlignedMemory>>
      blocks_;  // of this program, and of other programs that packed weights which this program shares
  int64_t bytes_ = 0;
};

/// Returns the number of packed weights of this process that can be shared.
size_t packed_weights_held();

}  // namespace weft
