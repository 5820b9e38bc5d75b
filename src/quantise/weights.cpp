// SPDX-License-Identifier: Apache-2.0
#include "quantise/weights.h"

#include <algorithm>
#include <cmath>

#include "base/parallel.h"
#include "quantise/blocks.h"
#include "quantise/range.h"

namespace weft::quantise {
namespace {

/// Calls visit(i, weight, rounded weight) for each element, both as real numbers.
template <class Visit>
void for_each_pair(const Layer& layer, const ChannelWeights& rounded, const Visit& visit) {
  ChannelOrder channel = order_of(layer.values, layer.channels);
  std::span<const float> before = layer.values.as<float>();
  std::vector<double> after = to_doubles(rounded.values);
  for (size_t i = 0; i < before.size(); ++i)
    visit(i, static_cast<double>(before[i]),
          after[i] * static_cast<double>(rounded.scales[rounded.is_per_tensor() ? 0 : channel(i)]));
}

}  // namespace

ChannelOrder order_of(const Tensor& tensor, size_t axis) {
  ChannelOrder order{.inner = 1, .count = tensor.dims[axis]};
  for (size_t i = axis + 1; i < tensor.dims.size(); ++i) order.inner *= tensor.dims[i];
  return order;
}

std::vector<float> weight_scales(const Layer& layer, DType type, bool is_per_tensor, double limit) {
  ChannelOrder channel = order_of(layer.values, layer.channels);
  std::vector<double> most(is_per_tensor ? 1 : channel.count);
  std::span<const float> values = layer.values.as<float>();
  for (size_t i = 0; i < values.size(); ++i) {
    double& place = most[is_per_tensor ? 0 : channel(i)];
    place = std::max<double>(place, std::abs(values[i]));
  }
  std::vector<float> scales;
  for (double x : most) scales.push_back(static_cast<float>(grid_of({0, x * greatest_of(type) / limit}, type).scale));
  return scales;
}

void hold_bias(std::vector<float>& scales, const Tensor& bias, double input_scale) {
  constexpr double max_steps = 1 << 30;
  if (!is_float(bias.dtype)) return;
  std::vector<double> values = to_doubles(bias);
  if (scales.size() != 1 && scales.size() != values.size()) return;
  for (size_t i = 0; i < values.size(); ++i) {
    float& scale = scales[scales.size() == 1 ? 0 : i];
    scale = std::max(scale, static_cast<float>(std::abs(values[i]) / (input_scale * max_steps)));
  }
}

ChannelWeights round_weights(const Layer& layer, std::vector<float> scales, DType type) {
  ChannelOrder channel = order_of(layer.values, layer.channels);
  std::span<const float> values = layer.values.as<float>();
  std::vector<double> steps(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    double step = static_cast<double>(values[i]) / static_cast<double>(scales[scales.size() == 1 ? 0 : channel(i)]);
    steps[i] = std::clamp(type == DType::i8 ? std::nearbyint(step) : step, -greatest_of(type), greatest_of(type));
  }
  return {.type = type, .scales = std::move(scales), .values = make_tensor(type, layer.values.dims, steps)};
}

ChannelWeights round_weights(const Layer& layer, std::vector<float> scales, DType type, const GptqData& gptq,
                             double most, size_t threads) {
  std::vector<float> rows = rows_of(layer);
  size_t n = layer.channel_count(), k = rows.size() / n;
  std::vector<double> steps(rows.size());
  run_parallel(n, threads, [&](size_t row) {
    double scale = scales[scales.size() == 1 ? 0 : row];
    Grid grid{.type = type, .scale = scale};
    round_gptq(std::span(rows).subspan(row * k, k), gptq, [&](size_t i, float value) {
      double rounded = grid.rounded(std::clamp<double>(value, -most * scale, most * scale));
      steps[layer.channels == 0 ? row * k + i : i * n + row] = rounded / scale;
      return static_cast<float>(rounded);
    });
  });
  return {.type = type, .scales = std::move(scales), .values = make_tensor(type, layer.values.dims, steps)};
}

std::vector<double> mean_loss(const Layer& layer, const ChannelWeights& rounded, std::span<const double> means,
                              bool is_whole) {
  ChannelOrder channel = order_of(layer.values, layer.channels), inner = order_of(layer.values, layer.inner);
  std::vector<double> loss(channel.count);
  size_t groups = std::max<size_t>(means.size() / inner.count, 1);
  for_each_pair(layer, rounded, [&](size_t i, double before, double after) {
    size_t group = channel(i) * groups / channel.count;
    loss[channel(i)] += (before - (is_whole ? 0 : after)) * means[group * inner.count + inner(i)];
  });
  return loss;
}

double weight_noise(const Layer& layer, const ChannelWeights& rounded) {
  double noise = 0, power = 0;
  for_each_pair(layer, rounded, [&](size_t, double before, double after) {
    noise += (before - after) * (before - after), power += before * before;
  });
  return power > 0 ? noise / power : 0;
}

}  // namespace weft::quantise
