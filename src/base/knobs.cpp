// SPDX-License-Identifier: Apache-2.0
#include "base/knobs.h"

#include <algorithm>
#include <cstdlib>

#include "base/error.h"

extern char** environ;

namespace weft {
namespace {

std::string variable_of(std::string_view name) {
  std::string variable = "WEFT_";
  for (char c : name) variable += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return variable;
}

[[noreturn]] void refuse_knob(const std::string& variable, const std::string& text, std::string_view wanted) {
  throw Error({.kind = ErrorKind::usage,
               .code = "E201",
               .what = cat(variable, " is '", printable(text), "', which is not ", wanted)});
}

void parse(const std::string&, const std::string& text, std::string& out) { out = text; }

void parse(const std::string& variable, const std::string& text, int64_t& out) {
  auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (code != std::errc() || end != text.data() + text.size()) refuse_knob(variable, text, "a whole number");
}

void parse(const std::string& variable, const std::string& text, bool& out) {
  if (text == "1" || text == "true" || text == "on") out = true;
  else if (text == "0" || text == "false" || text == "off") out = false;
  else refuse_knob(variable, text, "0 or 1");
}

Knobs read_knobs() {
  Knobs knobs;
#define KNOB(name, type, value, sentence)                 \
  {                                                       \
    std::string variable = variable_of(#name);            \
    std::string text = environment(variable.c_str());     \
    if (!text.empty()) parse(variable, text, knobs.name); \
  }
#include "base/knobs.def"
#undef KNOB
  return knobs;
}

}  // namespace

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

const Knobs& knobs() {
  static const Knobs values = read_knobs();
  return values;
}

std::vector<KnobInfo> knob_list() {
  const Knobs& now = knobs();
  const Knobs defaults;
  std::vector<KnobInfo> list;
#define KNOB(name, type, value, sentence) \
  list.push_back({variable_of(#name), cat(now.name), cat(defaults.name), sentence});
#include "base/knobs.def"
#undef KNOB
  return list;
}

std::vector<std::string> unknown_knobs() {
  // These variables are read by ./x, the tests and the benchmarks, not by the library.
  std::vector<std::string> known = {"WEFT_BUILD",      "WEFT_JOBS",    "WEFT_TEST_FULL",   "WEFT_TEST_SEED",
                                    "WEFT_UPDATE",     "WEFT_MODELS",  "WEFT_BIN",         "WEFT_KC",
                                    "WEFT_COMMAND",    "WEFT_LIBRARY", "WEFT_BENCH_CACHE", "WEFT_TEST_OFFLINE",
                                    "WEFT_TEST_DEVICE"};
  std::vector<std::string> unknown;
  for (const auto& knob : knob_list()) known.push_back(knob.variable);
  for (char** entry = environ; *entry; ++entry) {
    std::string_view text = *entry;
    std::string name(text.substr(0, text.find('=')));
    if (!name.starts_with("WEFT_") || std::ranges::find(known, name) != known.end()) continue;
    std::string near = nearest_names(name, known);
    unknown.push_back(near.empty() ? name : cat(name, " (did you mean ", near, "?)"));
  }
  return unknown;
}

}  // namespace weft
