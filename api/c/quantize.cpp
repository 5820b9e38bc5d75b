// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "api/c/calibration_table.h"
#include "api/c/handles.h"
#include "quantise/quantise.h"

using namespace weft;

namespace {

Tensor input_of(const weft_tensor* given, const Port& port) {
  if (given) return given->tensor;
  if (port.default_value) return *port.default_value;
  usage_error("E310", cat("input '", printable(port.name), "' is missing"),
              cat("it is ", to_string(port.type), " and has no default"));
}

/// Samples that the caller's function weft_quantize_options::item returns.
class CalledSamples : public quantise::Samples {
 public:
  explicit CalledSamples(const weft_quantize_options& options) : options_(options) {}

  void open(std::vector<std::string> names) override { names_ = std::move(names); }
  void rewind() override { index_ = 0; }

  std::optional<std::vector<Tensor>> next(const Executable& model) override {
    std::vector<weft_tensor*> given(names_.size());
    int32_t answer = options_.item(options_.user, index_++, given.data());
    std::vector<std::unique_ptr<weft_tensor, void (*)(weft_tensor*)>> owned;
    for (weft_tensor* tensor : given) owned.emplace_back(tensor, weft_tensor_free);
    if (answer < 0) usage_error("E220", "the function that gives the data failed");
    if (answer == 0) return std::nullopt;
    std::vector<Tensor> inputs;
    for (const Port& port : model.inputs()) {
      auto place = std::ranges::find(names_, port.name);
      inputs.push_back(input_of(place == names_.end() ? nullptr : given[place - names_.begin()], port));
    }
    return inputs;
  }

 private:
  const weft_quantize_options& options_;
  std::vector<std::string> names_;
  size_t index_ = 0;
};

/// Converts the options, except functions.
quantise::Settings to_settings(const weft_quantize_options& o) {
  quantise::Settings settings;
  if (o.to) settings.to = quantise::parse_target(o.to);
  if (o.method) settings.method = quantise::parse_range_method(o.method);
  if (o.weights) settings.weights = quantise::parse_weight_method(o.weights);
  if (o.percentile != 0) settings.percentile = o.percentile;
  if (o.block != 0) settings.block = o.block;
  settings.is_symmetric = o.symmetric != 0;
  settings.is_per_tensor = o.per_tensor != 0;
  settings.correct_bias = o.keep_bias == 0;
  if (o.keep_count > 0) required(o.keep, "keep");
  for (size_t i = 0; i < o.keep_count; ++i) settings.keep.emplace_back(&required(o.keep[i], "keep"));
  if (o.budget != 0) settings.budget = o.budget;
  settings.threads = o.threads;
  if (o.smooth != 0) settings.smooth = o.smooth == -1 ? 0 : o.smooth;
  if (o.ranges) settings.ranges = quantise::read_ranges(o.ranges);
  if (o.products < 0 || o.products > 3) usage_error("E210", cat("products is ", o.products, ", not 0, 1, 2 or 3"));
  settings.is_qdq = o.qdq != 0;
  settings.is_range_reduced = o.reduce_range != 0;
  settings.has_products = o.products != 2;
  settings.has_convolutions = o.products != 1;
  return settings;
}

}  // namespace

weft_status* weft_quantize_bytes(const void* model, size_t size, const weft_quantize_options* options,
                                 weft_tensor** quantized, char** report) {
  return guarded([&] {
    required(static_cast<const std::byte*>(model), "model"), required(quantized, "quantized");
    weft_quantize_options o = known_part(options, weft_quantize_options WEFT_QUANTIZE_OPTIONS_INIT);
    if (o.metric) usage_error("E210", "a metric is for models in files", "use weft_quantize");
    CalledSamples samples(o);
    Bytes bytes = Bytes::copy({static_cast<const std::byte*>(model), size});
    auto made = quantise::quantise_bytes(bytes, o.folder ? o.folder : "", to_settings(o), o.item ? &samples : nullptr);
    auto tensor = std::make_unique<weft_tensor>(weft_tensor{.tensor = bytes_tensor(made.model)});
    if (report) give_text(report, "report", made.report);
    *quantized = tensor.release();
  });
}

weft_status* weft_quantize(const char* model, const char* output, const weft_quantize_options* options, char** report) {
  return guarded([&] {
    required(model, "model"), required(output, "output");
    weft_quantize_options o = known_part(options, weft_quantize_options WEFT_QUANTIZE_OPTIONS_INIT);
    quantise::Settings settings = to_settings(o);
    if (o.metric) settings.metric = [&o](const std::filesystem::path& path) { return o.metric(o.user, path.c_str()); };
    if (o.progress)
      settings.progress = [&o](const Progress& p) { o.progress(o.user, p.phase.c_str(), p.done, p.total); };
    CalledSamples samples(o);
    std::string json = quantise::quantise(model, output, settings, o.item ? &samples : nullptr);
    if (report) give_text(report, "report", json);
  });
}
