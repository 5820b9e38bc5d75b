// SPDX-License-Identifier: Apache-2.0
#include "ort/quantize.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

namespace weft::ort {
namespace {

using Json = nlohmann::json;

[[noreturn]] void refuse(const std::string& path, const std::string& what) {
  throw Error(WEFT_USAGE, "E203", "calibration table '" + path + "': " + what);
}

/// Lists and the wrappers of numpy arrays, down to numbers.
void collect(const Json& value, std::vector<double>& numbers) {
  if (value.is_number()) numbers.push_back(value.get<double>());
  if (value.is_array())
    for (const Json& item : value) collect(item, numbers);
  if (!value.is_object()) return;
  for (const char* key : {"data", "lowest", "highest", "min", "max", "amax"}) {
    if (value.contains(key)) collect(value[key], numbers);
  }
}

Scales read_json(const std::string& path, std::istream& file) {
  Json table = Json::parse(file, nullptr, false);
  if (!table.is_object())
    refuse(path, "it is no JSON object (for TensorRT's form set int8_use_native_calibration_table)");
  if (table.contains("CLS") && table.contains("data")) table = Json(table["data"]);
  Scales scales;
  for (const auto& [name, value] : table.items()) {
    std::vector<double> numbers;
    collect(value, numbers);
    if (numbers.empty()) refuse(path, "'" + name + "' has no range");
    double most = 0;
    for (double number : numbers) most = std::max(most, std::abs(number));
    scales[name] = static_cast<float>(most / 127);
  }
  return scales;
}

/// Lines of "name: hexadecimal bits of the scale"; names may hold colons. The first line names the version.
Scales read_native(const std::string& path, std::istream& file) {
  Scales scales;
  for (std::string line; std::getline(file, line);) {
    size_t colon = line.rfind(": ");
    if (line.starts_with("TRT-") || colon == std::string::npos) continue;
    uint32_t bits = 0;
    const char* end = line.data() + line.find_last_not_of(" \r") + 1;
    auto [stop, code] = std::from_chars(line.data() + colon + 2, end, bits, 16);
    if (code != std::errc() || stop != end) refuse(path, "'" + line + "' does not end with a scale of 8 hex digits");
    scales[line.substr(0, colon)] = std::bit_cast<float>(bits);
  }
  return scales;
}

uint8_t to_int8(float steps) {
  return static_cast<uint8_t>(static_cast<int8_t>(std::clamp(std::nearbyint(steps), -127.0f, 127.0f)));
}

/// The nearest number of e4m3fn (four bits of exponent, bias 7, three of fraction; up to 448), of two the even one.
uint8_t to_e4m3(float x) {
  constexpr int least_exponent = -6, fraction_bits = 3, bias = 7;
  constexpr uint8_t nan = 0x7f, greatest = 0x7e;
  uint8_t sign = std::signbit(x) ? 0x80 : 0;
  if (std::isnan(x)) return nan | sign;
  int exponent = x == 0 ? least_exponent : std::max(std::ilogb(x), least_exponent);
  if (exponent > 8) return greatest | sign;
  int eighths = static_cast<int>(std::nearbyint(std::ldexp(std::abs(x), fraction_bits - exponent)));
  // A fraction of 16 eighths carries into the exponent by itself; below 8 the number is a denormal one.
  int code = ((exponent - least_exponent) << fraction_bits) + eighths;
  static_assert(least_exponent + bias == 1);
  return static_cast<uint8_t>(std::min<int>(code, greatest)) | sign;
}

}  // namespace

Scales read_calibration_table(const std::string& path, bool is_native) {
  std::ifstream file(path);
  if (!file) throw Error(WEFT_USAGE, "E106", "calibration table '" + path + "' cannot be read");
  Scales scales = is_native ? read_native(path, file) : read_json(path, file);
  std::erase_if(scales, [](const auto& item) { return !(item.second > 0) || !std::isfinite(item.second); });
  if (scales.empty()) refuse(path, "it has no scale above 0");
  return scales;
}

QuantizedWeights quantize_weights(std::span<const float> values, std::span<const int64_t> dims, size_t axis,
                                  const Quantization& to) {
  size_t channels = static_cast<size_t>(dims[axis]), inner = 1;
  for (size_t i = axis + 1; i < dims.size(); ++i) inner *= static_cast<size_t>(dims[i]);
  auto channel_of = [&](size_t i) { return i / inner % channels; };
  QuantizedWeights weights{.values = std::vector<uint8_t>(values.size()), .scales = std::vector<float>(channels)};
  for (size_t i = 0; i < values.size(); ++i) {
    float& most = weights.scales[channel_of(i)];
    most = std::max(most, std::abs(values[i]));
  }
  for (float& scale : weights.scales) scale = scale > 0 ? scale / to.greatest() : 1;
  for (size_t i = 0; i < values.size(); ++i) {
    float steps = values[i] / weights.scales[channel_of(i)];
    weights.values[i] = to.type == WEFT_I8 ? to_int8(steps) : to_e4m3(steps);
  }
  return weights;
}

}  // namespace weft::ort
