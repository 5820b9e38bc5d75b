// SPDX-License-Identifier: Apache-2.0
#include "quantise/scaling.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "quantise/fold.h"
#include "quantise/weights.h"

namespace weft::quantise {
namespace {

/// The layers that read each value, by the value's name. Layers that read the same value share its factors.
using Readers = std::map<std::string, std::vector<size_t>>;

Readers layers_by_input(const std::vector<Layer>& layers, const Observation& seen) {
  Readers readers;
  for (size_t i = 0; i < layers.size(); ++i)
    if (seen.contains(layers[i].input) && seen.at(layers[i].input).rows > 0) readers[layers[i].input].push_back(i);
  std::erase_if(readers, [&](const auto& entry) {
    auto is_convolution = [&](size_t i) { return layers[i].is_convolution(); };
    auto count = std::ranges::count_if(entry.second, is_convolution);
    return count > 0 && count < std::ssize(entry.second);
  });
  return readers;
}

/// The mapping from each element of a weight to the input channel that the element multiplies.
class Meeting {
 public:
  Meeting(const Layer& layer, size_t inputs)
      : inner_(order_of(layer.values, layer.inner)),
        channel_(order_of(layer.values, layer.channels)),
        groups_(std::max<size_t>(inputs / inner_.count, 1)) {}
  size_t operator()(size_t index) const {
    return channel_(index) * groups_ / channel_.count * inner_.count + inner_(index);
  }

