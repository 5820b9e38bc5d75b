// SPDX-License-Identifier: Apache-2.0
#include "base/knobs.h"

#include <nlohmann/json.hpp>

#include "base/text.h"
#include "driver/options.h"
#include "driver/terminal.h"
#include "driver/verbs.h"

namespace weft::driver {
namespace {

std::string knobs_json(const std::vector<KnobInfo>& knobs) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const KnobInfo& knob : knobs)
    list.push_back({{"variable", knob.variable},
                    {"value", printable(knob.value)},
                    {"default", knob.default_value},
                    {"sentence", knob.sentence}});
  return nlohmann::ordered_json{{"schema", "weft.knobs.1"}, {"knobs", list}}.dump(1) + "\n";
}

}  // namespace

int knobs_verb(Words words) {
  CommandLine line({.name = "knobs",
                    .purpose = "List the environment variables that Weft reads, with their values here.",
                    .examples = {"weft knobs", "WEFT_THREADS=1 weft knobs --json -"}});
  std::string json;
  line.value("--json,-o", "FILE", json, "write the list as JSON (- is standard output)");
  if (!line.parse(words)) return exit_done;
  auto knobs = knob_list();
  if (!json.empty()) return write_result_file(json, knobs_json(knobs)), exit_done;
  for (const KnobInfo& knob : knobs) {
    std::string value = knob.value == knob.default_value ? knob.value : paint(printable(knob.value), Ink::yellow);
    print(cat(paint(knob.variable, Ink::bold), "=", value, "\n    ", knob.sentence));
  }
  return exit_done;
}

}  // namespace weft::driver
