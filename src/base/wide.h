// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <span>
#include <type_traits>
#include <vector>

#include "base/tensor.h"

/// Tensors of the reference target. Floats are held as double and not rounded between operators. Integers and bool are
/// held as int64 (u64 with the same bits), strings as their numbers in a StringPool. Only conversions, bit-casts,
/// quantisation and the results of a run are rounded to their type.
namespace weft {

struct Wide {
  DType dtype = DType::f32;
  std::vector<int64_t> dims = {};
  // The elements, row-major: one of the two lists is set, except in a container. Copies share them.
  std::shared_ptr<const std::vector<double>> reals = nullptr;
  std::shared_ptr<const std::vector<int64_t>> integers = nullptr;
  std::shared_ptr<const Tensor> container = nullptr;  ///< a sequence, optional or map, instead of elements

  int64_t rank() const { return static_cast<int64_t>(dims.size()); }
  int64_t elements() const { return element_count(dims); }
  bool is_real() const { return reals != nullptr; }
  template <class T>
  std::span<const T> as() const {
    if constexpr (std::is_same_v<T, double>) return *reals;
    else return *integers;
  }
};

}  // namespace weft
