// SPDX-License-Identifier: Apache-2.0
#include "api/c/calibration_table.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/file_reading.h"
#include "base/text.h"

namespace weft::quantise {
namespace {

using Json = nlohmann::json;
using Ranges = std::map<std::string, Range>;

[[noreturn]] void refuse_table(const std::string& path, const std::string& what) {
  refuse("E203", cat("calibration table '", path, "': ", what));
}

/// Appends the numbers in `value` to `numbers`. `value` is a number, or a list or an object, which may be nested. An
/// object is a wrapped numpy array ("data") or has the ends of a range, such as "lowest" and "highest".
void collect(const Json& value, std::vector<double>& numbers) {
  if (value.is_number()) numbers.push_back(value.get<double>());
  if (value.is_array())
    for (const Json& item : value) collect(item, numbers);
  if (!value.is_object()) return;
  for (const char* key : {"data", "lowest", "highest", "min", "max", "amax"})
    if (value.contains(key)) collect(value[key], numbers);
}

Ranges read_json(const std::string& path, std::string_view text) {
  Json table = Json::parse(text, nullptr, false);
  if (!table.is_object()) refuse_table(path, "it is not a JSON object");
  if (table.contains("CLS") && table.contains("data")) table = Json(table["data"]);
  Ranges ranges;
  for (const auto& [name, value] : table.items()) {
    std::vector<double> numbers;
    collect(value, numbers);
    if (numbers.empty()) refuse_table(path, cat("'", printable(name), "' has no range"));
    auto [least, greatest] = std::ranges::minmax(numbers);
    if (numbers.size() == 1) greatest = std::abs(greatest), least = -greatest;
    ranges[name] = {std::min(least, 0.0), std::max(greatest, 0.0)};
  }
  return ranges;
}

/// Parses lines of "name: hexadecimal bits of the f32 scale"; names may contain colons. Skips lines without ": " and
/// the version ("TRT-8501-...").
Ranges read_text(const std::string& path, std::string_view text) {
  Ranges ranges;
  for (std::string_view rest = text; !rest.empty();) {
    std::string_view line = trim(rest.substr(0, rest.find('\n')));
    rest.remove_prefix(
        std::min(rest.size(), rest.find('\n') == std::string_view::npos ? rest.size() : rest.find('\n') + 1));
    size_t colon = line.rfind(": ");
    if (line.starts_with("TRT-") || colon == std::string_view::npos) continue;
    uint32_t bits = 0;
    auto [stop, code] = std::from_chars(line.data() + colon + 2, line.data() + line.size(), bits, 16);
    if (code != std::errc() || stop != line.data() + line.size())
      refuse_table(path, cat("'", printable(line), "' does not end with a scale of 8 hex digits"));
    double most = 127.0 * static_cast<double>(std::bit_cast<float>(bits));
    ranges[std::string(line.substr(0, colon))] = {-most, most};
  }
  return ranges;
}

}  // namespace

Ranges read_ranges(const std::filesystem::path& path) {
  Ranges ranges = reading_files([&] {
    Bytes file = map_file(path);
    std::string_view text = trim(as_text(file));
    return text.starts_with('{') ? read_json(path.string(), text) : read_text(path.string(), text);
  });
  auto is_useless = [](const auto& entry) {
    const Range& range = entry.second;
    return !(range.high - range.low > 0) || !std::isfinite(range.high - range.low);
  };
  std::erase_if(ranges, is_useless);
  if (ranges.empty()) refuse_table(path.string(), "it has no scale above 0");
  return ranges;
}

}  // namespace weft::quantise
