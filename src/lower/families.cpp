// SPDX-License-Identifier: Apache-2.0
#include "lower/families.h"

#include <algorithm>

#include "base/chip_features.h"
#include "base/error.h"
#include "ir/control.h"
#include "ir/core_ops.h"
#include "lower/cpu/mac.h"
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

namespace weft {
namespace {

std::string why_no_scatter(const Instruction& i) {
  const auto* elements = i.as<ScatterElements>();
  bool replaces = (elements ? elements->fn : i.as<ScatterNd>()->fn) == ScatterFn::replace;
  return !replaces && i.types[0].shape.dtype == DType::boolean ? "combining booleans" : "";
}

std::string why_no_arg_reduce(const Instruction& i) {
  auto size = i.inputs[0].dims()[i.as<ArgReduce>()->axis].constant();
  bool is_long = size && *size >= int64_t{1} << 31;
  return is_long ? cat("an axis of 2^31 elements or more: ", i.inputs[0].shape()) : "";
}

std::string why_no_resize(const Instruction& i) { return i.types[0].shape.rank() == 0 ? "resizing a scalar" : ""; }

std::string why_no_pool(const Instruction& i) {
  const Pool& op = *i.as<Pool>();
  DType type = i.inputs[0].dtype();
  if (op.kernel.size() > 3) return cat(op.kernel.size(), " spatial axes; at most 3");
  if (op.layout != Layout::channels_last) return "pooling that is not channels-last";
  if (op.fn != PoolFn::max && !is_float(type)) return cat("pooling other than max of ", i.inputs[0].shape());
  if (op.indices && op.fn != PoolFn::max) return "indices of a pooling other than max";
  return {};
}

/// Returns a text of the element types if no kernel multiplies them; "" if a kernel does.
template <class Op>
std::string why_no_product(const Instruction& i) {
  DType a = i.inputs[0].dtype(), b = i.inputs[1].dtype(), result = i.as<Op>()->type;
  bool integers =
      i.is<Dot>() ? is_integer(a) && is_integer(b) && is_integer(result) : has_short_product(i) && result == DType::i32;
  auto is_16_bits = [](DType t) { return t == DType::f16 || t == DType::bf16; };
  bool floats = is_float8(a) ? is_float8(b)
                : a == b     ? a == DType::f32 || a == DType::f64 || is_16_bits(a)
                             : a == DType::f32 && is_16_bits(b);
  if (integers || (floats && is_float(result))) return {};
  return cat(a, " by ", b, " into ", result);
}

template <class Op>
bool is(const Instruction& i) {
  return i.is<Op>();
}
bool is_integer_dot(const Instruction& i) { return i.is<Dot>() && is_integer(i.inputs[0].dtype()); }
bool is_pool_with_indices(const Instruction& i) { return i.is<Pool>() && i.as<Pool>()->indices; }

struct Row {
  bool (*is_of)(const Instruction&);
  Family family;
};
using enum Narrow;
constexpr Row table[] = {
#define FAMILY(is_of, how, ...) {is_of, {.lower = how, __VA_ARGS__}},
#include "lower/families.def"
    {[](const Instruction&) { return true; }, {}},
};

}  // namespace

const Family& family_of(const Instruction& i) {
  return std::ranges::find_if(table, [&](const Row& row) { return row.is_of(i); })->family;
}

}  // namespace weft
