// SPDX-License-Identifier: Apache-2.0
#include "ops/window.h"

#include <numeric>

#include "ops/check.h"
#include "ops/views.h"
#include "ops/wide.h"

namespace weft {

std::span<const std::string_view> names(Layout) {
  static constexpr std::string_view list[] = {"channels_first", "channels_last"};
  return list;
}

namespace window {

using namespace shape_rule;

void check(std::string_view op, size_t spatial, const std::vector<int64_t>& strides,
           const std::vector<int64_t>& dilations, const Dims& pads_begin, const Dims& pads_end) {
  auto rank = static_cast<int64_t>(spatial);
  length_is(op, "strides", strides.size(), rank);
  length_is(op, "dilations", dilations.size(), rank);
  length_is(op, "pads_begin", pads_begin.size(), rank);
  length_is(op, "pads_end", pads_end.size(), rank);
  for (int64_t stride : strides) {
    if (stride < 1) refuse("E145", op, ": stride ", stride, " must be at least 1");
  }
  for (int64_t dilation : dilations) {
    if (dilation < 1) refuse("E145", op, ": dilation ", dilation, " must be at least 1");
  }
}

void check_output(std::string_view op, size_t axis, const Dim& size) {
  if (size.upper_bound() < 0) refuse("E144", op, ": output size of spatial axis ", axis, " is ", size);
}

/// Returns the permutation that moves the channel axis from the end to axis 1, or back.
static std::vector<int64_t> moved_channels(int64_t rank, bool to_front) {
  std::vector<int64_t> order(rank);
  std::iota(order.begin(), order.end(), 0);
  if (to_front) std::rotate(order.begin() + 1, order.end() - 1, order.end());
  else std::rotate(order.begin() + 1, order.begin() + 2, order.end());
  return order;
}

Wide channels_first(const Wide& x, Layout layout) {
  if (layout == Layout::channels_first) return x;
  return Transpose{.permutation = moved_channels(x.rank(), true)}.evaluate(std::span(&x, 1))[0];
}

Wide from_channels_first(const Wide& x, Layout layout) {
  if (layout == Layout::channels_first) return x;
  return Transpose{.permutation = moved_channels(x.rank(), false)}.evaluate(std::span(&x, 1))[0];
}

int64_t Taps::taps() const { return product_of(kernel); }
int64_t Taps::positions() const { return product_of(out); }

std::vector<int64_t> Taps::table() const {
  constexpr int64_t most = int64_t{1} << 27;  // 1 GiB of entries; windows of real models need far less
  int64_t count = 1;
  for (const auto* sizes : {&kernel, &out}) {
    for (int64_t size : *sizes) {
      if (__builtin_mul_overflow(count, size, &count) || count > most)
        throw Error({.kind = ErrorKind::resource,
                     .code = "E401",
                     .what = cat("windows of ", kernel, " at ", out, " places are too many for the reference")});
    }
  }
  std::vector<int64_t> entries(count, 0);
  std::vector<int64_t> sizes = kernel, steps = row_major_steps(in);
  sizes.insert(sizes.end(), out.begin(), out.end());
  for (size_t a = 0; a < in.size(); ++a) {
    Rows by_tap(sizes, static_cast<int64_t>(a)), by_position(sizes, static_cast<int64_t>(a + in.size()));
    for (size_t i = 0; i < entries.size(); ++i) {
      auto flat = static_cast<int64_t>(i);
      int64_t tap = flat / by_tap.inner % by_tap.size, position = flat / by_position.inner % by_position.size;
      int64_t at = position * strides[a] + tap * dilations[a] - pads_begin[a];
      if (at >= in[a] + pads_end[a]) entries[i] = -2;
      else if (entries[i] >= 0) entries[i] = at < 0 || at >= in[a] ? -1 : entries[i] + at * steps[a];
    }
  }
  return entries;
}

}  // namespace window
}  // namespace weft
