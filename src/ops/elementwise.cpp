// SPDX-License-Identifier: Apache-2.0
#include "ops/elementwise.h"

#include <array>

#include "ops/check.h"
#include "ops/lookup.h"
#include "ops/reference_math.h"
#include "ops/wide.h"

namespace weft {
namespace {

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
  using enum FnInfo::Accepts;
  switch (accepts) {
    case any: return true;
    case number: return type != DType::boolean && type != DType::string;
    case real: return is_float(type);
    case integer: return is_integer(type);
    case logic: return type == DType::boolean;
  }
  return false;
}

}  // namespace

const FnInfo& info(Fn fn) { return fn_table[static_cast<size_t>(fn)]; }
std::span<const FnInfo> all_fns() { return fn_table; }
std::span<const std::string_view> names(Fn) { return fn_names; }

Types Elementwise::infer(Operands in) const {
  const FnInfo& row = info(fn);
  size_t arity = row.arity;
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
  const Shape& x = shape_rule::tensor(name, in, 0);
  // Casts from and to strings are functions of the host, not conversions.
  if ((x.dtype == DType::string) != (to == DType::string))
    shape_rule::refuse("E141", "convert: ", x, " does not become ", to);
  return {Shape{to, x.dims}};
}

Types Bitcast::infer(Operands in) const {
  shape_rule::operand_count(name, in, 1, 1);
  const Shape& x = shape_rule::tensor(name, in, 0);
  if (bits(x.dtype) != bits(to)) shape_rule::refuse("E141", "bitcast: ", x.dtype, " and ", to, " differ in width");
  return {Shape{to, x.dims}};
}

Types Lookup::infer(Operands in) const {
  shape_rule::operand_count(name, in, 2, 2);
  const Shape &x = shape_rule::tensor(name, in, 0), &table = shape_rule::tensor(name, in, 1);
  auto is_byte = [](const Shape& s) { return is_integer(s.dtype) && bits(s.dtype) == 8; };
  if (!is_byte(x) || !is_byte(table)) shape_rule::refuse("E141", name, ": ", x, " and ", table, " are not bytes");
  if (table.rank() != 1 || !known_equal(table.dims[0], 256))
    shape_rule::refuse("E151", name, ": ", table, " is not a table of 256");
  return {Shape{table.dtype, x.dims}};
}

// The reference's loops, made from the meaning of each function in elementwise.def.
namespace reference {
namespace {

using Accepts = FnInfo::Accepts;

struct Call {
  std::span<const Wide> in;
  DType type;  // type of the result
};

template <class T>
T load(const Wide& x, int64_t i) {
  if constexpr (std::is_same_v<T, double>) return x.as<double>()[i];
  else return T(static_cast<decltype(T::value)>(x.as<int64_t>()[i]));
}

inline double stored(double value) { return value; }
inline int64_t stored(bool value) { return value; }
template <class S>
int64_t stored(Wrapping<S> value) {
  return static_cast<int64_t>(value.value);
}

inline double narrowed(DType, double value) { return value; }
inline int64_t narrowed(DType type, int64_t value) { return wrap(type, value); }

/// Calls f(x, y, z) for element i. With one operand, y is x; with one or two, z is 0; with three, x is a condition.
template <int arity, class T, class F>
auto call(const Call& c, int64_t i, F f) {
  if constexpr (arity == 3) return f(c.in[0].as<int64_t>()[i] != 0, load<T>(c.in[1], i), load<T>(c.in[2], i));
  else return f(load<T>(c.in[0], i), load<T>(c.in[arity - 1], i), T(0));
}

template <int arity, class T, class F>
Wide over_elements(const Call& c, F f) {
  using Stored = decltype(stored(call<arity, T>(c, 0, f)));
  int64_t count = c.in[0].elements();
  std::vector<Stored> out(count);
  parallel_parts(count, 16, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) out[i] = narrowed(c.type, stored(call<arity, T>(c, i, f)));
  });
  return make_wide(c.type, c.in[0].dims, std::move(out));
}

template <int arity, Accepts accepts, class F>
Wide over(const Call& c, F f) {
  constexpr bool reals = accepts == Accepts::any || accepts == Accepts::number || accepts == Accepts::real;
  if constexpr (reals) {
    if (c.in[arity - 1].is_real()) return over_elements<arity, double>(c, f);
  }
  if constexpr (accepts != Accepts::real) {
    if (c.in[arity - 1].dtype == DType::u64) return over_elements<arity, Wrapping<uint64_t>>(c, f);
    return over_elements<arity, Wrapping<int64_t>>(c, f);
  }
  __builtin_unreachable();  // the shape rule refuses integers
}

Wide evaluate(Fn fn, const Call& c) {
  switch (fn) {
#define ELEMENTWISE(name, arity, accepts, gives, onnx, tf, torch, meaning)                                   \
  case Fn::name:                                                                                             \
    return over<arity, Accepts::accepts>(c, []<class X, class T>([[maybe_unused]] X x, [[maybe_unused]] T y, \
                                                                 [[maybe_unused]] T z) { return meaning; });
#include "ops/elementwise.def"
#undef ELEMENTWISE
  }
  __builtin_unreachable();
}

}  // namespace
}  // namespace reference

std::vector<Wide> Elementwise::evaluate(std::span<const Wide> in) const {
  DType type = info(fn).gives == FnInfo::Gives::logic ? DType::boolean : in.back().dtype;
  return {reference::evaluate(fn, {in, type})};
}

std::vector<Wide> Convert::evaluate(std::span<const Wide> in) const {
  const Wide& x = in[0];
  auto rounded = [&](double v) { return round_to(to, v, saturate && bits(to) <= 8); };
  auto each = [&]<class To, class T>(std::span<const T> values, auto f) {
    std::vector<To> out(values.size());
    for (size_t i = 0; i < values.size(); ++i) out[i] = f(values[i]);
    return std::vector<Wide>{make_wide(to, x.dims, std::move(out))};
  };
  if (is_float(to) && x.is_real()) return each.template operator()<double>(x.as<double>(), rounded);
  if (is_float(to))
    return each.template operator()<double>(x.as<int64_t>(), [&](int64_t v) { return rounded(to_real(x.dtype, v)); });
  if (x.is_real())
    return each.template operator()<int64_t>(x.as<double>(), [&](double v) { return to_integer(to, v); });
  return each.template operator()<int64_t>(x.as<int64_t>(), [&](int64_t v) { return wrap(to, v); });
}

std::vector<Wide> Bitcast::evaluate(std::span<const Wide> in) const {
  Tensor bits = to_tensor(in[0]);
  bits.dtype = to;
  return {to_wide(bits)};
}

std::vector<Wide> Lookup::evaluate(std::span<const Wide> in) const {
  std::vector<int64_t> out;
  for (int64_t x : in[0].as<int64_t>()) out.push_back(in[1].as<int64_t>()[x & 255]);
  return {make_wide(in[1].dtype, in[0].dims, std::move(out))};
}

}  // namespace weft
