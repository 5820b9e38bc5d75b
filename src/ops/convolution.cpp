// SPDX-License-Identifier: Apache-2.0
#include "ops/check.h"
#include "ops/dot.h"
#include "ops/wide.h"
#include "ops/window.h"

namespace weft {

using namespace shape_rule;

static Dim convolved(const Convolution& c, size_t i, const Dim& in, const Dim& kernel) {
  Dim reach = Dim(c.dilations[i]) * (kernel - 1);
  Dim pads = c.pads_begin[i] + c.pads_end[i];
  if (!c.transposed) return floordiv(in + pads - reach - 1, c.strides[i]) + 1;
  Dim extra = c.output_padding.empty() ? 0 : c.output_padding[i];
  return (in - 1) * Dim(c.strides[i]) + reach + 1 + extra - pads;
}

static void check_padding(const Convolution& c, const Shape& x, const Shape& padding) {
  same_type("convolution", x, padding);
  if (padding.rank() != 0 || c.transposed)
    refuse("E151", "convolution: padding ", padding, " must be a scalar, and the convolution not transposed");
}

Types Convolution::infer(Operands in) const {
  operand_count(name, in, 2, 3);
  const Shape &x = numbers(name, in, 0), &w = numbers(name, in, 1);
  if (x.rank() < 3 || x.rank() != w.rank())
    refuse("E151", "convolution: ranks of ", x, " and ", w, " must be equal and at least 3");
  if (in.size() == 3) check_padding(*this, x, tensor(name, in, 2));
  size_t spatial = x.dims.size() - 2;
  window::check(name, spatial, strides, dilations, pads_begin, pads_end);
  if (groups < 1) refuse("E145", "convolution: groups ", groups, " must be at least 1");
  size_t channel = window::channel_axis(layout, x.dims.size());
  const Dim& in_channels = x.dims[channel];
  Dim wanted = transposed ? w.dims[0] : w.dims[1] * Dim(groups);
  require_equal(in_channels, wanted, cat("convolution: channels of ", x, " and weight ", w, " in ", groups, " groups"));
  if (!transposed && !mod(w.dims[0], groups).is_constant())
    refuse("E145", "convolution: ", w.dims[0], " outputs in ", groups, " groups");
  if (!transposed && mod(w.dims[0], groups) != Dim(0))
    refuse("E145", "convolution: ", w.dims[0], " outputs cannot be split in ", groups, " groups");
  Shape result{type, x.dims};
  result.dims[channel] = transposed ? w.dims[1] * Dim(groups) : w.dims[0];
  for (size_t i = 0; i < spatial; ++i) {
    size_t axis = window::spatial_axis(layout, i);
    result.dims[axis] = convolved(*this, i, x.dims[axis], w.dims[i + 2]);
    window::check_output(name, i, result.dims[axis]);
  }
  return {result};
}

namespace {

/// The sizes of one convolution, channels first. A transposed convolution swaps input and output: for each tap and
/// input position, the table of taps holds the output position that gets the product.
struct WindowSizes {
  int64_t batch, groups, in_channels, out_channels;  // in_channels, out_channels: of one group
  int64_t in, out, taps;                             // numbers of positions and taps
};

window::Taps convolution_taps(const Convolution& c, const Wide& x, const Wide& w, std::span<const int64_t> result) {
  window::Taps taps;
  taps.in.assign(x.dims.begin() + 2, x.dims.end());
  taps.out.assign(result.begin() + 2, result.end());
  if (c.transposed) std::swap(taps.in, taps.out);
  taps.kernel.assign(w.dims.begin() + 2, w.dims.end());
  taps.strides = c.strides;
  taps.dilations = c.dilations;
  taps.pads_begin = fixed(c.pads_begin);
  taps.pads_end.assign(taps.in.size(), 0);
  return taps;
}

/// Computes the output pixels [begin, end) of one group of one image by im2col: copies the pixels' windows into columns
/// and multiplies the weights by the columns.
template <class T>
void convolve(const WindowSizes& s, std::span<const int64_t> table, const T* x, const T* w, T outside, T* out,
              int64_t begin, int64_t end) {
  int64_t depth = s.in_channels * s.taps, width = end - begin;
  std::vector<T> columns(depth * width), sums(s.out_channels * width, T(0));
  auto to = columns.begin();
  for (int64_t row = 0; row < depth; ++row) {
    const T* channel = x + row / s.taps * s.in;
    const int64_t* offsets = table.data() + row % s.taps * s.out;
    for (int64_t p = begin; p < end; ++p) *to++ = offsets[p] < 0 ? outside : channel[offsets[p]];
  }
  multiply_add(w, columns.data(), sums.data(), s.out_channels, depth, width);
  for (int64_t o = 0; o < s.out_channels; ++o) std::copy_n(sums.begin() + o * width, width, out + o * s.out + begin);
}

template <class T>
void convolve_transposed(const WindowSizes& s, std::span<const int64_t> table, const T* x, const T* w, T* out) {
  int64_t depth = s.out_channels * s.taps;
  std::vector<T> transposed(depth * s.in_channels), columns(depth * s.in, T(0));
  for (int64_t i = 0; i < s.in_channels * depth; ++i) transposed[i % depth * s.in_channels + i / depth] = w[i];
  multiply_add(transposed.data(), x, columns.data(), depth, s.in_channels, s.in);
  for (int64_t row = 0; row < depth; ++row) {
    for (int64_t p = 0; p < s.in; ++p) {
      int64_t at = table[row % s.taps * s.in + p];
      if (at >= 0) out[row / s.taps * s.out + at] += columns[row * s.in + p];
    }
  }
}

template <class T>
std::vector<T> convolved(const Convolution& c, const WindowSizes& s, const window::Taps& taps, std::span<const T> x,
                         std::span<const T> w, T outside) {
  constexpr int64_t tile = 512;
  std::vector<int64_t> table = taps.table();
  std::vector<T> out(s.batch * s.groups * s.out_channels * s.out, T(0));
  int64_t tiles = c.transposed ? 1 : (s.out + tile - 1) / tile, weights = s.in_channels * s.out_channels * s.taps;
  int64_t cost = 2 * weights * (c.transposed ? s.in : std::min(tile, s.out));
  parallel_parts(s.batch * s.groups * tiles, cost, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      int64_t group = i / tiles, first = i % tiles * tile;
      const T *from = x.data() + group * s.in_channels * s.in, *by = w.data() + group % s.groups * weights;
      T* to = out.data() + group * s.out_channels * s.out;
      if (c.transposed) convolve_transposed<T>(s, table, from, by, to);
      else convolve<T>(s, table, from, by, outside, to, first, std::min(first + tile, s.out));
    }
  });
  return out;
}

}  // namespace

