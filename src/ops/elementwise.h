// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "ir/op.h"

namespace weft {

/// The functions listed in elementwise.def.
enum class Fn : uint8_t {
#define ELEMENTWISE(name, ...) name,
#include "ops/elementwise.def"
#undef ELEMENTWISE
};

/// One row of elementwise.def.
struct FnInfo {
  enum class Accepts : uint8_t { any, number, real, integer, logic };
  enum class Gives : uint8_t { same, logic };
  std::string_view name;
  int arity;
  Accepts accepts;
  Gives gives;
  std::string_view onnx, tf, torch;
  std::string_view meaning;  ///< definition as C++ text over x, y, z and the type T
};
const FnInfo& info(Fn fn);
std::span<const FnInfo> all_fns();
std::span<const std::string_view> names(Fn);

/// An elementwise function; all operands have the sizes of the result (broadcasts are explicit: see build.h).
struct Elementwise {
  static constexpr std::string_view name = "elementwise";
  Fn fn = Fn::add;
  static auto fields() { return std::tuple{Field{"fn", &Elementwise::fn}}; }
  std::string_view display_name() const { return info(fn).name; }
  Types infer(Operands in) const;
  std::vector<Wide> evaluate(std::span<const Wide> in) const;
  bool operator==(const Elementwise&) const = default;
};

/// Conversion of the element type. Float to integer truncates and saturates (NaN gives 0); integer to integer wraps; to
/// bool tests for nonzero; to float rounds to nearest even. `saturate` (floats of 8 bits or less) is as in ONNX Cast.
struct Convert {
  static constexpr std::string_view name = "convert";
  DType to = DType::f32;
  bool saturate = true;
  static auto fields() { return std::tuple{Field{"to", &Convert::to}, Field{"saturate", &Convert::saturate}}; }
  Types infer(Operands in) const;
  std::vector<Wide> evaluate(std::span<const Wide> in) const;
  bool operator==(const Convert&) const = default;
};

/// Reinterprets the bits as another type of the same width.
struct Bitcast {
  static constexpr std::string_view name = "bitcast";
  DType to = DType::f32;
  static auto fields() { return std::tuple{Field{"to", &Bitcast::to}}; }
  Types infer(Operands in) const;
  std::vector<Wide> evaluate(std::span<const Wide> in) const;
  bool operator==(const Bitcast&) const = default;
};

}  // namespace weft
