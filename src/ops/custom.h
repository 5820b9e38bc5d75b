// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "ir/module.h"

/// Custom operators, which the embedding program defines.
namespace weft {

/// A custom operator. Its shape rule has named sizes:
///
///     "f32[n,k], f32[k] -> f32[n]"        several rules for several types are separated by ';'
///     "f32[...] -> f32[...]"              any sizes, the same for all
///
/// Its code is either source in the kernel language (kernels/README.md) or a function of the host.
struct CustomOperator {
  std::string name;  ///< the operator's name in a model or a call of the graph builder, "my.domain:MyOp"
  std::string rule;
  std::string source;  ///< source that defines `function` and may use attributes as constants; empty: uses `call`
  std::string
      function;  ///< pointwise: V f(V x, V y); else void f(const L& launch, const f32* x, ..., f32* y, i64 n, ...)
  std::string tasks = "1";  ///< number of tasks of a call: an expression over the rule's sizes
  bool is_pointwise = false;
  /// Returns 0, or any other number to end the run with E302. `buffers`: inputs, then outputs; `sizes`: the rule's
  /// sizes in order of appearance; `attributes`: "alpha=0.5\nmode=\"x\"".
  int32_t (*call)(void* user, const char* attributes, void* const* buffers, const int64_t* sizes) = nullptr;
  void* user = nullptr;
};

/// A call of a custom operator. For a host function, the last operand is a constant with the function's address.
struct Custom {
  static constexpr std::string_view name = "custom";
  std::string op, rule, source, function, tasks = "1";
  bool pointwise = false;
  std::vector<std::string> attributes;  ///< "alpha=0.5", "axes=[1, 2]", "mode=\"x\""
  static auto fields() {
    return std::tuple{Field{"op", &Custom::op},
                      Field{"rule", &Custom::rule},
                      Field{"source", &Custom::source},
                      Field{"function", &Custom::function},
                      Field{"tasks", &Custom::tasks},
                      Field{"pointwise", &Custom::pointwise},
                      Field{"attributes", &Custom::attributes}};
  }
  bool calls_host() const { return source.empty(); }
  Types infer(Operands in) const;
  bool operator==(const Custom&) const = default;
};

/// A shape rule applied to operands.
struct BoundRule {
  Types results;
  std::vector<std::pair<std::string, Dim>> sizes;  ///< in order of appearance; "count": number of elements of "..."
};
/// Returns the first rule that fits the operands' types and ranks, with its sizes bound. Throws E141 if none fits, E151
/// if sizes contradict each other, E191 for a malformed rule. Adds a guard where only a run can compare the sizes.
BoundRule bind_rule(const Custom& op, Operands in);

/// Appends a call and returns all its results. Throws E217 if the operator has no code.
std::vector<Value> append_custom(Module& module, const CustomOperator& op, std::vector<std::string> attributes,
                                 std::vector<Value> inputs);

}  // namespace weft
