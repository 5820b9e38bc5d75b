// SPDX-License-Identifier: Apache-2.0
#include "ops/registry.h"

#include "ir/control.h"
#include "ir/core_ops.h"
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
namespace {

template <class... T>
std::span<const OpInfo* const> infos() {
  static const OpInfo* const list[] = {&op_info<T>()...};
  return list;
}

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
  return infos<Parameter, Constant, Sizes, Bind, If, Loop, CpuPart, Elementwise, Convert, Bitcast, Reshape, Transpose,
               Broadcast, Slice, Pad, Concat, Reduce, ArgReduce, Scan, Softmax, Normalize, TopK, Dot, GroupedDot,
               QuantizeRows, BlockDot, Convolution, Pool, Attention, Gather, GatherElements, GatherNd, ScatterElements,
               ScatterNd, Iota, Resize, Quantize, Dequantize, NonMaxSuppression, Custom, HostOp, Collective>();
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
