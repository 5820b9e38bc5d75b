// SPDX-License-Identifier: Apache-2.0
#include "quantise/blocks.h"

#include <algorithm>
#include <cfloat>
#include <cmath>

#include "base/error.h"
#include "base/numeric.h"
#include "base/parallel.h"
#include "base/text.h"
#include "quantise/gptq.h"

namespace weft::quantise {
namespace {

struct Scale {
  float scale = 1;
  uint8_t zero = 0;

  uint8_t step(double x, int greatest) const {
    return static_cast<uint8_t>(std::clamp(std::nearbyint(x / static_cast<double>(scale)) + zero, 0.0, greatest * 1.0));
  }
  double value(int step) const { return (step - zero) * static_cast<double>(scale); }
};

/// Returns the scale for the range of the block. A symmetric scale may clip the end nearer to 0, by at most one step.
Scale nearest_scale(std::span<const float> block, const BlockFormat& format) {
  auto [least, greatest] = std::ranges::minmax(block);
  double low = std::min(least, 0.0f), high = std::max(greatest, 0.0f), steps = format.greatest();
  Scale found;
  if (format.is_symmetric) {
    // Level 0 is one step further from the zero point than the top level, so it represents the end further from 0.
    double most = -low > high ? low : high, middle = (format.greatest() + 1) / 2;
    found = {.scale = static_cast<float>(-most / middle), .zero = static_cast<uint8_t>(middle)};
  } else {
    found.scale = static_cast<float>((high - low) / steps);
    if (found.scale >= FLT_MIN)
      found.zero =
          static_cast<uint8_t>(std::clamp(std::nearbyint(-low / static_cast<double>(found.scale)), 0.0, steps));
  }
  if (!(std::abs(found.scale) >= FLT_MIN)) found.scale = 1;
  return found;
}

/// The exponent of each error in robust_error: below 2, so that a few large errors count less than in a sum of squares.
constexpr double norm = 0.7;
double robust_error(std::span<const float> block, const Scale& scale, int greatest) {
  double sum = 0;
  for (float x : block) sum += std::pow(std::abs(x - scale.value(scale.step(x, greatest))), norm);
  return sum;
}

/// Returns the scale by half-quadratic quantisation (HQQ: Badri and Shaji, 2023): treats large errors as outliers and
/// fits the scale to the rest by least squares. (The paper fits the zero point, but kernels need an integer one.)
Scale hqq_scale(std::span<const float> block, const BlockFormat& format) {
  constexpr double growth = 1.01;
  constexpr int rounds = 20;
  Scale now = nearest_scale(block, format), best = now;
  double least = robust_error(block, now, format.greatest()), weight = 10 / std::abs(static_cast<double>(now.scale));
  for (int round = 0; round < rounds; ++round, weight *= growth) {
    double product = 0, square = 0;
    for (float x : block) {
      int step = now.step(x, format.greatest()) - now.zero;
      double error = x - step * static_cast<double>(now.scale);
      double kept = std::abs(error) - std::pow(std::abs(error) + 1e-12, norm - 1) / weight;
      product += step * (x - std::copysign(std::max(kept, 0.0), error)), square += step * step;
    }
    if (!(square > 0) || std::abs(product / square) < static_cast<double>(FLT_MIN)) break;
    now.scale = static_cast<float>(product / square);
    double error = robust_error(block, now, format.greatest());
    if (error < least) least = error, best = now;
  }
  return best;
}

/// Tries scales that clip the ends of the block by 0 % to 44 %, and returns the one with the least sum of squared
/// errors. Each squared error is weighted by the importance of its column.
Scale weighted_scale(std::span<const float> block, const BlockFormat& format, std::span<const float> importance) {
  constexpr int tries = 12;
  constexpr float step = 0.04f;
  auto [least, greatest] = std::ranges::minmax(block);
  Scale best;
  double lowest = 0;
  for (int i = 0; i < tries; ++i) {
    float kept = 1 - step * static_cast<float>(i), ends[] = {least * kept, greatest * kept};
    Scale now = nearest_scale(ends, format);
    double sum = 0;
    for (size_t k = 0; k < block.size(); ++k) {
      double error = block[k] - now.value(now.step(block[k], format.greatest()));
      sum += error * error * (importance.empty() ? 1 : static_cast<double>(importance[k]));
    }
    if (i == 0 || sum < lowest) lowest = sum, best = now;
  }
  return best;
}

/// Returns the scale rounded to the type that the file stores; 1 if it rounds to 0.
float stored(float scale, DType type) {
  if (type == DType::f32) return scale;
  FloatFormat format = float_format(type);
  auto rounded = static_cast<float>(decode_float(encode_float(static_cast<double>(scale), format, true), format));
  return rounded == 0 ? 1 : rounded;
}

Scale scale_of(std::span<const float> block, const BlockFormat& format, WeightMethod method,
               std::span<const float> importance) {
  if (method == WeightMethod::hqq) return hqq_scale(block, format);
  // Clipping makes errors smaller but gives them one sign, so it helps only if GPTQ compensates for them.
  return method == WeightMethod::gptq ? weighted_scale(block, format, importance) : nearest_scale(block, format);
}

/// Chooses the scales and zero points of a row.
void choose_scales(BlockWeights& to, int64_t row, std::span<const float> values, WeightMethod method,
                   std::span<const float> importance) {
  int64_t block = to.format.block;
  for (int64_t b = 0; b < to.blocks(); ++b) {
    size_t begin = b * block, count = std::min(block, to.k - b * block);
    auto weights = importance.empty() ? importance : importance.subspan(begin, count);
    Scale scale = scale_of(values.subspan(begin, count), to.format, method, weights);
    size_t place = row * to.blocks() + b;
    to.scales[place] = stored(scale.scale, to.format.scales), to.zeros[place] = scale.zero;
  }
}

void round_row(BlockWeights& to, int64_t row, std::span<const float> values, const GptqData* gptq) {
  size_t k = to.k, block = to.format.block;
  size_t first = row * to.blocks();
  uint8_t* steps = to.steps.data() + first * block;
  for (size_t i = 0; i < to.blocks() * block; ++i) steps[i] = to.zeros[first + i / block];
  auto round = [&](size_t i, float value) {
    Scale scale{.scale = to.scales[first + i / block], .zero = to.zeros[first + i / block]};
    steps[i] = scale.step(value, to.format.greatest());
    return static_cast<float>(scale.value(steps[i]));
  };
  if (gptq) return round_gptq(values, *gptq, round);
  for (size_t i = 0; i < k; ++i) round(i, values[i]);
}

}  // namespace

double BlockWeights::value(int64_t row, int64_t column) const {
  size_t b = row * blocks() + column / format.block;
  int step = steps[row * blocks() * format.block + column];
  return (step - zeros[b]) * static_cast<double>(scales[b]);
}

std::vector<float> rows_of(const Layer& layer) {
  std::span<const float> values = layer.values.as<float>();
  std::vector<float> rows(values.begin(), values.end());
  if (layer.channels == 0) return rows;
  size_t k = layer.values.dims[0], n = layer.values.dims[1];
  for (size_t i = 0; i < k; ++i)
    for (size_t j = 0; j < n; ++j) rows[j * k + i] = values[i * n + j];
  return rows;
}

BlockWeights round_blocks(const Layer& layer, BlockFormat format, WeightMethod method, std::span<const float> hessian,
                          size_t threads) {
  format.scales = layer.type;
  BlockWeights weights{.format = format, .n = layer.channel_count(), .k = layer.values.dims[layer.inner]};
  size_t scales = weights.n * weights.blocks(), k = weights.k;
  weights.steps.resize(scales * format.block);
  weights.scales.resize(scales), weights.zeros.resize(scales);
  std::vector<float> rows = rows_of(layer);
  GptqData gptq;
  bool is_gptq = method == WeightMethod::gptq;
  if (is_gptq) gptq = gptq_data(hessian, k);
  run_parallel(weights.n, threads, [&](size_t row) {
    std::span<const float> values = std::span(rows).subspan(row * k, k);
    choose_scales(weights, static_cast<int64_t>(row), values, method, gptq.importance);
    round_row(weights, static_cast<int64_t>(row), values, is_gptq ? &gptq : nullptr);
  });
  return weights;
}

double weight_noise(const Layer& layer, const BlockWeights& rounded) {
  std::vector<float> rows = rows_of(layer);
  double noise = 0, power = 0;
  for (int64_t row = 0, i = 0; row < rounded.n; ++row) {
    for (int64_t column = 0; column < rounded.k; ++column, ++i) {
      double x = rows[i], error = x - rounded.value(row, column);
      noise += error * error, power += x * x;
    }
  }
  return power > 0 ? noise / power : 0;
}

}  // namespace weft::quantise
