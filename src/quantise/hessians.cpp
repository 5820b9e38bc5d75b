// SPDX-License-Identifier: Apache-2.0
#include "quantise/hessians.h"

#include <algorithm>
#include <map>

#include "base/parallel.h"
#include "base/text.h"

namespace weft::quantise {
namespace {

constexpr size_t most_bytes = 512 << 20;

/// Layers that read one value share its sum.
struct Sum {
  size_t k = 0;
  std::vector<size_t> layers;
  std::vector<float> values;
};

/// Adds to the part right of the diagonal, four rows at a time. They stay in the cache while a few rows of the sum
/// pass.
void add_rows(Sum& sum, std::span<const float> x, size_t threads) {
  constexpr size_t few = 8;
  size_t k = sum.k;
  run_parallel((k + few - 1) / few, threads, [&](size_t part) {
    size_t row = 0, begin = part * few, end = std::min(begin + few, k);
    for (; row + 4 * k <= x.size(); row += 4 * k) {
      const float *a = x.data() + row, *b = a + k, *c = b + k, *d = c + k;
      for (size_t i = begin; i < end; ++i) {
        float* to = sum.values.data() + i * k;
        for (size_t j = i; j < k; ++j) to[j] += (a[i] * a[j] + b[i] * b[j]) + (c[i] * c[j] + d[i] * d[j]);
      }
    }
    for (; row < x.size(); row += k)
      for (size_t i = begin; i < end; ++i)
        for (size_t j = i; j < k; ++j) sum.values[i * k + j] += x[row + i] * x[row + j];
  });
}

void mirror(Sum& sum) {
  for (size_t i = 0; i < sum.k; ++i)
    for (size_t j = 0; j < i; ++j) sum.values[i * sum.k + j] = sum.values[j * sum.k + i];
}

/// Groups of as many sums as fit the memory, at least one each.
std::vector<std::map<std::string, Sum>> parts_of(const std::vector<Layer>& layers) {
  std::map<std::string, Sum> all;
  for (size_t i = 0; i < layers.size(); ++i) {
    Sum& sum = all[layers[i].input];
    sum.k = static_cast<size_t>(layers[i].values.dims[layers[i].inner]);
    sum.layers.push_back(i);
  }
  std::vector<std::map<std::string, Sum>> parts(1);
  size_t bytes = 0;
  for (auto& [name, sum] : all) {
    size_t more = sum.k * sum.k * sizeof(float);
    if (bytes + more > most_bytes && !parts.back().empty()) parts.emplace_back(), bytes = 0;
    bytes += more;
    parts.back().emplace(name, std::move(sum));
  }
  return parts;
}

}  // namespace

void for_each_hessian(const ModelEdit& edit, const std::vector<Layer>& layers, Samples& samples,
                      const Settings& settings,
                      const std::function<void(size_t layer, std::span<const float> hessian)>& visit) {
  auto threads = static_cast<size_t>(std::max(settings.threads, 1));
  for (auto& part : parts_of(layers)) {
    std::vector<std::string> names;
    for (auto& [name, sum] : part) {
      names.push_back(name);
      sum.values.assign(sum.k * sum.k, 0);
    }
    ModelEdit edited = edit;
    edited.set_outputs(names);
    Runner runner(edited, settings.threads);
    for_each_item(runner, samples, [&](size_t item, const std::vector<Tensor>& inputs) {
      std::vector<Tensor> values = runner.run(inputs);
      for (size_t i = 0; i < names.size(); ++i)
        add_rows(part.at(names[i]), in_type(values[i], DType::f32).as<float>(), threads);
      if (settings.progress) settings.progress({.phase = cat("gptq: item ", item + 1)});
    });
    for (auto& [name, sum] : part) {
      mirror(sum);
      for (size_t layer : sum.layers) visit(layer, sum.values);
    }
  }
}

}  // namespace weft::quantise
