// SPDX-License-Identifier: Apache-2.0
#include "base/text.h"
#include "base/version.h"
#include "driver/embedded_texts.h"
#include "driver/measure.h"

namespace weft::driver {
namespace {

/// Returns JSON for a <script> element, escaped so that no text in the JSON ends the element.
std::string script_text(const nlohmann::ordered_json& json) {
  std::string text;
  for (char c : json.dump()) text += c == '<' ? "\\u003c" : std::string(1, c);
  return text;
}

}  // namespace

std::string html_page(const Measurement& m, const Executable& executable, const nlohmann::ordered_json& graph) {
  nlohmann::ordered_json data = to_json(m, executable);
  data["version"] = std::string(version());
  data["graph"] = graph;
  data["runs_ms"] = nlohmann::ordered_json::array();
  for (double seconds : m.seconds) data["runs_ms"].push_back(seconds * 1e3);
  for (const StepTime& time : m.trace)
    data["trace"].push_back(
        {time.step, static_cast<double>(time.begin.count()) * 1e-6, static_cast<double>(time.end.count()) * 1e-6});
  std::string page(perf_page_text());
  constexpr std::string_view place = "/*DATA*/";
  size_t at = page.find(place);
  return page.replace(at, place.size(), script_text(data));
}

}  // namespace weft::driver
