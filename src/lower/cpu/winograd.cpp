// SPDX-License-Identifier: Apache-2.0
#include "lower/cpu/winograd.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/knobs.h"
#include "lower/lowering.h"
#include "ops/dot.h"
#include "ops/interval.h"

namespace weft {
namespace {

/// Returns a size for estimates; symbols count as `guess`, or as the nearest value within their bounds.
double guessed(const Dim& dim, int64_t guess) {
  return static_cast<double>(dim.evaluate(
      [&](const Symbol& symbol) { return std::clamp(guess, symbol.min, std::max(symbol.min, symbol.max)); }));
}

/// Estimates of work, in multiply-adds of transformed values: transforming one element costs as much as 10
/// multiply-adds. Loading a weight costs as much as 10 of floats, which run meanwhile (fitted to
/// bench/kernels/winograd.cpp on AVX2), or as much as 8 of integers, which wait (fitted to resnet50_qdq with AVX-512).
/// The direct kernel does `direct_speed` products in the time of one multiply-add.
struct Estimate {
  double batch, height, width, in, out, direct_speed;
  bool is_float;

  /// The cost of multiplying `rows` rows by a weight.
  double weight(double rows) const { return is_float ? std::max(rows, 10.0) : rows + 8; }
  double direct() const { return 9 * in * out * weight(batch * height * width) / direct_speed; }
  double tiled(int side) const {
    double tiles = batch * std::ceil(height / side) * std::ceil(width / side), positions = (side + 2) * (side + 2);
    return positions * (in * out * weight(tiles) + 10 * tiles * (in + out));
  }
};

/// Estimates the work. A depth axis counts as more images, and its kernel size as more channels.
Estimate estimate_of(const Window& w, double direct_speed, bool is_float) {
  size_t height = w.out.size() - 2;
  double in = guessed(w.channels_in, 64), images = guessed(w.batch, 1);
  if (height > 0) in *= guessed(w.kernel[0], 3), images *= guessed(w.out[0], 8);
  return {images,  guessed(w.out[height], 512), guessed(w.out[height + 1], 512),
          in,      guessed(w.channels_out, 64), direct_speed,
          is_float};
}

std::vector<AssumedSize> sizes_of(const Window& w, const Estimate& e) {
  auto number = [](double size) { return static_cast<int64_t>(size); };
  return {{"groups", w.groups, number(guessed(w.groups, 1))},
          {"batch", w.out.size() > 2 ? w.batch * w.out[0] : w.batch, number(e.batch)},
          {"height", w.out[w.out.size() - 2], number(e.height)},
          {"width", w.out.back(), number(e.width)},
          {"in", w.kernel.size() > 2 ? w.channels_in * w.kernel[0] : w.channels_in, number(e.in)},
          {"out", w.channels_out, number(e.out)}};
}

/// True if the last two sizes equal `value`.
bool last_are(const Dims& dims, int64_t value) {
  return known_equal(dims.back(), value) && known_equal(dims[dims.size() - 2], value);
}

/// Returns why the chip or the types rule out Winograd; null if they do not. Floats are transformed in f32, and
/// integers in 16 bits, because the transformed values are larger.
const char* refused_types(const Lowering& lowering, const Mac& direct, const View& x) {
  if (direct.tile.amx) return "AMX multiplies so fast that transforms would take longer";
  if (direct.sum == DType::f32) return nullptr;
  // Products of 16 bits take twice the time of products of bytes, but on Zen 4 having 4 times fewer products pays off.
  bool is_short = direct.direct == DType::i16 || (direct.direct == DType::u8 && lowering.tile().lanes == 16);
  if (!is_short) return "it is for floats of at most 32 bits and for integers of 16 bits, with AVX-512 also of 8";
  return x.dtype != direct.direct ? "pixels are converted on the way" : nullptr;
}

/// Returns the side of the largest output tile that is exact for integers with these bounds; 0 if there is none.
int largest_exact_tile(double x, const WeightBounds& w) {
  for (auto [out, sum_bits] : {std::pair{4, 25}, {2, 29}}) {
    constexpr double narrow = 32767;
    tasks::WinogradGrowth grows = tasks::winograd_growth(out);
    bool fits = grows.pixels * x <= narrow && grows.weights * w.element <= narrow;
    if (fits && x * w.output < std::ldexp(1, sum_bits)) return out;
  }
  return 0;
}

/// Returns the Mac for the transformed values of tiles of this size.
Mac mac_of_tiles(const Lowering& lowering, const Window& w, int out, double x, const WeightBounds& weights) {
  Mac pairs(macs::MacInt16, "native_tile", lowering.tile(), DType::i16);
  tasks::WinogradGrowth grows = tasks::winograd_growth(out);
  return with_quads(lowering, pairs, w.channels_in, grows.pixels * x, grows.weights * weights.element);
}

}  // namespace

WinogradChoice choose_winograd(Lowering& lowering, const Instruction& i, const Window& w, const Mac& direct,
                               const View& x) {
  bool is_candidate = w.kernel.size() >= 2 && last_are(w.kernel, 3) && last_are(w.stride, 1) &&
                      last_are(w.dilation, 1) && !w.transposed && w.kernel[0].is_constant();
  if (!is_candidate) return {};
  auto no = [](std::string why) { return WinogradChoice{.why = cat("no Winograd: ", why)}; };
  if (!knobs().winograd) return no("WEFT_WINOGRAD is 0");
  if (!lowering.is_load_time(i.inputs[1])) return no("weights are not known before the run");
  if (const char* why = refused_types(lowering, direct, x)) return no(why);
  bool is_float = direct.sum == DType::f32;
  double max_x = is_float ? 0 : largest_of_a(i);
  WeightBounds weights = is_float ? WeightBounds() : weight_bounds(i.inputs[1]);
  int largest = is_float ? 4 : largest_exact_tile(max_x, weights);
  if (largest == 0) return no("sums of these integers could leave the bits that stay exact");
  bool is_narrow = direct.direct == DType::bf16 || direct.direct == DType::u8;  // multiplied at twice the speed
  Estimate e = estimate_of(w, is_narrow ? 2 : 1, is_float);
  std::vector<Candidate> candidates{{.name = "direct", .estimate = 0.9 * e.direct()}};
  for (int side : {2, 4}) {
    if (side <= largest) candidates.push_back({.name = cat("winograd", side), .estimate = e.tiled(side)});
  }
  size_t chosen = lowering.choose(decision_about(cat("convolution3x3 ", direct.name), sizes_of(w, e), candidates));
  if (chosen == 0) return no("transforming would cost more than the products it saves");
  int best = chosen == 1 ? 2 : 4;
  double share = e.tiled(best) / e.direct();
  return {.out = best,
          .form = cat(is_float ? "WinogradFloat" : "WinogradInt", best),
          .mac = is_float ? Mac(macs::MacF32, direct.tile_name, direct.tile)
                          : mac_of_tiles(lowering, w, best, max_x, weights),
          .why = cat("Winograd in tiles of ", best, " x ", best, ": ", best == 4 ? "4" : "2.25",
                     " times fewer products, about ", static_cast<int>(std::lround(100 * share)),
                     " % of the direct kernel's time")};
}

}  // namespace weft
