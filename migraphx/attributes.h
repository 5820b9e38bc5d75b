// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

/// Reads attributes of operators in MIGraphX's notation: JSON without quotes around words, "{axis: 1, mode: max}".
namespace weft::mgx {

/// Adds the quotes that JSON requires. Throws E210 if the result is not JSON.
std::string to_json(std::string_view relaxed);

/// The attributes of one operator. `end` throws if an attribute was never read.
class Attributes {
 public:
  Attributes(std::string_view op, const std::string& json);
  ~Attributes();

  bool has(const char* name) const;
  int64_t number(const char* name, int64_t otherwise);
  double real(const char* name, double otherwise);
  bool flag(const char* name, bool otherwise);
  std::vector<int64_t> numbers(const char* name, std::vector<int64_t> otherwise = {});
  /// Returns one of `words`, which the attribute gives by name or by index.
  std::string choice(const char* name, const std::vector<std::string>& words, const std::string& otherwise);
  /// Marks an attribute that has no effect in Weft as read.
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
