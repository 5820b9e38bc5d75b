// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "ir/module.h"

/// Custom operators of the embedding program.
namespace weft {

/// An operator of the embedder. Its shapes are a rule over named sizes,
///
///     "f32[n,k], f32[k] -> f32[n]"        several rules for several types are separated by ';'
///     "f32[...] -> f32[...]"              any sizes, the same for all
///
/// and its code is either source in the kernel language (kernels/README.md) or a function of the host.
struct CustomOperator {
  std::string name;  ///< "my.domain:MyOp" for nodes of a model, or as the graph builder calls it
  std::string rule;
  std::string source;  ///< defines `function`; attributes are constants of their names; empty: `call`
  std::string
      function;  ///< pointwise: V f(V x, V y); else void f(const L& launch, const f32* x, ..., f32* y, i64 n, ...)
  std::string tasks = "1";  ///< how many tasks a call has: an expression over the rule's sizes
  bool is_pointwise = false;
  /// Returns 0; any other number ends the run with E302. `buffers` are the inputs, then the outputs; `sizes` those of
  /// the rule in order of appearance; `attributes` is "alpha=0.5\nmode=\"x\"".
  int32_t (*call)(void* user, const char* attributes, void* const* buffers, const int64_t* sizes) = nullptr;
  void* user = nullptr;
};

/// A call of such an operator. With a host function the last operand is a constant that holds its address.
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

/// A rule with its sizes known.
struct BoundRule {
  Types results;
  std::vector<std::pair<std::string, Dim>> sizes;  ///< in order of appearance; of "...": "count", the elements
};
/// Finds the first rule that fits the operands' types and ranks, and binds its sizes. Throws E141 if none fits, E151
/// for contradictory sizes (a guard if that cannot be proved), E191 for a rule that does not parse.
BoundRule bind_rule(const Custom& op, Operands in);

/// Appends a call; returns all results. Throws E217 for an operator without a function.
std::vector<Value> append_custom(Module& module, const CustomOperator& op, std::vector<std::string> attributes,
                                 std::vector<Value> inputs);

}  // namespace weft
