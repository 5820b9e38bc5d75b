// SPDX-License-Identifier: Apache-2.0
#include "adapters/late_inputs.h"

#include <algorithm>
#include <array>
#include <charconv>

namespace weft::adapters {
namespace {

constexpr size_t most_inputs = 8;
constexpr int64_t longest_list = 64;

/// Operands that are no axes, which 0, 1, 2 ... would be a guess for.
struct Usual {
  std::string_view op;
  size_t operand;
  int64_t value;
};
constexpr std::array<Usual, 9> usual_values = {{{"Slice", 1, 0},
                                                {"Slice", 2, 1},
                                                {"Slice", 4, 1},
                                                {"Resize", 1, 0},
                                                {"Resize", 2, 1},
                                                {"Resize", 3, 1},
                                                {"Upsample", 1, 1},
                                                {"Pad", 1, 0},
                                                {"DFT", 1, 1}}};

/// Takes what stands before `end` off the front of the text, and `end` too.
std::string_view take_until(std::string_view& text, std::string_view end) {
  size_t at = text.find(end);
  std::string_view taken = text.substr(0, at);
  text.remove_prefix(at == text.npos ? text.size() : at + end.size());
  return taken;
}

std::optional<int64_t> as_number(std::string_view text) {
  int64_t number = 0;
  auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), number);
  return code == std::errc() && end == text.data() + text.size() ? std::optional(number) : std::nullopt;
}

std::optional<weft_dtype> type_named(std::string_view name) {
  for (weft_dtype type : {WEFT_I64, WEFT_I32, WEFT_F32, WEFT_BOOL}) {
    if (name == weft_dtype_name(type)) return type;
  }
  return std::nullopt;
}

template <class T>
Tensor as(weft_dtype type, const std::vector<int64_t>& list, const std::vector<int64_t>& dims) {
  std::vector<T> values(list.begin(), list.end());
  return Tensor::copy(type, std::as_bytes(std::span(values)), dims);
}

Tensor tensor_of(const LateInput& input, const std::vector<int64_t>& list) {
  if (input.type == WEFT_F32) return as<float>(WEFT_F32, list, input.dims);
  if (input.type == WEFT_I32) return as<int32_t>(WEFT_I32, list, input.dims);
  if (input.type == WEFT_BOOL) return as<uint8_t>(WEFT_BOOL, list, input.dims);
  return as<int64_t>(WEFT_I64, list, input.dims);
}

}  // namespace

/// The line that explains the error: "input 1 of Slice is input 'starts' of the model, i64[2]".
std::optional<LateInput> wanted_input(const Error& error) {
  std::string_view text = error.why();
  if (!text.starts_with("input ")) return std::nullopt;
  take_until(text, "input ");
  auto operand = as_number(take_until(text, " of "));
  std::string_view op = take_until(text, " is input '");
  size_t quote = text.rfind("' of the model, ");
  if (!operand || quote == text.npos) return std::nullopt;
  std::string_view name = text.substr(0, quote);
  take_until(text = text.substr(quote), ", ");
  auto type = type_named(take_until(text, "["));
  std::string_view dims = take_until(text, "]");
  if (!type || dims.find(',') != dims.npos) return std::nullopt;
  LateInput input{.name = std::string(name), .type = *type, .op = std::string(op)};
  input.operand = static_cast<size_t>(*operand);
  if (!dims.empty()) input.dims = {as_number(dims).value_or(-1)};
  return input;
}

std::vector<int64_t> Guesses::numbers(const LateInput& input, Guess guess) {
  std::vector<int64_t> list(input.dims.empty() ? 1 : static_cast<size_t>(input.dims[0]));
  auto known = std::ranges::find_if(usual_values,
                                    [&](const Usual& u) { return u.op == input.op && u.operand == input.operand; });
  for (size_t i = 0; i < list.size(); ++i) {
    int64_t usual = known == usual_values.end() ? static_cast<int64_t>(i) : known->value;
    list[i] = guess == Guess::usual ? usual : guess == Guess::ones ? 1 : 0;
  }
  return list;
}

Values Guesses::values() const {
  Values values;
  for (const LateInput& input : inputs_) values.emplace_back(input.name, tensor_of(input, numbers(input, guess_)));
  return values;
}

std::optional<Values> Guesses::next(const Error& error) {
  if (auto input = wanted_input(error)) {
    bool may_wait = inputs_.size() < most_inputs && may_wait_(*input);
    if (!may_wait || (!input->dims.empty() && (input->dims[0] < 0 || input->dims[0] > longest_list)))
      return std::nullopt;
    inputs_.push_back(*input);
    guess_ = Guess::usual;
    return values();
  }
  if (inputs_.empty() || guess_ == Guess::zeros) return std::nullopt;
  guess_ = guess_ == Guess::usual ? Guess::ones : Guess::zeros;
  return values();
}

std::string key_of(const Values& values) {
  std::string key;
  for (const auto& [name, value] : values) {
    key.append(reinterpret_cast<const char*>(value.bytes().data()), value.bytes().size());
    for (int64_t size : value.dims()) key += "," + std::to_string(size);
    key += ";";
  }
  return key;
}

}  // namespace weft::adapters
