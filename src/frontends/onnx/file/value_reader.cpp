// SPDX-License-Identifier: Apache-2.0
#include "frontends/onnx/file/value_reader.h"

#include <algorithm>

#include "frontends/onnx/file/constants.h"
#include "frontends/onnx/file/tensor_reader.h"

namespace weft::onnx {
namespace {

constexpr int max_nested = 16;

class ValueReader {
 public:
  explicit ValueReader(const Bytes& file) : source_{file, none_} {}

  Tensor read(Wire wire, const Type& type, int depth = 0) {
    if (depth > max_nested) wire.fail_damaged("value", "is nested too deep");
    switch (type.kind) {
      case Type::Kind::tensor: return tensor(wire);
      case Type::Kind::sequence: return sequence(wire, *type.element, depth);
      case Type::Kind::optional: return optional(wire, *type.element, depth);
      case Type::Kind::map: return map(wire, type, depth);
    }
    return {};
  }

 private:
  Tensor tensor(Wire& wire) {
    std::string path = wire.path();
    Tensor tensor = to_tensor(read_tensor(Wire(wire.rest(), source_.file.data(), path, wire.missing()), source_));
    if (tensor.dtype != DType::string) tensor.data = Bytes::copy(tensor.data);
    return tensor;
  }

  /// Returns the field of a SequenceProto or OptionalProto that holds a value of this kind.
  static uint32_t field_of(Type::Kind kind) {
    switch (kind) {
      case Type::Kind::tensor: return 3;
      case Type::Kind::sequence: return 5;
      case Type::Kind::map: return 6;
      case Type::Kind::optional: return 7;
    }
    return 3;
  }

  Tensor sequence(Wire& wire, const Type& element, int depth) {
    std::vector<Tensor> items;
    while (wire.next()) {
      if (wire.field() == field_of(element.kind))
        items.push_back(read(wire.message("values", std::ssize(items)), element, depth + 1));
      else wire.skip();
    }
    return make_container(Type::Kind::sequence, std::move(items));
  }

  Tensor optional(Wire& wire, const Type& element, int depth) {
    std::vector<Tensor> items;
    while (wire.next()) {
      if (wire.field() == field_of(element.kind) && items.empty())
        items.push_back(read(wire.message("value"), element, depth + 1));
      else wire.skip();
    }
    return make_container(Type::Kind::optional, std::move(items));
  }

  Tensor map(Wire& wire, const Type& type, int depth) {
    std::vector<int64_t> numbers;
    std::vector<std::string> strings;
    Tensor values = make_container(Type::Kind::sequence, {});
    while (wire.next()) switch (wire.field()) {
        case 3: wire.integers("keys", numbers); break;
        case 4: strings.emplace_back(wire.text("string_keys")); break;
        case 5: values = read(wire.message("values"), Type::sequence(*type.element), depth + 1); break;
        default: wire.skip();
      }
    bool is_text = type.key == DType::string;
    Tensor keys = is_text ? make_string_tensor({std::ssize(strings)}, std::move(strings)) : make_i64_tensor(numbers);
    if (keys.elements() != std::ssize(*values.items)) wire.fail_damaged("values", "are not as many as the keys");
    auto is_scalar = [&](const Tensor& value) {
      return value.is_tensor() && value.dtype == type.element->shape.dtype && value.elements() == 1;
    };
    if (!std::ranges::all_of(*values.items, is_scalar)) wire.fail_damaged("values", "are not of the model's type");
    return make_container(Type::Kind::map, {keys, side_by_side(*values.items, *type.element)});
  }

  /// Concatenates scalars of type `element` to a vector.
  static Tensor side_by_side(const std::vector<Tensor>& scalars, const Type& element) {
    std::vector<int64_t> dims = {std::ssize(scalars)};
    if (element.shape.dtype == DType::string) {
      std::vector<std::string> strings;
      for (const Tensor& one : scalars) strings.push_back(one.strings->at(0));
      return make_string_tensor(dims, std::move(strings));
    }
    std::vector<double> numbers;
    for (const Tensor& one : scalars) numbers.push_back(to_doubles(one).at(0));
    return make_tensor(element.shape.dtype, dims, std::span<const double>(numbers));
  }

  frontend::ExternalFiles none_;  // empty: test data has no external files
  TensorSource source_;
};

}  // namespace

Tensor read_value(const Bytes& file, const std::string& name, const Type& type) {
  return ValueReader(file).read(Wire(file, file.data(), name), type);
}

}  // namespace weft::onnx
