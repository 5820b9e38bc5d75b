// SPDX-License-Identifier: Apache-2.0
#include "options.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>

namespace weft::amdemu {
namespace {

const char* variable(std::string name) {
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return std::getenv(("AMDEMU_" + name).c_str());
}

void read(std::string& value, const char* text) { value = text; }
void read(int& value, const char* text) { value = static_cast<int>(std::strtol(text, nullptr, 0)); }
void read(unsigned& value, const char* text) { value = static_cast<unsigned>(std::strtoul(text, nullptr, 0)); }

}  // namespace

const Options& options() {
  static const Options read_once = [] {
    Options o;
#define OPTION(name, type, fallback, sentence) \
  if (const char* text = variable(#name)) read(o.name, text);
#include "options.def"
#undef OPTION
    return o;
  }();
  return read_once;
}

}  // namespace weft::amdemu
