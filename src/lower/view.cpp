// SPDX-License-Identifier: Apache-2.0
#include "lower/view.h"

#include "ops/views.h"

namespace weft {
namespace {

bool is_one(const Dim& dim) { return known_equal(dim, 1); }

/// A search for the strides of a view reshaped to sizes `to`. Matches groups of old and new axes with equal products;
/// within a group the old axes must have no gaps.
class ReshapeStrides {
 public:
  ReshapeStrides(const View& view, const Dims& to) : to_(to) {
    for (size_t i = 0; i < view.dims.size(); ++i) {
      if (is_one(view.dims[i])) continue;
      dims_.push_back(view.dims[i]);
      strides_.push_back(view.strides[i]);
    }
  }

  std::optional<Dims> match() {
    result_.assign(to_.size(), 0);
    size_t from = 0, to = 0;
    while (from < dims_.size() || to < to_.size()) {
      if (to < to_.size() && is_one(to_[to])) {
        ++to;
      } else if (!match_group(from, to)) {
        return std::nullopt;
      }
    }
    return result_;
  }

 private:
  /// Extends both groups axis by axis until their products are equal; extends the smaller product first, if known.
  bool match_group(size_t& from, size_t& to) {
    if (from == dims_.size() || to == to_.size()) return false;
    size_t from_end = from + 1, to_end = to + 1;
    Dim old_size = dims_[from], new_size = to_[to];
    while (!known_equal(old_size, new_size)) {
      bool grow_new = exact_divide(old_size, new_size).has_value() && to_end < to_.size();
      if (grow_new) {
        new_size *= to_[to_end++];
      } else if (from_end < dims_.size()) {
        old_size *= dims_[from_end++];
      } else if (to_end < to_.size()) {
        new_size *= to_[to_end++];
      } else {
        return false;
      }
    }
    for (size_t i = from; i + 1 < from_end; ++i) {
      if (!known_equal(strides_[i], strides_[i + 1] * dims_[i + 1])) return false;
    }
    Dim stride = strides_[from_end - 1];
    for (size_t i = to_end; i-- > to;) {
      result_[i] = stride;
      stride = stride * to_[i];
    }
    from = from_end;
    to = to_end;
    return true;
  }

  const Dims& to_;
  Dims dims_, strides_, result_;
};

View transposed(const View& view, const Transpose& op) {
  View result = view;
  for (size_t i = 0; i < op.permutation.size(); ++i) {
    result.dims[i] = view.dims[op.permutation[i]];
    result.strides[i] = view.strides[op.permutation[i]];
  }
  return result;
}

View broadcast_view(const View& view, const Broadcast& op) {
  View result = view;
  size_t added = op.dims.size() - view.dims.size();
  result.dims = op.dims;
  result.strides.assign(op.dims.size(), 0);
  for (size_t i = 0; i < view.dims.size(); ++i) {
    if (!is_one(view.dims[i])) result.strides[added + i] = view.strides[i];
  }
  return result;
}

View sliced(const View& view, const Slice& op) {
  View result = view;
  result.dims = op.sizes;
  for (size_t i = 0; i < view.dims.size(); ++i) {
    result.offset += op.starts[i] * view.strides[i];
    result.strides[i] = view.strides[i] * Dim(op.steps[i]);
  }
  return result;
}

}  // namespace

Dims contiguous_strides(const Dims& dims) {
  Dims strides(dims.size(), 1);
  for (size_t i = dims.size(); i-- > 1;) strides[i - 1] = strides[i] * dims[i];
  return strides;
}

View contiguous_view(BufferId buffer, const Shape& shape) {
  return {.buffer = buffer, .dtype = shape.dtype, .dims = shape.dims, .strides = contiguous_strides(shape.dims)};
}

bool is_contiguous(const View& view) {
  Dim expected = 1;
  for (size_t i = view.dims.size(); i-- > 0;) {
    if (is_one(view.dims[i])) continue;
    if (!known_equal(view.strides[i], expected)) return false;
    expected = expected * view.dims[i];
  }
  return true;
}

bool is_fixed(const View& view) {
  return all_constant(view.dims) && all_constant(view.strides) && view.offset.is_constant();
}

bool is_whole(const View& view) { return known_equal(view.offset, 0) && is_contiguous(view); }

std::optional<Dim> even_stride(const View& view, size_t begin, size_t end) {
  auto part = [&](const Dims& list) {
    return Dims(list.begin() + static_cast<std::ptrdiff_t>(begin), list.begin() + static_cast<std::ptrdiff_t>(end));
  };
  Dims dims = part(view.dims);
  std::vector<Dims> strides{part(view.strides)};
  collapse_axes(dims, strides);
  return dims.size() == 1 ? std::optional(strides[0][0]) : std::nullopt;
}

View permuted(const View& view, const std::vector<size_t>& order) {
  View result = view;
  for (size_t i = 0; i < order.size(); ++i) {
    result.dims[i] = view.dims[order[i]];
    result.strides[i] = view.strides[order[i]];
  }
  return result;
}

View in_order(View view, const std::vector<size_t>& order) {
  return view.dims.size() == order.size() ? permuted(view, order) : view;
}

bool is_view_op(const Op& op) { return op.is<Reshape>() || op.is<Transpose>() || op.is<Broadcast>() || op.is<Slice>(); }

std::optional<View> apply_view(const View& view, const Instruction& op) {
  if (const auto* transpose = op.as<Transpose>()) return transposed(view, *transpose);
  if (const auto* broadcast = op.as<Broadcast>()) return broadcast_view(view, *broadcast);
  if (const auto* slice = op.as<Slice>()) return sliced(view, *slice);
  const auto* reshape = op.as<Reshape>();
  if (!reshape) return std::nullopt;
  View result = view;
  result.dims = reshape->dims;
  if (is_contiguous(view)) {
    result.strides = contiguous_strides(reshape->dims);
    return result;
  }
  auto strides = ReshapeStrides(view, reshape->dims).match();
  if (!strides) return std::nullopt;
  result.strides = std::move(*strides);
  return result;
}

void collapse_axes(Dims& dims, std::vector<Dims>& strides, const std::vector<bool>& limits) {
  Dims merged_dims;
  std::vector<Dims> merged(strides.size());
  auto push = [&](size_t axis) {
    merged_dims.push_back(dims[axis]);
    for (size_t s = 0; s < strides.size(); ++s) merged[s].push_back(strides[s][axis]);
  };
  auto merges_into_last = [&](size_t axis) {
    if (merged_dims.empty() || (!limits.empty() && limits[axis])) return false;
    for (size_t s = 0; s < strides.size(); ++s) {
      if (!known_equal(merged[s].back(), strides[s][axis] * dims[axis])) return false;
    }
    return true;
  };
  for (size_t axis = 0; axis < dims.size(); ++axis) {
    bool limited = !limits.empty() && limits[axis];
    if (is_one(dims[axis]) && !limited) continue;
    if (!merges_into_last(axis)) {
      push(axis);
      continue;
    }
    merged_dims.back() = merged_dims.back() * dims[axis];
    for (size_t s = 0; s < strides.size(); ++s) merged[s].back() = strides[s][axis];
  }
  if (merged_dims.empty()) {
    merged_dims = {1};
    for (Dims& list : merged) list = {0};
  }
  dims = std::move(merged_dims);
  strides = std::move(merged);
}

}  // namespace weft
