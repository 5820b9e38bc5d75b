// SPDX-License-Identifier: Apache-2.0
#include "ort/online_tuning.h"

namespace weft::ort {

OnlineTuning::~OnlineTuning() {
  stops_ = true;
  if (thread_.joinable()) thread_.join();
}

void OnlineTuning::begin() {
  std::call_once(begun_, [this] { thread_ = std::thread([this] { run(); }); });
}

void OnlineTuning::run() noexcept {
  auto tuned = tune_([this] { return stops_.load(); });
  tune_ = {};  // frees the weights that the function holds
  std::lock_guard lock(mutex_);
  tuned_ = std::move(tuned);
}

}  // namespace weft::ort
