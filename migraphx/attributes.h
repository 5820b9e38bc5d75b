// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

/// Attributes of operators in MIGraphX's notation: JSON whose words need no quotes, "{axis: 1, mode:
/// max}".
namespace weft::mgx {

/// Attributes in MIGraphX's notation as JSON; throws E210 if the text is no JSON even with quotes added.
std::string to_json(std::string_view relaxed);

/// Reads the attributes of one operator. Every one must be read before `end`, which refuses the rest.
class Attributes {
 public:
  Attributes(std::string_view op, const std::string& json);
  ~Attributes();

  bool has(const char* name) const;
  int64_t number(const char* name, int64_t otherwise);
  double real(const char* name, double otherwise);
  bool flag(const char* name, bool otherwise);
  std::vector<int64_t> numbers(const char* name, std::vector<int64_t> otherwise = {});
  /// One of `words`, by name or by its place in the list.
  std::string choice(const char* name, const std::vector<std::string>& words, const std::string& otherwise);
  /// An attribute that changes nothing here.
  void ignore(const char* name);
  void end() const;

 private:
  [[noreturn]] void wrong(const char* name, const char* wanted) const;
  const nlohmann::json* find(const char* name);

  std::string op_;
  std::unique_ptr<nlohmann::json> values_;
  std::vector<std::string> read_;
};

}  // namespace weft::mgx
