// SPDX-License-Identifier: Apache-2.0
#include "quantise/report.h"

#include <cmath>

#include "base/text.h"

namespace weft::quantise {
namespace {

using Json = nlohmann::ordered_json;

/// Returns the signal-to-noise ratio in decibels; null if there is no noise.
Json decibels(double noise) { return noise > 0 ? Json(-10 * std::log10(noise)) : Json(); }

Json histogram_json(const Histogram& seen) {
  Json bins = Json::array();
  constexpr size_t most = 64;
  double low = seen.least(), width = (seen.greatest() - low) / most;
  std::vector<int64_t> counts(most);
  for (const auto& bin : seen.bins())
    counts[width > 0 ? std::min(static_cast<size_t>(std::max((bin.middle - low) / width, 0.0)), most - 1) : 0] +=
        bin.count;
  for (int64_t count : counts) bins.push_back(count);
  return {{"least", low}, {"greatest", seen.greatest()}, {"zeros", seen.zeros()}, {"counts", bins}};
}

Json layer_json(const Work& work, const Choice& choice, size_t i) {
  const Layer& layer = work.layers()[i];
  const Prepared& made = work.prepared()[i];
  bool is_spared = choice.floats.contains(i);
  bool is_last = work.is_last(layer);
  bool is_dynamic = work.is_dynamic(i) && !is_spared;
  auto becomes =
      is_spared || is_last ? work.spared_form() : name(is_dynamic ? Target::int8_dynamic : work.settings().to);
  Json json = {{"node", layer.name}, {"op", layer.op}, {"becomes", becomes}};
  if (is_last) json["why"] = "the last layer";
  else if (is_spared) json["why"] = work.settings().budget ? "the budget" : "it loses most for its size";
  else if (is_dynamic)
    json["why"] = cat("a few inputs are far larger than the others: a fixed step would add noise of ",
                      100 * made.usual_noise, " % of the others' power");
  json["weights"] = layer.values.elements();
  json["weight_db"] = decibels(made.weight_noise);
  json["share_of_loss"] = choice.shares[i];
  auto seen = work.seen().find(layer.input);
  bool has_grid = work.settings().to == Target::int8 || is_fp8(work.settings().to);
  if (seen == work.seen().end() || !has_grid) return json;
  json["input"] = {{"name", layer.input}, {"scale", made.input.scale}, {"zero", made.input.zero}};
  json["input"]["range"] = {made.input.rounded(-HUGE_VAL), made.input.rounded(HUGE_VAL)};
  json["input_db"] = decibels(made.input_noise);
  json["histogram"] = histogram_json(seen->second.histogram);
  return json;
}

}  // namespace

Json report(const Work& work, const Choice& choice) {
  const Settings& settings = work.settings();
  Json json = {{"to", name(settings.to)}, {"method", name(settings.method)}, {"weights", name(*settings.weights)}};
  size_t spared = work.spared_form() == "float" ? choice.floats.size() : 0;
  json["quantised"] = work.layers().size() + work.stored().size() - spared;
  json["floats"] = work.floats().size() + spared;
  json["loss"] = std::isnan(choice.loss) ? Json() : Json(choice.loss);
  if (settings.budget) json["budget"] = *settings.budget;
  json["evaluations"] = Json::array();
  for (const Evaluation& e : choice.evaluations)
    json["evaluations"].push_back({{"floats", e.floats}, {"loss", e.loss}});
  json["layers"] = Json::array();
  for (size_t i = 0; i < work.layers().size(); ++i) json["layers"].push_back(layer_json(work, choice, i));
  for (const StoredWeight& weight : work.stored())
    json["layers"].push_back({{"node", weight.layer.name},
                              {"op", weight.layer.op},
                              {"becomes", "8-bit storage"},
                              {"weights", weight.layer.values.elements()},
                              {"weight_db", decibels(weight_noise(weight.layer, weight.rounded))}});
  for (const Float& layer : work.floats())
    json["layers"].push_back({{"node", layer.name}, {"op", layer.op}, {"becomes", "float"}, {"why", layer.why}});
  return json;
}

}  // namespace weft::quantise
