// SPDX-License-Identifier: Apache-2.0
#include "quantise/quantise.h"

#include <array>
#include <cerrno>

#include "base/file.h"
#include "base/knobs.h"
#include "base/text.h"
#include "frontends/onnx/file/reader.h"
#include "quantise/report.h"
#include "quantise/search.h"
#include "quantise/source.h"
#include "quantise/work.h"
#include "targets/cpu/thread_pool.h"

namespace weft::quantise {
namespace {

constexpr std::array<std::string_view, 6> targets = {"int8", "fp8", "int8-dynamic", "int8-weights", "int4", "fp8-fnuz"};
constexpr std::array<std::string_view, 4> weight_methods = {"nearest", "hqq", "gptq", "awq"};

void check(const Settings& settings) {
  int64_t block = settings.block;
  if (block < 16 || block > 256 || (block & (block - 1)) != 0)
    refuse("E203", cat("a block of ", block, " weights is not a power of two from 16 to 256"));
  if (!(settings.percentile > 50 && settings.percentile <= 100))
    refuse("E203", cat("a percentile of ", settings.percentile, " is not above 50 and at most 100"));
  if (settings.smooth && !(*settings.smooth >= 0 && *settings.smooth < 1))
    refuse("E203", cat("a strength of smoothing of ", *settings.smooth, " is not from 0 to below 1"));
  bool is_blocked = settings.to == Target::int4 || settings.to == Target::int8_weights,
       is_dynamic = settings.to == Target::int8_dynamic;
  auto weights = settings.weights.value_or(WeightMethod::nearest);
  bool is_known = weights == WeightMethod::nearest || (weights == WeightMethod::gptq && !is_dynamic);
  if (!is_blocked && !is_known) refuse("E203", cat(name(settings.to), " does not round weights by ", name(weights)));
  if (settings.is_range_reduced && settings.to != Target::int8)
    refuse("E203", cat("a reduced range of weights is for int8, not for ", name(settings.to)));
  if (settings.budget && !(*settings.budget >= 0)) refuse("E203", cat("a budget of ", *settings.budget, " is below 0"));
}

Settings completed(Settings settings, bool has_data) {
  check(settings);
  bool takes_gptq = has_data && (settings.to == Target::int4 || is_fp8(settings.to));
  if (!settings.weights) settings.weights = takes_gptq ? WeightMethod::gptq : WeightMethod::nearest;
  if (settings.threads == 0)
    settings.threads = knobs().threads > 0 ? static_cast<int>(knobs().threads) : available_threads();
  return settings;
}

Work started(onnx::Model model, const std::filesystem::path& folder, const Settings& given, Samples* samples) {
  Settings settings = completed(given, samples != nullptr);
  return Work(in_opset(std::move(model), opset_for(settings)), folder, settings, samples);
}

}  // namespace

Target parse_target(std::string_view text) { return parse_name<Target>(text, targets, "target of quantisation"); }
std::string_view name(Target target) { return targets[static_cast<size_t>(target)]; }
WeightMethod parse_weight_method(std::string_view text) {
  return parse_name<WeightMethod>(text, weight_methods, "way to round weights");
}
std::string_view name(WeightMethod method) { return weight_methods[static_cast<size_t>(method)]; }

std::string quantise(const std::filesystem::path& model, const std::filesystem::path& output, const Settings& settings,
                     Samples* samples) {
  auto folder = output.parent_path();
  if (!folder.empty() && !std::filesystem::is_directory(folder)) file_error(output.string(), "create", ENOENT);
  Work work = started(read_any(model), model.parent_path(), settings, samples);
  Choice choice = choose_layers(work, output);
  ModelEdit edit = work.quantised(choice.floats);
  auto json = report(work, choice);  // before the file is written, in case memory runs out here
  edit.write(output);
  return json.dump(1);
}

Quantised quantise_bytes(Bytes model, const std::filesystem::path& folder, const Settings& settings, Samples* samples) {
  Work work = started(onnx::read_model(std::move(model), {.external_data_dir = folder}), folder, settings, samples);
  Choice choice = choose_layers(work, {});
  return {.model = work.quantised(choice.floats).bytes(), .report = report(work, choice).dump(1)};
}

}  // namespace weft::quantise
