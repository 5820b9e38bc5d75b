// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <span>

#include "quantise/observe.h"

namespace weft::quantise {

/// Calls `visit` with each layer and the sum of x x' over the rows x of its input, [k, k]. The data is run as often as
/// it takes to hold no more than 512 MiB of sums at a time. Products only.
void for_each_hessian(const ModelEdit& edit, const std::vector<Layer>& layers, Samples& samples,
                      const Settings& settings,
                      const std::function<void(size_t layer, std::span<const float> hessian)>& visit);

}  // namespace weft::quantise
