// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <span>

#include "quantise/observe.h"

namespace weft::quantise {

/// Calls `visit` with each layer and the Hessian [k, k] of its input: the sum of x^T x over the rows x. Holds at most
/// 512 MiB of Hessians at a time (or a single one), so it may run the data several times.
void for_each_hessian(const ModelEdit& edit, const std::vector<Layer>& layers, Samples& samples,
                      const Settings& settings,
                      const std::function<void(size_t layer, std::span<const float> hessian)>& visit);

}  // namespace weft::quantise
