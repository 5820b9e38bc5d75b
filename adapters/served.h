// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "weft/weft.hpp"

namespace weft::adapters {

/// A program with a pool of contexts, so that several threads can run it at once. Each run borrows a context.
class Served {
 public:
  explicit Served(Program program) : program_(std::move(program)) {}

  const Program& program() const { return program_; }
  std::vector<Tensor> run(std::span<const Tensor> inputs, const RunOptions& options) const;
  /// Waits for the work that finished calls of run() have queued on streams.
  void finish() const;

 private:
  Context take() const;
  void give_back(Context context) const;

  Program program_;
  mutable std::mutex mutex_;
  mutable std::vector<Context> idle_ = {};
};

}  // namespace weft::adapters
