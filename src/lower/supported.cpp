// SPDX-License-Identifier: Apache-2.0
#include "lower/lowering.h"
#include "lower/mac.h"
#include "ops/block_dot.h"
#include "ops/dot.h"
#include "ops/elementwise.h"
#include "ops/host.h"
#include "ops/indexed.h"
#include "ops/reduce.h"

namespace weft {
namespace {

bool combines_bool(const Instruction& i) {
  const auto* elements = i.as<ScatterElements>();
  const auto* slices = i.as<ScatterNd>();
  bool replaces = elements ? elements->fn == ScatterFn::replace : !slices || slices->fn == ScatterFn::replace;
  return !replaces && i.types[0].shape.dtype == DType::boolean;
}

bool has_long_axis(const Instruction& i) {
  const auto* op = i.as<ArgReduce>();
  if (!op) return false;
  auto size = i.inputs[0].dims()[static_cast<size_t>(op->axis)].constant();
  return size && *size >= int64_t{1} << 31;
}

std::string why_no_pool(const Pool& op, const Shape& x) {
  if (op.kernel.size() > 3) return cat(op.kernel.size(), " spatial axes; at most 3");
  if (op.layout != Layout::channels_last) return "pooling that is not channels-last";
  if (op.fn != PoolFn::max && !is_float(x.dtype)) return cat("pooling other than max of ", x);
  if (op.indices && op.fn != PoolFn::max) return "indices of a pooling other than max";
  return {};
}

/// Types that a matrix product or a convolution multiplies.
std::string why_no_product(const Instruction& i, DType result) {
  DType a = i.inputs[0].dtype(), b = i.inputs[1].dtype();
  bool integers =
      i.is<Dot>() ? is_integer(a) && is_integer(b) && is_integer(result) : has_short_product(i) && result == DType::i32;
  auto is_16_bits = [](DType t) { return t == DType::f16 || t == DType::bf16; };
  bool floats = a == b ? a == DType::f32 || a == DType::f64 || is_16_bits(a) : a == DType::f32 && is_16_bits(b);
  if (integers || (floats && is_float(result))) return {};
  return cat(a, " by ", b, " into ", result);
}

/// An element type that kernels cannot address, among operands and results.
std::string why_no_type(const Instruction& i) {
  bool takes_containers = i.is<HostOp>() || i.is<If>() || i.is<Loop>();
  auto refused = [&](const Type& type) {
    if (!type.is_tensor()) return takes_containers ? std::string() : cat("values ", type);
    DType t = type.shape.dtype;
    bool is_narrow = is_packed_type(t) && !i.is<Convert>() && !i.is<BlockDot>();
    bool is_refused = is_narrow || is_complex(t) || (t == DType::string && !takes_texts(i.op));
    return is_refused ? cat("elements of ", t) : std::string();
  };
  for (const Value& input : i.inputs) {
    if (std::string why = refused(input.type()); !why.empty()) return why;
  }
  for (const Type& type : i.types) {
    if (std::string why = refused(type); !why.empty()) return why;
  }
  return {};
}

}  // namespace

/// Each refusal here is one that a family would otherwise meet in the middle of lowering.
std::string why_unsupported(const Instruction& i) {
  if (is_leaf(i)) return {};
  if (std::string why = why_no_type(i); !why.empty()) return why;
  if (is_pointwise(i)) return {};
  if (!family_of(i).lower) return "no kernel for this operator";
  if (const auto* dot = i.as<Dot>()) return why_no_product(i, dot->type);
  if (const auto* dot = i.as<GroupedDot>()) return why_no_product(i, dot->type);
  if (const auto* convolution = i.as<Convolution>()) return why_no_product(i, convolution->type);
  if (i.is<Resize>() && i.types[0].shape.rank() == 0) return "resizing a scalar";
  if (combines_bool(i)) return "combining booleans";
  if (has_long_axis(i)) return cat("an axis of 2^31 elements or more: ", i.inputs[0].shape());
  if (const auto* pool = i.as<Pool>()) return why_no_pool(*pool, i.inputs[0].shape());
  return {};
}

}  // namespace weft
