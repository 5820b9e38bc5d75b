// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <limits>

#include "ir/op.h"

namespace weft {

struct Instruction;

/// Batched matrix product: a[batch..., m, k] * b[batch..., k, n] -> [batch..., m, n]. The batch sizes are equal;
/// broadcasts are explicit. Floats are summed in f32 or wider; integer sums wrap around in the result's type `type`.
struct Dot {
  static constexpr std::string_view name = "dot";
  DType type = DType::f32;
  static auto fields() { return std::tuple{Field{"type", &Dot::type}}; }
  Types infer(Operands in) const;
  std::vector<Wide> evaluate(std::span<const Wide> in) const;
  bool operator==(const Dot&) const = default;
};

/// Returns the number of rows of a product of floats by one matrix, which may be open; 0 unless the matrix has constant
/// sizes and the size of the summed axis is a multiple of 8, as kernels for few rows need.
Dim rows_by_matrix(const Instruction& dot);

/// Grouped matrix product, as in a mixture of experts: `which` selects the matrix of each batch. a[batch, m, k] *
/// b[which[batch]] -> [batch, m, n], with b[groups, k, n] and which i64[batch]. If which[i] is negative, the elements
/// of batch i are undefined (the reference gives 0) and must not be read.
struct GroupedDot {
  static constexpr std::string_view name = "grouped_dot";
  DType type = DType::f32;
  static auto fields() { return std::tuple{Field{"type", &GroupedDot::type}}; }
  Types infer(Operands in) const;
  std::vector<Wide> evaluate(std::span<const Wide> in) const;
  bool operator==(const GroupedDot&) const = default;
};

/// The order of axes: x[batch, channel, spatial...] or x[batch, spatial..., channel].
enum class Layout : uint8_t { channels_first, channels_last };
std::span<const std::string_view> names(Layout);

/// Convolution over any number of spatial axes, without bias. Operands: x (in `layout`); w[out, in / groups,
/// kernel...], or if transposed w[in, out / groups, kernel...]; if not transposed, optionally the value of padding, a
/// scalar (default 0). Pads may be negative. Spatial sizes of the result:
/// out = (in + pad_begin + pad_end - dilation * (kernel - 1) - 1) / stride + 1; transposed:
/// out = (in - 1) * stride + dilation * (kernel - 1) + 1 + output_padding - pad_begin - pad_end.
struct Convolution {
  static constexpr std::string_view name = "convolution";
  std::vector<int64_t> strides = {}, dilations = {};
  Dims pads_begin = {}, pads_end = {};
  int64_t groups = 1;
  bool transposed = false;
  std::vector<int64_t> output_padding = {};  ///< transposed only; empty: none
  Layout layout = Layout::channels_first;
  DType type = DType::f32;  ///< of the result
  static auto fields() {
    return std::tuple{Field{"strides", &Convolution::strides},
                      Field{"dilations", &Convolution::dilations},
                      Field{"pads_begin", &Convolution::pads_begin},
                      Field{"pads_end", &Convolution::pads_end},
                      Field{"groups", &Convolution::groups},
                      Field{"transposed", &Convolution::transposed},
                      Field{"output_padding", &Convolution::output_padding},
                      Field{"layout", &Convolution::layout},
                      Field{"type", &Convolution::type}};
  }
  Types infer(Operands in) const;
  std::vector<Wide> evaluate(std::span<const Wide> in) const;
  bool operator==(const Convolution&) const = default;
};

enum class PoolFn : uint8_t { max, average, lp };
std::span<const std::string_view> names(PoolFn);

/// Pooling over the spatial axes. Padding counts as -inf for max; an average includes padding only with
/// count_include_pad. round_up adds a partial last window, as ONNX ceil_mode does, unless that window would start in
/// the padding at the end. max can also return indices (i64): flat positions in x's channels-first order.
struct Pool {
  static constexpr std::string_view name = "pool";
  PoolFn fn = PoolFn::max;
  std::vector<int64_t> kernel = {}, strides = {}, dilations = {};
  Dims pads_begin = {}, pads_end = {};
  bool round_up = false;
  bool count_include_pad = false;
  int64_t p = 2;  ///< exponent of lp
  bool indices = false;
  Layout layout = Layout::channels_first;
  static auto fields() {
    return std::tuple{Field{"fn", &Pool::fn},
                      Field{"kernel", &Pool::kernel},
                      Field{"strides", &Pool::strides},
                      Field{"dilations", &Pool::dilations},
                      Field{"pads_begin", &Pool::pads_begin},
                      Field{"pads_end", &Pool::pads_end},
                      Field{"round_up", &Pool::round_up},
                      Field{"count_include_pad", &Pool::count_include_pad},
                      Field{"p", &Pool::p},
                      Field{"indices", &Pool::indices},
                      Field{"layout", &Pool::layout}};
  }
  Types infer(Operands in) const;
  std::vector<Wide> evaluate(std::span<const Wide> in) const;
  bool operator==(const Pool&) const = default;
};

/// softmax(scale * q k^T + mask) v for each head; the scores are never stored. q[batch, heads, m, d], k[batch,
/// kv_heads, n, d], v[batch, kv_heads, n, dv] -> [batch, heads, m, dv]; head h reads key/value head h / (heads /
/// kv_heads). An optional fourth operand is the mask, broadcastable to [batch, heads, m, n]: a float mask is added;
/// false in a bool mask sets the score to `hidden`. causal: row i sees key j only if j <= i + offset. softcap c > 0
/// replaces a score s by c * tanh(s / c) before the mask. A row with all scores -inf gives 0, or NaN with nan_rows.
/// ranged: the last operand i64[batch, m, 2] holds the range [begin, end) of keys that each row sees; neither bound
/// falls from row to row. Keys before the first and after the last range are not read. sinks: an operand [heads] of
/// q's type, after the mask, holds the score of one more key per head with value 0. Every row sees this key; scale,
/// softcap and mask do not apply to its score.
struct Attention {
  static constexpr std::string_view name = "attention";
  double scale = 1;
  bool causal = false;
  Dim offset = 0;
  double softcap = 0;
  double hidden = -std::numeric_limits<double>::infinity();
  bool nan_rows = false;
  bool ranged = false;
  bool sinks = false;
  static auto fields() {
    return std::tuple{Field{"scale", &Attention::scale},   Field{"causal", &Attention::causal},
                      Field{"offset", &Attention::offset}, Field{"softcap", &Attention::softcap},
                      Field{"hidden", &Attention::hidden}, Field{"nan_rows", &Attention::nan_rows},
                      Field{"ranged", &Attention::ranged}, Field{"sinks", &Attention::sinks}};
  }
  /// has_mask: true if `count` operands include a mask. sinks_at: returns the index of the operand with the sinks.
  bool has_mask(size_t count) const { return count == 4u + ranged + sinks; }
  size_t sinks_at(size_t count) const { return count - 1 - ranged; }
  Types infer(Operands in) const;
  std::vector<Wide> evaluate(std::span<const Wide> in) const;
  bool operator==(const Attention&) const = default;
};

}  // namespace weft
