// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "ir/op.h"

/// Operators that move elements without computing on them. Lowering uses strides and offsets where it can, and copies
/// otherwise.
namespace weft {

/// Keeps the elements in row-major order and changes the sizes.
struct Reshape {
  static constexpr std::string_view name = "reshape";
  Dims dims = {};
  static auto fields() { return std::tuple{Field{"dims", &Reshape::dims}}; }
  Types infer(Operands in) const;
  std::vector<Wide> evaluate(std::span<const Wide> in) const;
  bool operator==(const Reshape&) const = default;
};

/// Result axis i is operand axis permutation[i].
struct Transpose {
  static constexpr std::string_view name = "transpose";
  std::vector<int64_t> permutation = {};
  static auto fields() { return std::tuple{Field{"permutation", &Transpose::permutation}}; }
  Types infer(Operands in) const;
  std::vector<Wide> evaluate(std::span<const Wide> in) const;
  bool operator==(const Transpose&) const = default;
};

/// Repeats axes of size 1 and adds leading axes until the sizes are `dims` (NumPy's rule).
struct Broadcast {
  static constexpr std::string_view name = "broadcast";
  Dims dims = {};
  static auto fields() { return std::tuple{Field{"dims", &Broadcast::dims}}; }
  Types infer(Operands in) const;
  std::vector<Wide> evaluate(std::span<const Wide> in) const;
  bool operator==(const Broadcast&) const = default;
};

/// Selects sizes[a] elements of each axis a: starts[a], starts[a] + steps[a] ... Steps may be negative, but not 0.
struct Slice {
  static constexpr std::string_view name = "slice";
  Dims starts = {};
  Dims sizes = {};
  std::vector<int64_t> steps = {};
  static auto fields() {
    return std::tuple{Field{"starts", &Slice::starts}, Field{"sizes", &Slice::sizes}, Field{"steps", &Slice::steps}};
  }
  Types infer(Operands in) const;
  std::vector<Wide> evaluate(std::span<const Wide> in) const;
  bool operator==(const Slice&) const = default;
};

enum class PadMode : uint8_t { constant, reflect, edge, wrap };
std::span<const std::string_view> names(PadMode);

/// Adds before[a] and after[a] elements at the ends of each axis (negative: removes them). Operands: x, and in mode
/// constant the fill value, a scalar of x's type.
struct Pad {
  static constexpr std::string_view name = "pad";
  Dims before = {};
  Dims after = {};
  PadMode mode = PadMode::constant;
  static auto fields() {
    return std::tuple{Field{"before", &Pad::before}, Field{"after", &Pad::after}, Field{"mode", &Pad::mode}};
  }
  Types infer(Operands in) const;
  std::vector<Wide> evaluate(std::span<const Wide> in) const;
  bool operator==(const Pad&) const = default;
};

struct Concat {
  static constexpr std::string_view name = "concat";
  int64_t axis = 0;
  static auto fields() { return std::tuple{Field{"axis", &Concat::axis}}; }
  Types infer(Operands in) const;
  std::vector<Wide> evaluate(std::span<const Wide> in) const;
  bool operator==(const Concat&) const = default;
};

}  // namespace weft
