// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "ir/op.h"

namespace weft {

/// Batched matrix product: a[batch..., m, k] * b[batch..., k, n] -> [batch..., m, n]; equal batch sizes (broadcasts are
/// explicit). Floats accumulate in f32 or wider, integers in i32; the result is of `type`.
struct Dot {
  static constexpr std::string_view name = "dot";
  DType type = DType::f32;
  static auto fields() { return std::tuple{Field{"type", &Dot::type}}; }
  Types infer(Operands in) const;
  std::vector<Wide> evaluate(std::span<const Wide> in) const;
  bool operator==(const Dot&) const = default;
};

/// Grouped products, as in a mixture of experts: data choose the matrix of each batch. a[batch, m, k] * b[which[batch]]
/// -> [batch, m, n]; b[groups, k, n], which i64[batch]. For a negative `which` the result's elements are undefined (0
/// on ref) and must not be read.
struct GroupedDot {
  static constexpr std::string_view name = "grouped_dot";
  DType type = DType::f32;
  static auto fields() { return std::tuple{Field{"type", &GroupedDot::type}}; }
  Types infer(Operands in) const;
  std::vector<Wide> evaluate(std::span<const Wide> in) const;
  bool operator==(const GroupedDot&) const = default;
};

/// Where the channel axis is: x[batch, channel, spatial...] or x[batch, spatial..., channel].
enum class Layout : uint8_t { channels_first, channels_last };
std::span<const std::string_view> names(Layout);

/// Convolution over any number of spatial axes. Operands: x (in `layout`), w[out, in / groups, kernel...], or
/// w[in, out / groups, kernel...] when transposed. Bias is an elementwise add. pads may be negative.
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

/// Windowed reduction over the spatial axes. Padding is -inf for max and left out of averages unless count_include_pad;
/// round_up takes a partial last window too (ONNX ceil_mode: never one that starts in the padding behind). max can also
/// give indices (i64): flat positions in x's channels-first order.
struct Pool {
  static constexpr std::string_view name = "pool";
  PoolFn fn = PoolFn::max;
  std::vector<int64_t> kernel = {}, strides = {}, dilations = {};
  Dims pads_begin = {}, pads_end = {};
  bool round_up = false;
  bool count_include_pad = false;
  int64_t p = 2;  ///< of lp
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

/// softmax(scale * q k^T + mask) v for every head, scores never stored.
/// q[batch, heads, m, d], k[batch, kv_heads, n, d], v[batch, kv_heads, n, dv] -> [batch, heads, m, dv]; heads is a
/// multiple of kv_heads and head h reads key/value head h / (heads / kv_heads). With a mask it is the fourth operand,
/// broadcastable to [batch, heads, m, n]: floats are added, bool false means -inf. Row i sees key j only if
/// j <= i + offset (causal). softcap c > 0 replaces a score s by c * tanh(s / c) before the mask. A row of which
/// every score is -inf gives 0, or NaN as a softmax does (nan_rows). With `ranged` the last operand, i64[batch, m, 2],
/// gives the keys [begin, end) that a row may see; others are not read, so they may hold anything. With `sinks` the
/// operand behind the mask, of q's type and [heads], is the score of one key more that every row of a head sees and
/// whose value is 0; neither scale, soft cap nor mask touch it.
struct Attention {
  static constexpr std::string_view name = "attention";
  double scale = 1;
  bool causal = false;
  Dim offset = 0;
  double softcap = 0;
  bool nan_rows = false;
  bool ranged = false;
  bool sinks = false;
  static auto fields() {
    return std::tuple{Field{"scale", &Attention::scale},       Field{"causal", &Attention::causal},
                      Field{"offset", &Attention::offset},     Field{"softcap", &Attention::softcap},
                      Field{"nan_rows", &Attention::nan_rows}, Field{"ranged", &Attention::ranged},
                      Field{"sinks", &Attention::sinks}};
  }
  /// Whether `count` operands include a mask, and which of them holds the sinks.
  bool has_mask(size_t count) const { return count == 4u + ranged + sinks; }
  size_t sinks_at(size_t count) const { return count - 1 - ranged; }
  Types infer(Operands in) const;
  std::vector<Wide> evaluate(std::span<const Wide> in) const;
  bool operator==(const Attention&) const = default;
};

}  // namespace weft
