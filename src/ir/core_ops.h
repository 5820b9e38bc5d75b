// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "ir/op.h"

/// Operators that produce values without operands: parameters, constants, sizes.
namespace weft {

/// An input of a module.
struct Parameter {
  static constexpr std::string_view name = "parameter";
  std::string parameter;
  Type type;
  static auto fields() { return std::tuple{Field{"name", &Parameter::parameter}, Field{"type", &Parameter::type}}; }
  Types infer(Operands) const { return {type}; }
  bool operator==(const Parameter&) const = default;
};

/// A tensor known while compiling. The data of a large constant may stay in the mapped model file.
struct Constant {
  static constexpr std::string_view name = "constant";
  Tensor tensor;
  static auto fields() { return std::tuple{Field{"value", &Constant::tensor}}; }
  Types infer(Operands) const { return {tensor.shape()}; }
  std::vector<Wide> evaluate(std::span<const Wide> in) const;
  bool operator==(const Constant&) const = default;
};

/// The size expressions `dims` as an i64 vector, for models that compute with shapes. The expressions are known while
/// compiling (known_contents in ops/build.h).
struct Sizes {
  static constexpr std::string_view name = "sizes";
  Dims dims;
  static auto fields() { return std::tuple{Field{"dims", &Sizes::dims}}; }
  Types infer(Operands) const { return {Shape{DType::i64, {static_cast<int64_t>(dims.size())}}}; }
  std::vector<Wide> evaluate(std::span<const Wide> in) const;
  bool operator==(const Sizes&) const = default;
};

}  // namespace weft
