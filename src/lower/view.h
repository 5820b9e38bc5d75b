// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>

#include "ir/module.h"

namespace weft {

/// The place of a value's elements: element (i0, i1, ...) of `dims` is element offset + sum(i * strides) of a buffer.
/// Reshapes, transposes, broadcasts and slices only change the view.
struct View {
  int buffer = -1;
  DType dtype = DType::f32;
  Dims dims = {};
  Dims strides = {};  ///< in elements; 0: broadcast
  Dim offset = 0;

  int64_t rank() const { return static_cast<int64_t>(dims.size()); }
};

/// Row-major strides of a tensor without gaps.
Dims contiguous_strides(const Dims& dims);
View contiguous_view(int buffer, const Shape& shape);
/// True when elements lie in row-major order without gaps (axes of size 1 do not matter); the offset may be anything.
bool is_contiguous(const View& view);
/// True when sizes, strides and offset are all numbers.
bool is_fixed(const View& view);
/// True when the view is a whole row-major tensor from the buffer's start.
bool is_whole(const View& view);

/// The stride of axes [begin, end) merged into one; nothing if they do not merge. Ignores strides of axes of size 1. 0
/// for a single element.
std::optional<Dim> even_stride(const View& view, size_t begin, size_t end);

/// The same elements with axes in another order: axis i was axis order[i].
View permuted(const View& view, const std::vector<size_t>& order);

/// The view after a view operator (reshape, transpose, broadcast, slice). Nothing for other operators and for reshapes
/// that no strides can express: the value must then be copied.
std::optional<View> apply_view(const View& view, const Instruction& op);

/// Whether apply_view may express the operator.
bool is_view_op(const Op& op);

/// Merges neighbouring axes wherever every one of `strides` allows it: `dims` and each list shrink together. Axes of
/// size 1 are dropped. At least one axis stays. `limits` marks axes that must not merge with the one before.
void collapse_axes(Dims& dims, std::vector<Dims>& strides, const std::vector<bool>& limits = {});

}  // namespace weft
