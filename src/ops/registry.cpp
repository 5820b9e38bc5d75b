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
#include "ops/quantize.h"
#include "ops/reduce.h"
#include "ops/views.h"

namespace weft {

// clang-format off
#define WEFT_OPERATORS(X)                                                                                              \
  X(Parameter) X(Constant) X(Sizes) X(Bind) X(If) X(Loop) X(CpuPart) X(Elementwise) X(Convert) X(Bitcast) X(Reshape)   \
  X(Transpose) X(Broadcast) X(Slice) X(Pad) X(Concat) X(Reduce) X(ArgReduce) X(Scan) X(Softmax) X(Normalize) X(TopK)   \
  X(Dot) X(GroupedDot) X(QuantizeRows) X(BlockDot) X(Convolution) X(Pool) X(Attention) X(Gather) X(GatherElements)     \
  X(GatherNd) X(ScatterElements) X(ScatterNd) X(Iota) X(Resize) X(Quantize) X(Dequantize) X(NonMaxSuppression)         \
  X(Custom) X(HostOp) X(Collective)
// clang-format on

// Each operator's table and the constructor of Op, compiled here alone.
#define WEFT_INSTANTIATE(T)            \
  template const OpInfo& op_info<T>(); \
  template Op::Op(T);
WEFT_OPERATORS(WEFT_INSTANTIATE)
#undef WEFT_INSTANTIATE

namespace {

[[noreturn]] void unknown(std::string_view name) {
  std::vector<std::string> known;
  for (const OpInfo* op : all_ops()) known.emplace_back(op->name);
  for (const FnInfo& fn : all_fns()) known.emplace_back(fn.name);
  std::string near = nearest_names(name, known);
  throw Error({.kind = ErrorKind::model,
               .code = "E120",
               .what = cat("operator '", printable(name), "' is unknown"),
               .hint = near.empty() ? "" : cat("did you mean ", near, "?")});
}

}  // namespace

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
