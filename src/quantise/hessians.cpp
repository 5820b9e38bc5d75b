// SPDX-License-Identifier: Apache-2.0
#include "quantise/hessians.h"

#include <algorithm>
#include <map>

#include "base/parallel.h"
#include "base/text.h"
#include "quantise/place.h"

namespace weft::quantise {
namespace {

constexpr size_t max_bytes = 512 << 20;

/// The layers that read the same value, which share one Hessian.
struct Sum {
  size_t k = 0;
  std::vector<size_t> layers;
  std::vector<float> values;
};

/// Adds nodes for X^T X to the model, where X is the matrix of the value's rows; returns the name of that product.
std::string put_product(ModelEdit& edit, const std::string& value, const Sum& sum, DType type) {
  auto put = [&](const char* op, std::vector<std::string> inputs) {
    return edit.put_behind(value, {.op = op, .inputs = std::move(inputs)}, "_sum");
  };
  std::string sizes = edit.new_name(value + "_sizes");
  edit.add_weight(sizes, make_i64_tensor(std::vector{int64_t{-1}, static_cast<int64_t>(sum.k)}));
  std::string rows = put("Reshape", {as_f32(edit, value, type), sizes});
  return put("MatMul", {put("Transpose", {rows}), rows});
}

/// Splits the sums into groups of at most max_bytes, or of a single sum that is larger.
std::vector<std::map<std::string, Sum>> parts_of(const std::vector<Layer>& layers) {
  std::map<std::string, Sum> all;
  for (size_t i = 0; i < layers.size(); ++i) {
    Sum& sum = all[layers[i].input];
    sum.k = layers[i].values.dims[layers[i].inner];
    sum.layers.push_back(i);
  }
  std::vector<std::map<std::string, Sum>> parts(1);
  size_t bytes = 0;
  for (auto& [name, sum] : all) {
    size_t more = sum.k * sum.k * sizeof(float);
    if (bytes + more > max_bytes && !parts.back().empty()) parts.emplace_back(), bytes = 0;
    bytes += more;
    parts.back().emplace(name, std::move(sum));
  }
  return parts;
}

}  // namespace

void for_each_hessian(const ModelEdit& edit, const std::vector<Layer>& layers, Samples& samples,
                      const Settings& settings,
                      const std::function<void(size_t layer, std::span<const float> hessian)>& visit) {
  for (auto& part : parts_of(layers)) {
    ModelEdit edited = edit;
    std::vector<std::string> names;
    std::vector<std::vector<float>*> sums;
    for (auto& [name, sum] : part) {
      names.push_back(put_product(edited, name, sum, layers[sum.layers[0]].type));
      sum.values.assign(sum.k * sum.k, 0);
      sums.push_back(&sum.values);
    }
    edited.set_outputs(names);
    Runner runner(edited, settings.threads);
    for_each_item(runner, samples, [&](size_t item, const std::vector<Tensor>& inputs) {
      std::vector<Tensor> values = runner.run(inputs);
      run_parallel(names.size(), settings.threads, [&](size_t i) {
        std::ranges::transform(*sums[i], values[i].as<float>(), sums[i]->begin(), std::plus());
      });
      if (settings.progress) settings.progress({.phase = cat("gptq: item ", item + 1)});
    });
    for (auto& [name, sum] : part)
      for (size_t layer : sum.layers) visit(layer, sum.values);
  }
}

}  // namespace weft::quantise
