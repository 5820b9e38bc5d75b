// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <span>

#include "quantise/observe.h"

namespace weft::quantise {

/// Over the rows x of a layer's input.
struct InputSums {
  std::vector<float> hessian;  ///< the sum of x x', [k, k]
  std::vector<float> noise;    ///< the sums of the squares of the errors of rounded x, [k]; empty where x stays float
};

/// A matrix product and the grid of its input, null where that stays float.
struct Taught {
  const Layer* layer;
  const Grid* input;
};

/// Calls `visit` with each layer and the sums of its input. At most 512 MiB of sums are held at a time, so the data may
/// be run several times.
void for_each_hessian(const ModelEdit& edit, const std::vector<Taught>& layers, Samples& samples,
                      const Settings& settings, const std::function<void(size_t layer, const InputSums& sums)>& visit);

}  // namespace weft::quantise
