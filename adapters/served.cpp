// SPDX-License-Identifier: Apache-2.0
#include "adapters/served.h"

namespace weft::adapters {

Context Served::take() const {
  {
    std::lock_guard lock(mutex_);
    if (!idle_.empty()) {
      Context context = std::move(idle_.back());
      idle_.pop_back();
      return context;
    }
  }
  return program_.new_context();
}

void Served::give_back(Context context) const {
  std::lock_guard lock(mutex_);
  idle_.push_back(std::move(context));
}

std::vector<Tensor> Served::run(std::span<const Tensor> inputs, const RunOptions& options) const {
  Context context = take();
  std::vector<Tensor> results;
  try {
    results = context.run(inputs, options);
  } catch (...) {
    give_back(std::move(context));
    throw;
  }
  give_back(std::move(context));
  return results;
}

/// Destroys the idle contexts. Each destructor waits for the work that its context has queued.
void Served::finish() const {
  std::vector<Context> idle;
  std::lock_guard lock(mutex_);
  idle.swap(idle_);
}

}  // namespace weft::adapters
