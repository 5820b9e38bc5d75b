// SPDX-License-Identifier: Apache-2.0
#include "cases.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <random>

#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "ir/op_fields.h"
#include "ops/wide.h"

namespace weft::cases {
namespace {

/// An operator's line and the settings from the lines below it.
struct Settings {
  std::string op, fields;
  std::vector<std::string> types = {"f32"};
  double low = -2, high = 2;
  bool is_filled = false;  ///< the range also applies to integers
  double nan_share = 0;    ///< the share of elements of floats that are NaN
  std::optional<double> tolerance;
};

double tolerance_of(DType type) {
  switch (type) {
    case DType::f64: return 1e-12;
    case DType::f32: return 2e-5;
    case DType::f16: return 3e-3;
    case DType::bf16: return 2e-2;
    default: return is_float(type) ? 0.1 : 0;
  }
}

/// Splits a text such as "[2,3] i64[2]{0, 1} [4]" at spaces outside brackets.
std::vector<std::string> words(std::string_view text) {
  std::vector<std::string> list;
  int depth = 0;
  bool is_open = false;
  for (char c : text) {
    if (c == '[' || c == '{') ++depth;
    if (c == ']' || c == '}') --depth;
    bool is_space = c == ' ' && depth == 0;
    if (!is_space && !is_open) list.emplace_back();
    if (!is_space) list.back() += c;
    is_open = !is_space;
  }
  return list;
}

std::string with_type(std::string text, const std::string& type) {
  for (size_t at = 0; (at = text.find("=T", at)) != std::string::npos; at += type.size() + 1)
    text.replace(at + 1, 1, type);
  return text;
}

Tensor drawn(DType type, std::vector<int64_t> dims, const Settings& settings, const std::string& seed) {
  std::mt19937_64 random(hash128(seed).low);
  auto count = static_cast<size_t>(element_count(dims));
  if (is_float(type)) {
    // std::uniform_real_distribution would compute a logarithm for each number.
    std::vector<double> values(count);
    for (double& value : values)
      value = settings.low +
              (settings.high - settings.low) * std::min(static_cast<double>(random()) * 0x1p-64, 1 - 0x1p-53);
    std::bernoulli_distribution is_nan(settings.nan_share);
    for (double& value : values) value = is_nan(random) ? std::copysign(NAN, value) : value;
    return make_tensor(type, dims, values);
  }
  bool is_small = type == DType::boolean;
  int64_t low = is_small || is_unsigned_integer(type) ? 0 : -4, high = is_small ? 1 : 7;
  if (bits(type) == 4) {  // all 16 values, because kernels unpack each bit in a different way
    low = lowest_integer(type), high = highest_integer(type);
  } else if (settings.is_filled && !is_small) {
    low = std::max(lowest_integer(type), static_cast<int64_t>(std::ceil(settings.low)));
    high = std::min(highest_integer(type), static_cast<int64_t>(std::floor(settings.high)));
  }
  std::uniform_int_distribution<int64_t> range(low, high);
  std::vector<int64_t> values(count);
  for (int64_t& value : values) value = range(random);
  return make_tensor(type, dims, values);
}

/// Reads an operand such as "[n=4,8]" or "i64[2]{0, 1}"; records symbols with their values.
Operand read_operand(const std::string& text, const std::string& type, const Settings& settings,
                     std::map<std::string, int64_t>& symbols, const std::string& seed) {
  size_t open = text.find('['), close = text.find(']');
  if (open == std::string::npos || close == std::string::npos)
    throw Error({.kind = ErrorKind::usage, .code = "E191", .what = cat("'", text, "' is no operand")});
  std::string name = open == 0 ? type : text.substr(0, open), declared;
  DType dtype{};
  fields::parse(name, dtype, {});
  std::vector<int64_t> dims;
  for (std::string_view item : split(std::string_view(text).substr(open + 1, close - open - 1), ',')) {
    size_t equal = item.find('=');
    int64_t size = 0;
    fields::parse(item.substr(equal == std::string_view::npos ? 0 : equal + 1), size, {});
    std::string shown(equal == std::string_view::npos ? item : item.substr(0, equal));
    if (equal != std::string_view::npos) symbols[shown] = size;
    declared += cat(declared.empty() ? "" : ",", shown);
    dims.push_back(size);
  }
  Operand operand{cat(name, "[", declared, "]"), {}};
  if (close + 1 < text.size()) fields::parse(cat(name, dims, text.substr(close + 1)), operand.value, {});
  else operand.value = drawn(dtype, dims, settings, seed);
  return operand;
}

/// Makes the keys and values before the first and after the last range of an attention NaN: it must not read them.
void spoil_unseen(std::vector<Operand>& operands) {
  const Tensor& ranges = operands.back().value;
  std::vector<double> bounds = to_doubles(ranges);
  auto rows = static_cast<size_t>(ranges.dims[1]);
  for (size_t which : {1, 2}) {
    Tensor& x = operands[which].value;
    std::vector<double> values = to_doubles(x);
    auto width = static_cast<size_t>(x.dims[3]), keys = static_cast<size_t>(x.dims[2]),
         in_batch = width * keys * static_cast<size_t>(x.dims[1]);
    for (size_t i = 0; i < values.size(); ++i) {
      auto key = static_cast<double>(i / width % keys);
      size_t first = i / in_batch * rows * 2, last = first + 2 * rows - 1;
      if (key < bounds[first] || key >= bounds[last]) values[i] = NAN;
    }
    x = make_tensor(x.dtype, x.dims, values);
  }
}

std::optional<Case> make_case(const Settings& settings, const std::string& type,
                              const std::vector<std::string>& operands, const Wanted& wanted) {
  Case made{.name = cat(settings.op, settings.fields.empty() ? "" : " ", settings.fields, " ", type),
            .op = settings.op,
            .program = {},
            .operands = {}};
  std::string name = made.name;
  for (const std::string& operand : operands) name += cat(" ", operand);
  if (!wanted(name)) return std::nullopt;
  fields::parse(type, made.type, {});
  made.tolerance = settings.tolerance.value_or(tolerance_of(made.type));
  std::map<std::string, int64_t> symbols;
  std::string body, list;
  for (size_t i = 0; i < operands.size(); ++i) {
    made.name += cat(" ", operands[i]);
    made.operands.push_back(read_operand(operands[i], type, settings, symbols, cat(made.name, i)));
    body += cat("%x", i, " = parameter {name=\"x", i, "\", type=", made.operands.back().type, "}\n");
    list += cat(i ? ", " : "", "%x", i);
  }
  if (settings.fields.find("ranged=true") != std::string::npos) spoil_unseen(made.operands);
  std::string head;
  for (const auto& [name, value] : symbols) head += cat("symbol ", name, " min=0\n");
  bool has_two = settings.op == "top_k" || settings.fields.find("indices=true") != std::string::npos;
  made.program = cat(head, "module main {\n", body, "%y = ", settings.op, " ", list, " ",
                     with_type(settings.fields, type), "\nreturn \"y\"=%y", has_two ? ", \"z\"=%y.1" : "", "\n}\n");
  return made;
}

void read_setting(Settings& settings, std::string_view keyword, std::string_view rest) {
  std::vector<std::string> list = words(rest);
  if (keyword == "types") {
    settings.types = list;
  } else if (keyword == "fill" && list.size() == 2) {
    settings.is_filled = true;
    fields::parse(list[0], settings.low, {});
    fields::parse(list[1], settings.high, {});
  } else if (keyword == "nan" && list.size() == 1) {
    fields::parse(list[0], settings.nan_share, {});
  } else if (keyword == "tolerance" && list.size() == 1) {
    fields::parse(list[0], settings.tolerance.emplace(), {});
  } else {
    throw Error({.kind = ErrorKind::usage, .code = "E191", .what = cat("'", keyword, " ", rest, "' says nothing")});
  }
}

}  // namespace

std::vector<Case> read_cases(const std::filesystem::path& path, const Wanted& wanted) {
  Bytes file = map_file(path);
  std::vector<Case> cases;
  Settings settings;
  for (std::string_view line : split(as_text(file), '\n')) {
    line = line.substr(0, line.find('#'));
    if (trim(line).empty()) continue;
    bool is_operator = line[0] != ' ';
    line = trim(line);
    size_t space = std::min(line.find(' '), line.size());
    std::string_view keyword = line.substr(0, space), rest = trim(line.substr(space));
    if (is_operator) {
      settings = Settings{.op = std::string(keyword), .fields = std::string(rest), .tolerance = {}};
      continue;
    }
    std::vector<std::vector<std::string>> operands;
    if (keyword == "x") {
      for (const std::string& word : words(rest)) operands.push_back({word});
    } else if (keyword == "shapes") {
      operands.push_back(words(rest));
    } else {
      read_setting(settings, keyword, rest);
    }
    for (const auto& list : operands) {
      for (const std::string& type : settings.types) {
        if (auto made = make_case(settings, type, list, wanted)) cases.push_back(std::move(*made));
      }
    }
  }
  return cases;
}

}  // namespace weft::cases
