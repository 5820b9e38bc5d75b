// SPDX-License-Identifier: Apache-2.0
#include "ops/elementwise.h"

#include <array>

#include "ops/check.h"

namespace weft {
namespace {

using enum FnInfo::Accepts;
constexpr auto same = FnInfo::Gives::same;

constexpr FnInfo fn_table[] = {
#define ELEMENTWISE(name, arity, accepts, gives, onnx, tf, torch, meaning) \
  {#name, arity, FnInfo::Accepts::accepts, FnInfo::Gives::gives, onnx, tf, torch, #meaning},
#include "ops/elementwise.def"
#undef ELEMENTWISE
};

constexpr auto fn_names = [] {
  std::array<std::string_view, std::size(fn_table)> list;
  for (size_t i = 0; i < list.size(); ++i) list[i] = fn_table[i].name;
  return list;
}();

bool accepted(FnInfo::Accepts accepts, DType type) {
  switch (accepts) {
    case any:
      return true;
    case number:
      return type != DType::boolean && type != DType::string;
    case real:
      return is_float(type);
    case integer:
      return is_integer(type);
    case logic:
      return type == DType::boolean;
  }
  return false;
}

}  // namespace

const FnInfo& info(Fn fn) { return fn_table[static_cast<size_t>(fn)]; }
std::span<const FnInfo> all_fns() { return fn_table; }
std::span<const std::string_view> names(Fn) { return fn_names; }

Types Elementwise::infer(Operands in) const {
  const FnInfo& row = info(fn);
  auto arity = static_cast<size_t>(row.arity);
  shape_rule::operand_count(row.name, in, arity, arity);
  const Shape& last = shape_rule::tensor(row.name, in, arity - 1);
  if (!accepted(row.accepts, last.dtype)) shape_rule::refuse("E141", row.name, " is not defined for ", last.dtype);
  for (size_t i = 0; i + 1 < arity; ++i) {
    const Shape& operand = shape_rule::tensor(row.name, in, i);
    shape_rule::same_dims(row.name, operand, last);
    bool is_condition = fn == Fn::select && i == 0;
    if (is_condition && operand.dtype != DType::boolean)
      shape_rule::refuse("E141", "select: the condition is ", operand.dtype, ", not bool");
    if (!is_condition) shape_rule::same_type(row.name, operand, last);
  }
  return {Shape{row.gives == same ? last.dtype : DType::boolean, last.dims}};
}

Types Convert::infer(Operands in) const {
  shape_rule::operand_count(name, in, 1, 1);
  return {Shape{to, shape_rule::tensor(name, in, 0).dims}};
}

Types Bitcast::infer(Operands in) const {
  shape_rule::operand_count(name, in, 1, 1);
  const Shape& x = shape_rule::tensor(name, in, 0);
  if (bits(x.dtype) != bits(to)) shape_rule::refuse("E141", "bitcast: ", x.dtype, " and ", to, " differ in width");
  return {Shape{to, x.dims}};
}

}  // namespace weft
