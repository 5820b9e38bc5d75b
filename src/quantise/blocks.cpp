// SPDX-License-Identifier: Apache-2.0
#include "quantise/blocks.h"

#include <algorithm>
#include <cfloat>
#include <cmath>

#include "base/error.h"
#include "base/parallel.h"
#include "base/text.h"

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

/// The least scale that holds all of a block.
Scale nearest_scale(std::span<const float> block, const BlockFormat& format) {
  auto [least, greatest] = std::ranges::minmax(block);
  double low = std::min(least, 0.0f), high = std::max(greatest, 0.0f), steps = format.greatest();
  Scale found;
  if (format.is_symmetric) {
    // The side that is further from 0 has one step more.
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

/// The sum of errors in a norm that counts a few large ones less than squares would.
constexpr double norm = 0.7;
double robust_error(std::span<const float> block, const Scale& scale, int greatest) {
  double sum = 0;
  for (float x : block) sum += std::pow(std::abs(x - scale.value(scale.step(x, greatest))), norm);
  return sum;
}

/// Half-quadratic quantisation (Badri and Shaji, 2023) of the scale: large errors are split off, and the rest decides
/// it by least squares. (The paper moves the zero point, which kernels want whole.)
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

Scale scale_of(std::span<const float> block, const BlockFormat& format, WeightMethod method) {
  return method == WeightMethod::hqq ? hqq_scale(block, format) : nearest_scale(block, format);
}

/// Upper triangle U with U' U the inverse of the damped h, [k, k]: what GPTQ reads the effect of an error from.
std::vector<double> inverse_factor(std::span<const float> h, size_t k) {
  constexpr double damping = 0.01;
  double mean = 0;
  for (size_t i = 0; i < k; ++i) mean += static_cast<double>(h[i * k + i]) / static_cast<double>(k);
  double added = std::max(damping * mean, 1e-9);
  // h = R R' with R upper triangular, from the last row on; then its inverse has the factor U = R^-1.
  std::vector<double> r(k * k), u(k * k);
  for (size_t j = k; j-- > 0;) {
    double rest = static_cast<double>(h[j * k + j]) + added;
    for (size_t t = j + 1; t < k; ++t) rest -= r[j * k + t] * r[j * k + t];
    r[j * k + j] = std::sqrt(std::max(rest, added * 1e-3));
    for (size_t i = 0; i < j; ++i) {
      double sum = h[i * k + j];
      for (size_t t = j + 1; t < k; ++t) sum -= r[i * k + t] * r[j * k + t];
      r[i * k + j] = sum / r[j * k + j];
    }
  }
  for (size_t i = k; i-- > 0;) {
    u[i * k + i] = 1 / r[i * k + i];
    for (size_t t = i + 1; t < k; ++t) {
      double factor = r[i * k + t] * u[i * k + i];
      for (size_t j = t; j < k; ++j) u[i * k + j] -= factor * u[t * k + j];
    }
  }
  return u;
}

/// Rounds one row; with a factor, each column's error moves the columns after it so that the product changes least
/// (Frantar and others, "GPTQ", 2022).
void round_row(BlockWeights& to, int64_t row, std::vector<float> values, WeightMethod method,
               std::span<const double> factor) {
  int64_t k = to.k, block = to.format.block;
  uint8_t* steps = to.steps.data() + row * to.blocks() * block;
  for (int64_t b = 0; b < to.blocks(); ++b) {
    int64_t begin = b * block, end = std::min(begin + block, k);
    Scale scale = scale_of({values.data() + begin, values.data() + end}, to.format, method);
    to.scales[static_cast<size_t>(row * to.blocks() + b)] = scale.scale;
    to.zeros[static_cast<size_t>(row * to.blocks() + b)] = scale.zero;
    std::fill(steps + begin, steps + begin + block, scale.zero);
    for (int64_t i = begin; i < end; ++i) {
      auto at = static_cast<size_t>(i), width = static_cast<size_t>(k);
      steps[i] = scale.step(values[at], to.format.greatest());
      if (factor.empty()) continue;
      double error = (static_cast<double>(values[at]) - scale.value(steps[i])) / factor[at * width + at];
      for (size_t j = at + 1; j < width; ++j) values[j] -= static_cast<float>(error * factor[at * width + j]);
    }
  }
}

}  // namespace

double BlockWeights::value(int64_t row, int64_t column) const {
  auto b = static_cast<size_t>(row * blocks() + column / format.block);
  int step = steps[static_cast<size_t>(row * blocks() * format.block + column)];
  return (step - zeros[b]) * static_cast<double>(scales[b]);
}

std::vector<float> rows_of(const Layer& layer) {
  std::span<const float> values = layer.values.as<float>();
  std::vector<float> rows(values.begin(), values.end());
  if (layer.channels == 0) return rows;
  auto k = static_cast<size_t>(layer.values.dims[0]), n = static_cast<size_t>(layer.values.dims[1]);
  for (size_t i = 0; i < k; ++i)
    for (size_t j = 0; j < n; ++j) rows[j * k + i] = values[i * n + j];
  return rows;
}

BlockWeights round_blocks(const Layer& layer, BlockFormat format, WeightMethod method, std::span<const float> hessian,
                          size_t threads) {
  BlockWeights weights{.format = format, .n = layer.channel_count(), .k = layer.values.dims[layer.inner]};
  auto scales = static_cast<size_t>(weights.n * weights.blocks()), k = static_cast<size_t>(weights.k);
  weights.steps.resize(scales * static_cast<size_t>(format.block));
  weights.scales.resize(scales), weights.zeros.resize(scales);
  std::vector<float> rows = rows_of(layer);
  std::vector<double> factor;
  if (method == WeightMethod::gptq) factor = inverse_factor(hessian, k);
  run_parallel(static_cast<size_t>(weights.n), threads, [&](size_t row) {
    auto begin = rows.begin() + static_cast<std::ptrdiff_t>(row * k);
    round_row(weights, static_cast<int64_t>(row), {begin, begin + static_cast<std::ptrdiff_t>(k)}, method, factor);
  });
  return weights;
}

double weight_noise(const Layer& layer, const BlockWeights& rounded) {
  std::vector<float> rows = rows_of(layer);
  double noise = 0, power = 0;
  for (int64_t row = 0, i = 0; row < rounded.n; ++row) {
    for (int64_t column = 0; column < rounded.k; ++column, ++i) {
      double x = rows[static_cast<size_t>(i)], error = x - rounded.value(row, column);
      noise += error * error, power += x * x;
    }
  }
  return power > 0 ? noise / power : 0;
}

}  // namespace weft::quantise
