// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "base/host_call.h"
#include "ir/module.h"

namespace weft {

/// Calls a function of the host on values that kernels cannot hold (base/host_call.h lists the functions). If sizes of
/// a result depend on data, the result is an optional; HostFn::item extracts the value after its sizes are bound.
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

/// True for operators that accept strings: those that move, select or compare elements, host functions, control flow.
bool takes_strings(const Op& op);
inline bool is_text(const Type& type) { return type.is_tensor() && type.shape.dtype == DType::string; }

// These functions append instructions, or none if the result is known while compiling.

using Values = std::vector<Value>;
Values host_all(Module& module, HostOp op, Values inputs);
inline Value host(Module& module, HostOp op, Values inputs) {
  return host_all(module, std::move(op), std::move(inputs))[0];
}
/// Appends a sequence or optional of type `type` with these items.
Value collect(Module& module, const Type& type, Values items);
/// Returns the items of a container that was built in the same module; nothing for other containers.
std::optional<Values> known_items(Value container);
/// Returns item `index` (i64[]; negative: from the end). Binds sizes that the container's type leaves open; throws E134
/// if that type does not even state the rank.
Value item_of(Module& module, Value container, Value index);
Value item_of(Module& module, Value container, int64_t index);
Value length_of(Module& module, Value container);  ///< i64[]
/// Appends the insertion of `x` at index `at`, or at the end. Throws E141 if x's type does not fit the items.
Value insert_item(Module& module, Value sequence, Value x, std::optional<Value> at = {});

/// Throws E122 if `match_text` does not support the pattern.
void check_text_pattern(const std::string& pattern);

}  // namespace weft