std::vector<Wide> Convolution::evaluate(std::span<const Wide> in) const {
  const Wide x = window::channels_first(in[0], layout), &w = in[1];
  Convolution first = *this;
  first.layout = Layout::channels_first;
  std::vector<int64_t> dims = fixed(first
                                        .infer(Types{Shape{x.dtype, Dims(x.dims.begin(), x.dims.end())},
                                                     Shape{w.dtype, Dims(w.dims.begin(), w.dims.end())}})[0]
                                        .shape.dims);
  window::Taps taps = convolution_taps(*this, x, w, dims);
  WindowSizes s{.batch = dims[0],
                .groups = groups,
                .in_channels = x.dims[1] / groups,
                .out_channels = dims[1] / groups,
                .in = product_of(std::span(x.dims).subspan(2)),
                .out = product_of(std::span(dims).subspan(2)),
                .taps = taps.taps()};
  Wide result;
  bool is_padded = in.size() == 3;
  if (x.is_real()) {
    double outside = is_padded ? in[2].as<double>()[0] : 0;
    result = make_wide(type, dims, convolved(*this, s, taps, x.as<double>(), w.as<double>(), outside));
  } else {
    int64_t outside = is_padded ? in[2].as<int64_t>()[0] : 0;
    std::vector<int64_t> sums = convolved(*this, s, taps, x.as<int64_t>(), w.as<int64_t>(), outside);
    for (int64_t& sum : sums) sum = wrap(type, sum);
    result = make_wide(type, dims, std::move(sums));
  }
  return {window::from_channels_first(result, layout)};
}

}  // namespace weft
