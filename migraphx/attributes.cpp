// SPDX-License-Identifier: Apache-2.0
#include "migraphx/attributes.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "migraphx/handles.h"

namespace weft::mgx {
namespace {

using Json = nlohmann::json;

bool is_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.' || c == '-' || c == '+';
}

bool stands_alone(const std::string& word) {
  return word == "true" || word == "false" || word == "null" || Json::accept(word);
}

}  // namespace

std::string to_json(std::string_view relaxed) {
  std::string json;
  for (size_t at = 0; at < relaxed.size();) {
    char c = relaxed[at];
    if (c == '"') {
      size_t end = relaxed.find('"', at + 1);
      end = end == relaxed.npos ? relaxed.size() : end + 1;
      json += relaxed.substr(at, end - at), at = end;
    } else if (is_word(c)) {
      size_t end = at;
      while (end < relaxed.size() && is_word(relaxed[end])) ++end;
      std::string word(relaxed.substr(at, end - at));
      json += stands_alone(word) ? word : '"' + word + '"', at = end;
    } else {
      json += c == '\'' ? '"' : c, ++at;
    }
  }
  if (!Json::accept(json)) refuse("'" + std::string(relaxed) + "' are not attributes", "they are written {axis: 1}");
  return json;
}

Attributes::Attributes(std::string_view op, const std::string& json)
    : op_(op), values_(std::make_unique<Json>(json.empty() ? Json::object() : Json::parse(json))) {
  if (!values_->is_object()) refuse("the attributes of " + op_ + " are not an object: " + json);
}
Attributes::~Attributes() = default;

void Attributes::wrong(const char* name, const char* wanted) const {
  refuse("attribute " + std::string(name) + " of " + op_ + " is " + values_->at(name).dump() + ", not " + wanted);
}

const Json* Attributes::find(const char* name) {
  read_.emplace_back(name);
  auto found = values_->find(name);
  return found == values_->end() || found->is_null() ? nullptr : &*found;
}

bool Attributes::has(const char* name) const { return values_->contains(name); }

int64_t Attributes::number(const char* name, int64_t otherwise) {
  const Json* value = find(name);
  if (value && !value->is_number_integer()) wrong(name, "a whole number");
  return value ? value->get<int64_t>() : otherwise;
}

double Attributes::real(const char* name, double otherwise) {
  const Json* value = find(name);
  if (value && !value->is_number()) wrong(name, "a number");
  return value ? value->get<double>() : otherwise;
}

bool Attributes::flag(const char* name, bool otherwise) {
  const Json* value = find(name);
  if (value && !value->is_boolean() && !value->is_number_integer()) wrong(name, "true or false");
  return !value ? otherwise : value->is_boolean() ? value->get<bool>() : value->get<int64_t>() != 0;
}

std::vector<int64_t> Attributes::numbers(const char* name, std::vector<int64_t> otherwise) {
  const Json* value = find(name);
  if (!value) return otherwise;
  if (value->is_number_integer()) return {value->get<int64_t>()};
  bool fits = value->is_array() && std::ranges::all_of(*value, [](const Json& v) { return v.is_number_integer(); });
  if (!fits) wrong(name, "a list of whole numbers");
  return value->get<std::vector<int64_t>>();
}

std::string Attributes::choice(const char* name, const std::vector<std::string>& words, const std::string& otherwise) {
  const Json* value = find(name);
  if (!value) return otherwise;
  if (value->is_number_unsigned() && value->get<size_t>() < words.size()) return words[value->get<size_t>()];
  std::string all;
  for (const std::string& word : words) all += (all.empty() ? "" : ", ") + word;
  if (!value->is_string() || std::ranges::find(words, value->get<std::string>()) == words.end())
    wrong(name, ("one of " + all).c_str());
  return value->get<std::string>();
}

void Attributes::ignore(const char* name) { find(name); }

void Attributes::end() const {
  for (const auto& [name, value] : values_->items())
    if (std::ranges::find(read_, name) == read_.end())
      refuse("operator " + op_ + " has no attribute '" + name + "' here", "docs/migraphx.md lists what is known");
}

}  // namespace weft::mgx