 private:
  ChannelOrder inner_, channel_;
  size_t groups_;
};

/// Returns the weight multiplied by a factor for each input channel.
Tensor times(const Layer& layer, std::span<const double> factors) {
  Meeting channel(layer, factors.size());
  std::vector<double> values = to_doubles(layer.values);
  for (size_t i = 0; i < values.size(); ++i) values[i] *= factors[channel(i)];
  return make_tensor(DType::f32, layer.values.dims, values);
}

/// Adds a Mul that multiplies the value's channels by `inverse`; returns the name of its result.
std::string divided(ModelEdit& edit, const std::string& input, const std::vector<double>& inverse, DType type) {
  std::string divisor = edit.new_name(input + "_factors");
  edit.add_weight(divisor, make_tensor(type, {std::ssize(inverse)}, inverse));
  return edit.put_behind(input, {.op = "Mul", .inputs = {input, divisor}}, "_scaled");
}

/// Divides the channels of the layers' common input by factors. Changes nothing and returns false if that needs a Mul
/// and `only_folded` is set or the layers are convolutions.
bool divide(ModelEdit& edit, Constants& constants, std::vector<Layer>& layers, const std::vector<size_t>& readers,
            std::span<const double> factors, bool only_folded = false) {
  std::vector<double> inverse(factors.size());
  std::ranges::transform(factors, inverse.begin(), [](double x) { return 1 / x; });
  std::string scaled = layers[readers[0]].input;
  if (!fold_factors(edit, constants, layers, readers, inverse)) {
    if (only_folded || layers[readers[0]].is_convolution()) return false;
    scaled = divided(edit, scaled, inverse, layers[readers[0]].type);
  }
  for (size_t i : readers) {
    Layer& layer = layers[i];
    layer.values = times(layer, factors);
    layer.input = scaled;
    layer.weight = edit.new_name(layer.weight + "_scaled");
    edit.add_weight(layer.weight, in_type(layer.values, layer.type));
    edit.set_input(layer.node, 0, scaled);
    edit.set_input(layer.node, 1, layer.weight);
  }
  return true;
}

/// Returns the largest absolute weight of each input channel over all layers that read it.
std::vector<double> greatest_weights(const std::vector<Layer>& layers, const std::vector<size_t>& readers,
                                     size_t channels) {
  std::vector<double> most(channels);
  for (size_t i : readers) {
    Meeting channel(layers[i], channels);
    std::span<const float> values = layers[i].values.as<float>();
    for (size_t k = 0; k < values.size(); ++k)
      most[channel(k)] = std::max<double>(most[channel(k)], std::abs(values[k]));
  }
  return most;
}

/// Sets factors that are not normal floats (0, NaN) to 1, divides all by their geometric mean, clamps to [1e-4, 1e4].
std::vector<double> centred(std::vector<double> factors) {
  double sum = 0;
  for (double& factor : factors) {
    if (!std::isnormal(static_cast<float>(factor))) factor = 1;
    sum += std::log(factor);
  }
  double mean = std::exp(sum / static_cast<double>(factors.size()));
  for (double& factor : factors) factor = std::clamp(factor / mean, 1e-4, 1e4);
  return factors;
}

/// Returns the expected squared error of int8 products after the input is divided by these factors. The input has one
/// scale, each weight one scale per output channel.
double lost(const std::vector<Layer>& layers, const std::vector<size_t>& readers, const Observed& values,
            std::span<const double> factors) {
  constexpr double steps = 127;
  double greatest = 0, sum = 0;
  for (size_t i = 0; i < factors.size(); ++i)
    greatest = std::max(greatest, static_cast<double>(values.greatest[i]) / factors[i]);
  for (size_t reader : readers) {
    const Layer& layer = layers[reader];
    Meeting channel(layer, factors.size());
    ChannelOrder result = order_of(layer.values, layer.channels);
    std::span<const float> weights = layer.values.as<float>();
    std::vector<double> most(result.count), power(result.count);
    for (size_t i = 0; i < weights.size(); ++i) {
      size_t from = channel(i), to = result(i);
      double scaled = weights[i] * factors[from];
      most[to] = std::max(most[to], std::abs(scaled));
      power[to] += values.squares[from] / (factors[from] * factors[from] * static_cast<double>(values.rows));
      sum += std::pow(scaled * greatest / steps, 2);
    }
    for (int64_t to = 0; to < result.count; ++to) sum += std::pow(most[to] / steps, 2) * power[to];
  }
  return sum;
}

/// Returns the expected squared error of the products after the weight is rounded, if input channels are independent.
double changed(const Layer& layer, std::span<const double> factors, std::span<const double> squares,
               const BlockFormat& format, size_t threads) {
  Layer scaled = layer;
  scaled.values = times(layer, factors);
  BlockWeights rounded = round_blocks(scaled, format, WeightMethod::nearest, {}, threads);
  std::vector<float> rows = rows_of(scaled);
  double sum = 0;
  for (int64_t row = 0, i = 0; row < rounded.n; ++row) {
    for (int64_t k = 0; k < rounded.k; ++k, ++i) {
      double error = (rows[i] - rounded.value(row, k)) / factors[k];
      sum += error * error * squares[k];
    }
  }
  return sum;
}

}  // namespace

bool smooth(ModelEdit& edit, Constants& constants, std::vector<Layer>& layers, const Observation& seen,
            std::optional<double> strength) {
  constexpr double worth = 0.7;
  bool changed = false;
  for (const auto& [input, readers] : layers_by_input(layers, seen)) {
    const Observed& values = seen.at(input);
    std::vector<double> weights = greatest_weights(layers, readers, values.greatest.size()), best;
    double least = strength ? HUGE_VAL : worth * lost(layers, readers, values, std::vector<double>(weights.size(), 1));
    for (double power : strength ? std::vector{*strength} : std::vector{0.3, 0.5, 0.7}) {
      std::vector<double> factors(weights.size());
      for (size_t i = 0; i < factors.size(); ++i)
        factors[i] = std::pow(values.greatest[i], power) / std::pow(weights[i], 1 - power);
      factors = centred(std::move(factors));
      double now = lost(layers, readers, values, factors);
      if (now < least) least = now, best = std::move(factors);
    }
    if (!best.empty()) changed |= divide(edit, constants, layers, readers, best, !strength);
  }
  return changed;
}

void protect(ModelEdit& edit, Constants& constants, std::vector<Layer>& layers, const Observation& seen,
             const BlockFormat& format, size_t threads) {
  constexpr int tries = 20;
  for (const auto& [input, readers] : layers_by_input(layers, seen)) {
    const std::vector<double>& squares = seen.at(input).squares;
    std::vector<double> best(squares.size(), 1);
    double least = 0;
    for (int i = 0; i < tries; ++i) {
      std::vector<double> factors(squares.size());
      std::ranges::transform(squares, factors.begin(), [&](double x) { return std::pow(x, 0.5 * i / tries); });
      factors = centred(std::move(factors));
      double now = 0;
      for (size_t reader : readers) now += changed(layers[reader], factors, squares, format, threads);
      if (i == 0 || now < least) least = now, best = std::move(factors);
    }
    divide(edit, constants, layers, readers, best);
  }
}

}  // namespace weft::quantise
