// SPDX-License-Identifier: Apache-2.0
#include "ops/registry.h"

#include "ir/control.h"
#include "ir/core_ops.h"
#include "ir/op_fields.h"
#include "ops/block_dot.h"
#include "ops/boxes.h"
#include "ops/collective.h"
#include "ops/custom.h"
#include "ops/dot.h"
#include "ops/elementwise.h"
#include "ops/host.h"
#include "ops/indexed.h"
#include "ops/lookup.h"
#include "ops/quantize.h"
#include "ops/reduce.h"
#include "ops/views.h"

namespace weft::fields {
namespace {

template <class T>
std::vector<Attribute> print_all(const Op& op, const PrintContext& context) {
  std::vector<Attribute> attributes;
  auto print_one = [&](const auto& field) {
    attributes.push_back({field.name, print(op.as<T>()->*field.member, context)});
  };
  std::apply([&](const auto&... field) { (print_one(field), ...); }, T::fields());
  return attributes;
}

template <class T>
bool parse_one(T& op, const Attribute& attribute, const ParseContext& context) {
  auto matches = [&](const auto& field) {
    if (field.name != attribute.name) return false;
    parse(attribute.text, op.*field.member, context);
    return true;
  };
  return std::apply([&](const auto&... field) { return (matches(field) || ...); }, T::fields());
}

template <class T>
Op parse_all(std::span<const Attribute> attributes, const ParseContext& context) {
  T op;
  for (const Attribute& attribute : attributes) {
    if (!parse_one(op, attribute, context)) refuse(attribute.name, cat("a field of ", T::name));
  }
  return op;
}

template <class T>
Op substitute_all(const Op& op, const std::function<Dim(const Symbol&)>& replace) {
  T copy = *op.as<T>();
  std::apply([&](const auto&... field) { (substitute(copy.*field.member, replace), ...); }, T::fields());
  return copy;
}

template <class T>
constexpr auto evaluator() -> std::vector<Wide> (*)(const Op&, std::span<const Wide>) {
  if constexpr (requires(const T& op, std::span<const Wide> in) { op.evaluate(in); }) {
    return [](const Op& op, std::span<const Wide> in) { return op.as<T>()->evaluate(in); };
  } else {
    return nullptr;
  }
}

template <class T>
constexpr auto displayer() -> std::string_view (*)(const Op&) {
  if constexpr (requires(const T& op) { op.display_name(); }) {
    return [](const Op& op) { return op.as<T>()->display_name(); };
  } else {
    return nullptr;
  }
}

template <class T>
concept HasSideEffects = requires { T::has_side_effects; };

template <class T>
constexpr OpInfo make_info() {
  return {.name = T::name,
          .infer = [](const Op& op, Operands in) { return Types(op.as<T>()->infer(in)); },
          .evaluate = evaluator<T>(),
          .print = &print_all<T>,
          .parse = &parse_all<T>,
          .equal = [](const Op& a, const Op& b) { return *a.as<T>() == *b.as<T>(); },
          .substitute = &substitute_all<T>,
          .display = displayer<T>(),
          .has_side_effects = HasSideEffects<T>};
}

}  // namespace
}  // namespace weft::fields

namespace weft {

template <class T>
const OpInfo& op_info() {
  static constexpr OpInfo info = fields::make_info<T>();
  return info;
}

template <class T>
  requires requires { T::fields(); }
Op::Op(T op) : info_(&op_info<T>()), data_(std::make_shared<const T>(std::move(op))) {}

// clang-format off
#define WEFT_OPERATORS(X)                                                                                              \
  X(Parameter) X(Constant) X(Sizes) X(Bind) X(If) X(Loop) X(CpuPart) X(Elementwise) X(Convert) X(Bitcast) X(Lookup)    \
  X(Reshape) X(Transpose) X(Broadcast) X(Slice) X(Pad) X(Concat) X(Reduce) X(ArgReduce) X(Scan) X(Softmax) X(Normalize) X(TopK)   \
  X(Dot) X(GroupedDot) X(QuantizeRows) X(BlockDot) X(Convolution) X(Pool) X(Attention) X(Gather) X(GatherElements)     \
  X(GatherNd) X(ScatterElements) X(ScatterNd) X(Iota) X(Resize) X(Quantize) X(Dequantize) X(Nearest) X(NonMaxSuppression)         \
  X(Custom) X(HostOp) X(Collective)
// clang-format on

// Instantiates each operator's table and the constructor of Op, which no other file compiles.
#define WEFT_INSTANTIATE(T)            \
  template const OpInfo& op_info<T>(); \
  template Op::Op(T);
WEFT_OPERATORS(WEFT_INSTANTIATE)
#undef WEFT_INSTANTIATE

[[noreturn]] static void unknown(std::string_view name) {
  std::vector<std::string> known;
  for (const OpInfo* op : all_ops()) known.emplace_back(op->name);
  for (const FnInfo& fn : all_fns()) known.emplace_back(fn.name);
  std::string near = nearest_names(name, known);
  throw Error({.kind = ErrorKind::model,
               .code = "E120",
               .what = cat("operator '", printable(name), "' is unknown"),
               .hint = near.empty() ? "" : cat("did you mean ", near, "?")});
}

std::span<const OpInfo* const> all_ops() {
#define WEFT_INFO(T) &op_info<T>(),
  static const OpInfo* const list[] = {WEFT_OPERATORS(WEFT_INFO)};
#undef WEFT_INFO
  return list;
}

Op make_op(std::string_view name, std::span<const Attribute> attributes, const ParseContext& context) {
  for (size_t i = 0; i < all_fns().size(); ++i) {
    if (all_fns()[i].name == name) return Elementwise{.fn = static_cast<Fn>(i)};
  }
  for (const OpInfo* op : all_ops()) {
    if (op->name == name) return op->parse(attributes, context);
  }
  unknown(name);
}

}  // namespace weft
