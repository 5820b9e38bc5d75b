// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>

#include "ir/module.h"
#include "plan/plan.h"

namespace weft {

/// Places of a value's elements: element (i0, i1, ...) is element offset + sum(i * strides) of the buffer. Most
/// reshapes, and transposes, broadcasts and slices, change only the view and copy nothing.
struct View {
  BufferId buffer = {};
  DType dtype = DType::f32;
  Dims dims = {};
  Dims strides = {};  ///< in elements; 0: broadcast
  Dim offset = 0;

  int64_t rank() const { return static_cast<int64_t>(dims.size()); }
};

/// Returns the row-major strides of a tensor without gaps.
Dims contiguous_strides(const Dims& dims);
View contiguous_view(BufferId buffer, const Shape& shape);
/// True if elements lie in row-major order without gaps, from any offset; axes of size 1 are ignored.
bool is_contiguous(const View& view);
/// True if all sizes, strides and the offset are constants.
bool is_fixed(const View& view);
/// True if the view is contiguous and starts at the buffer's first element.
bool is_whole(const View& view);

/// Returns the stride of axes [begin, end) merged into one axis; nothing if they cannot merge. Axes of size 1 are
/// ignored. Returns 0 if there is a single element.
std::optional<Dim> even_stride(const View& view, size_t begin, size_t end);

/// Returns a view with reordered axes: axis i of the result is axis order[i] of `view`.
View permuted(const View& view, const std::vector<size_t>& order);
/// Does the same, but leaves views of another rank, such as tables, as they are.
View in_order(View view, const std::vector<size_t>& order);

/// Returns the view of a view operator's result (reshape, transpose, broadcast, slice). Nothing for other operators and
/// for reshapes that strides cannot express; the caller must then copy the value.
std::optional<View> apply_view(const View& view, const Instruction& op);

/// True for operators that apply_view supports for at least some views.
bool is_view_op(const Op& op);

/// Merges neighbouring axes where all of `strides` allow it, in `dims` and in each list of strides. Drops axes of size
/// 1 but keeps at least one axis. An axis marked in `limits` is neither dropped nor merged with the axis before it.
void collapse_axes(Dims& dims, std::vector<Dims>& strides, const std::vector<bool>& limits = {});

}  // namespace weft
