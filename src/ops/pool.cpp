// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>

#include "ops/check.h"
#include "ops/dot.h"
#include "ops/reference_math.h"
#include "ops/wide.h"
#include "ops/window.h"

namespace weft {

using namespace shape_rule;

std::span<const std::string_view> names(PoolFn) {
  static constexpr std::string_view list[] = {"max", "average", "lp"};
  return list;
}
Types Pool::infer(Operands in) const {
  operand_count(name, in, 1, 1);
  const Shape& x = numbers(name, in, 0);
  if (x.rank() < 3) refuse("E151", "pool: ", x, " needs a batch, a channel and a spatial axis");
  if (fn != PoolFn::max) real("pool", x);
  size_t spatial = x.dims.size() - 2;
  window::check(name, spatial, strides, dilations, pads_begin, pads_end);
  length_is(name, "kernel", kernel.size(), static_cast<int64_t>(spatial));
  Shape result = x;
  for (size_t i = 0; i < spatial; ++i) {
    size_t axis = window::spatial_axis(layout, i);
    Dim room = x.dims[axis] + pads_begin[i] + pads_end[i] - Dim(dilations[i] * (kernel[i] - 1) + 1);
    Dim size = (round_up ? ceildiv(room, strides[i]) : floordiv(room, strides[i])) + 1;
    // With round_up, the last window must start inside the input or in the padding before it.
    if (round_up) size = min(size, ceildiv(x.dims[axis] + pads_begin[i], strides[i]));
    window::check_output(name, i, size);
    result.dims[axis] = size;
  }
  if (!indices) return {result};
  return {result, Shape{DType::i64, result.dims}};
}

namespace {

/// One window: its taps and their positions in the plane of one channel.
template <class T>
struct PoolWindow {
  const T* plane;
  const int64_t* offsets;  // the table of positions, from this window's tap 0 on
  int64_t taps, step;      // number of taps; entries from one tap to the next in the table

  template <class F>
  void for_each(F f) const {
    for (int64_t tap = 0; tap < taps; ++tap) f(offsets[tap * step]);
  }
};

/// Returns the index of the largest element, among equals the first; -1 for a window entirely in the padding.
template <class T>
int64_t place_of_largest(DType type, const PoolWindow<T>& window) {
  int64_t best = -1;
  window.for_each([&](int64_t at) {
    if (at >= 0 && (best < 0 || reference::less(type, window.plane[best], window.plane[at]))) best = at;
  });
  return best;
}

double average(const Pool& pool, const PoolWindow<double>& window) {
  double sum = 0, count = 0;
  window.for_each([&](int64_t at) {
    sum += at >= 0 ? window.plane[at] : 0;
    count += at >= 0 || (at == -1 && pool.count_include_pad);
  });
  return sum / count;
}

double lp_norm(const Pool& pool, const PoolWindow<double>& window) {
  double sum = 0;
  auto p = static_cast<double>(pool.p);
  window.for_each([&](int64_t at) { sum += at >= 0 ? std::pow(std::fabs(window.plane[at]), p) : 0; });
  return std::pow(sum, 1 / p);
}

template <class T>
T nothing(DType type) {
  if constexpr (std::is_same_v<T, double>) return -std::numeric_limits<double>::infinity();
  else return lowest_integer(type);
}

/// Calls `f(window, flat result index, first element of the plane)` for each result element.
template <class T, class F>
void for_each_window(const Wide& x, const window::Taps& taps, F f) {
  std::vector<int64_t> table = taps.table();
  int64_t positions = taps.positions(), plane = product_of(taps.in), planes = x.dims[0] * x.dims[1];
  parallel_parts(planes, positions * taps.taps() * 4, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin * positions; i < end * positions; ++i) {
      int64_t first = i / positions * plane;
      f(PoolWindow<T>{x.as<T>().data() + first, table.data() + i % positions, taps.taps(), positions}, i, first);
    }
  });
}

window::Taps pool_taps(const Pool& pool, const Wide& x, std::span<const int64_t> result) {
  window::Taps taps;
  taps.in.assign(x.dims.begin() + 2, x.dims.end());
  taps.out.assign(result.begin() + 2, result.end());
  taps.kernel = pool.kernel;
  taps.strides = pool.strides;
  taps.dilations = pool.dilations;
  taps.pads_begin = fixed(pool.pads_begin);
  taps.pads_end = fixed(pool.pads_end);
  return taps;
}

std::vector<Wide> pool_max(const Wide& x, const window::Taps& taps, const std::vector<int64_t>& dims) {
  std::vector<int64_t> places(product_of(dims));
  Wide values = with_elements(x, [&]<class T>(std::span<const T>) {
    std::vector<T> out(places.size());
    for_each_window<T>(x, taps, [&](const PoolWindow<T>& window, size_t i, int64_t first) {
      int64_t at = place_of_largest(x.dtype, window);
      out[i] = at < 0 ? nothing<T>(x.dtype) : window.plane[at];
      places[i] = at < 0 ? -1 : first + at;
    });
    return make_wide(x.dtype, dims, std::move(out));
  });
  return {values, make_wide(DType::i64, dims, std::move(places))};
}

}  // namespace

std::vector<Wide> Pool::evaluate(std::span<const Wide> in) const {
  Wide x = window::channels_first(in[0], layout);
  Pool first = *this;
  first.layout = Layout::channels_first;
  std::vector<int64_t> dims =
      fixed(first.infer(Types{Shape{x.dtype, Dims(x.dims.begin(), x.dims.end())}})[0].shape.dims);
  window::Taps taps = pool_taps(*this, x, dims);
  std::vector<Wide> results;
  if (fn == PoolFn::max) {
    results = pool_max(x, taps, dims);
    if (!indices) results.pop_back();
  } else {
    std::vector<double> out(product_of(dims));
    for_each_window<double>(x, taps, [&](const PoolWindow<double>& window, size_t i, int64_t) {
      out[i] = fn == PoolFn::average ? average(*this, window) : lp_norm(*this, window);
    });
    results = {make_wide(x.dtype, dims, std::move(out))};
  }
  for (Wide& result : results) result = window::from_channels_first(result, layout);
  return results;
}

}  // namespace weft
