// SPDX-License-Identifier: Apache-2.0
#include "adapters/variables.h"

#include <algorithm>
#include <numeric>

extern char** environ;

namespace weft::adapters {
namespace {

/// Returns the edit distance of two words.
size_t distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = row[0]++;
    for (size_t j = 0; j < b.size(); ++j) {
      size_t replaced = diagonal + (a[i] != b[j]);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, diagonal + 1});
    }
  }
  return row.back();
}

std::vector<std::string> variables_with(std::string_view prefix) {
  std::vector<std::string> names;
  for (char** entry = environ; *entry; ++entry) {
    std::string_view name = *entry;
    name = name.substr(0, name.find('='));
    if (name.starts_with(prefix)) names.emplace_back(name);
  }
  std::ranges::sort(names);
  return names;
}

}  // namespace

const std::string& nearest(std::string_view name, const std::vector<std::string>& names) {
  return *std::ranges::min_element(names, {}, [&](const std::string& known) { return distance(name, known); });
}

std::vector<std::string> migraphx_variables() {
  return {
#define VARIABLE(name) "MIGRAPHX_" #name,
#include "adapters/migraphx_variables.def"
#undef VARIABLE
  };
}

std::string idle_variables(std::string_view prefix, const std::vector<std::string>& used,
                           const std::vector<std::string>& idle) {
  std::string known, unknown;
  std::vector<std::string> all = used;
  all.insert(all.end(), idle.begin(), idle.end());
  for (const std::string& name : variables_with(prefix)) {
    if (std::ranges::count(used, name)) continue;
    if (std::ranges::count(idle, name)) known += (known.empty() ? "" : ", ") + name;
    else unknown += (unknown.empty() ? "" : ", ") + name + " (the nearest is " + nearest(name, all) + ")";
  }
  if (!known.empty()) known = "environment variables that change nothing in Weft: " + known;
  if (!unknown.empty()) unknown = "environment variables that are not known: " + unknown;
  return known + (known.empty() || unknown.empty() ? "" : "; ") + unknown;
}

}  // namespace weft::adapters
