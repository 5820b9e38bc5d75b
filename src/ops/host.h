// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "base/host_call.h"
#include "ir/module.h"

namespace weft {

/// A function of the host over values that no kernel can hold (base/host_call.h lists them). The shape rule is here.
/// Where sizes of a result depend on data, the result is an optional; `item` takes the value out once its sizes are
/// bound.
struct HostOp {
  static constexpr std::string_view name = "host";
  HostFn fn = HostFn::same;
  std::vector<int64_t> numbers = {};
  std::vector<std::string> strings = {};
  Types types = {};
  static auto fields() {
    return std::tuple{Field{"fn", &HostOp::fn}, Field{"numbers", &HostOp::numbers}, Field{"strings", &HostOp::strings},
                      Field{"types", &HostOp::types}};
  }
  HostCall call() const { return {fn, numbers, strings}; }
  Types infer(Operands in) const;
  std::vector<Wide> evaluate(std::span<const Wide> in) const;
  bool operator==(const HostOp&) const = default;
};

/// True for operators that move, select or compare elements without computing with them, so that strings will do as
/// well.
bool takes_strings(const Op& op);
/// True when the value is a tensor of strings.
inline bool is_text(const Type& type) { return type.is_tensor() && type.shape.dtype == DType::string; }

// Functions that append these instructions; if the answer is known while compiling, they append none.

using Values = std::vector<Value>;
Values host_all(Module& module, HostOp op, Values inputs);
inline Value host(Module& module, HostOp op, Values inputs) {
  return host_all(module, std::move(op), std::move(inputs))[0];
}
/// A sequence or optional of these values, as `type` says.
Value collect(Module& module, const Type& type, Values items);
/// The values in a container that was built in the same module; nothing for others.
std::optional<Values> known_items(Value container);
/// Item number `index` (i64[], from the end if negative). Sizes that its container does not state are bound. Throws
/// E134 if not even the rank is known.
Value item_of(Module& module, Value container, Value index);
Value item_of(Module& module, Value container, int64_t index);
Value length_of(Module& module, Value container);  ///< i64[]
/// `sequence` with `x` before place `at`, or at its end. Throws E141 for an item of another type.
Value insert_item(Module& module, Value sequence, Value x, std::optional<Value> at = {});

/// Throws E122 for a pattern of `match_text` that cannot be used.
void check_text_pattern(const std::string& pattern);

}  // namespace weft
