// SPDX-License-Identifier: Apache-2.0
#include "quantise/observe.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/parallel.h"
#include "base/text.h"

namespace weft::quantise {
namespace {

void check_numbers(const Executable& model, const std::vector<Tensor>& inputs) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].is_tensor() || !is_float(inputs[i].dtype) || inputs[i].data.empty()) continue;
    auto is_number = [](double x) { return std::isfinite(x); };
    if (!std::ranges::all_of(to_doubles(inputs[i]), is_number))
      refuse("E220", cat("input '", printable(model.inputs()[i].name), "' holds a NaN or an infinity"),
             "give it finite numbers");
  }
}

void add_channels(Observed& to, const Tensor& value, size_t axis) {
  size_t channels = value.dims[axis];
  size_t inner = 1;
  for (size_t i = axis + 1; i < value.dims.size(); ++i) inner *= value.dims[i];
  to.sums.resize(channels), to.squares.resize(channels), to.greatest.resize(channels);
  std::span<const float> x = value.as<float>();
  for (size_t begin = 0, c = 0; begin < x.size(); begin += inner, c = (c + 1) % channels) {
    double sum = 0, square = 0;
    float most = to.greatest[c];
    for (float v : x.subspan(begin, inner)) {
      sum += v, square += static_cast<double>(v) * v;
      most = std::max(most, std::abs(v));
    }
    to.sums[c] += sum, to.squares[c] += square, to.greatest[c] = most;
  }
  to.rows += static_cast<int64_t>(x.size() / channels);
}

void add(Observed& to, const Layer& layer, const Tensor& given, size_t item) {
  Tensor value = in_type(given, DType::f32);
  if (!is_finite(value.as<float>())) to.why_not = cat("item ", item, " makes its input infinite or NaN");
  if (!to.why_not.empty() || value.data.empty()) return;
  to.histogram.add(value.as<float>());
  add_channels(to, value, layer.is_convolution() ? 1 : value.dims.size() - 1);
}

}  // namespace

Runner::Runner(const ModelEdit& edit, int threads) {
  executable_ = compile_bytes(Bytes::copy(as_bytes(edit.bytes())),
                              {.device = "cpu", .threads = threads, .folder = edit.folder()});
  context_ = executable_->new_context();
}

std::vector<double> Observed::means() const {
  std::vector<double> found = sums;
  for (double& mean : found) mean /= static_cast<double>(rows);
  return found;
}

void for_each_item(const Runner& runner, Samples& samples,
                   const std::function<void(size_t item, const std::vector<Tensor>& inputs)>& visit, size_t most) {
  samples.rewind();
  size_t item = 0;
  try {
    for (; item < most; ++item) {
      auto inputs = samples.next(runner.model());
      if (!inputs) break;
      check_numbers(runner.model(), *inputs);
      visit(item, *inputs);
    }
  } catch (const Error& error) {
    ErrorInfo info = error.info();
    info.what = cat("item ", item, " of the data: ", info.what);
    throw Error(info);
  }
  if (item == 0) refuse("E220", "the data has no item", "give examples of the model's inputs");
}

Observation observe(const ModelEdit& edit, const std::vector<Layer>& layers, Samples& samples,
                    const Settings& settings) {
  std::map<std::string, const Layer*> wanted;
  for (const Layer& layer : layers) wanted.emplace(layer.input, &layer);
  Observation seen;
  std::vector<std::pair<Observed*, const Layer*>> places;
  std::vector<std::string> names;
  for (const auto& [name, layer] : wanted) {
    names.push_back(name);
    places.emplace_back(&seen[name], layer);
  }
  ModelEdit edited = edit;
  edited.set_outputs(names);
  Runner runner(edited, settings.threads);
  for_each_item(runner, samples, [&](size_t item, const std::vector<Tensor>& inputs) {
    std::vector<Tensor> values = runner.run(inputs);
    size_t threads = std::max(settings.threads, 1);
    run_parallel(values.size(), threads, [&](size_t i) { add(*places[i].first, *places[i].second, values[i], item); });
    if (settings.progress) settings.progress({.phase = cat("learning from item ", item + 1)});
  });
  return seen;
}

}  // namespace weft::quantise
