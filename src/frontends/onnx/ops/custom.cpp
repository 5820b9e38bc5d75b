// SPDX-License-Identifier: Apache-2.0
// Nodes of custom operators, which the application defines.
#include "ops/custom.h"
#include "frontends/onnx/import/importer.h"
#include "ir/op_fields.h"

namespace weft::onnx {
namespace {

std::string text_of(double number) {
  std::string text = cat(number);
  return text.find_first_of(".en") == std::string::npos ? text + ".0" : text;
}
std::string text_of(float number) { return text_of(static_cast<double>(number)); }
std::string text_of(int64_t number) { return cat(number); }
std::string text_of(std::string_view text) { return fields::print(std::string(text), {}); }
template <class T>
  requires requires(T item) { text_of(item); }
std::string text_of(const std::vector<T>& items) {
  std::string text = "[";
  for (size_t i = 0; i < items.size(); ++i) text += cat(i ? ", " : "", text_of(items[i]));
  return text + "]";
}

std::string text_of(const Call& c, const Attribute& attribute) {
  std::string value = std::visit(
      [](const auto& held) -> std::string {
        if constexpr (requires { text_of(held); }) return text_of(held);
        else return {};
      },
      attribute.value);
  bool is_plain = !value.empty() && attribute.reference.empty();
  if (!is_plain)
    c.fail("E141", cat("attribute '", printable(attribute.name), "' is a ", to_string(attribute.kind),
                       "; custom operators take numbers, strings and lists of numbers"));
  return cat(attribute.name, "=", value);
}

}  // namespace

Values translate_custom(Call& c, const CustomOperator& op) {
  std::vector<std::string> attributes;
  for (const Attribute& attribute : c.node().attributes) {
    attributes.push_back(text_of(c, attribute));
    c.ignore(attribute.name);
  }
  return append_custom(c.module(), op, std::move(attributes), c.inputs());
}

}  // namespace weft::onnx
