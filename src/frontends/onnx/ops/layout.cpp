// SPDX-License-Identifier: Apache-2.0
// Imports operators that move elements, and operators that create constants and sizes.
#include <algorithm>

#include "frontends/common/views.h"
#include "frontends/onnx/import/expr.h"
#include "frontends/onnx/import/importer.h"

namespace weft::onnx {
namespace {

/// Returns sizes from an input or, in older opsets, an attribute.
Dims sizes_or(Call& c, size_t input, std::string_view attribute) {
  if (c.has_input(input)) return c.sizes(input);
  auto numbers = c.integers(attribute);
  return Dims(numbers.begin(), numbers.end());
}
std::vector<int64_t> numbers_or(Call& c, size_t input, std::string_view attribute) {
  return c.has_input(input) ? c.numbers(input) : c.integers(attribute);
}

/// Returns element `i` of the vector in an input, as i64[1].
Expr element(Call& c, size_t input, size_t i) {
  return slice(convert(arg(c, input), DType::i64), 0, static_cast<int64_t>(i), 1);
}

bool is_known(const Call& c, size_t input) { return !c.has_input(input) || known_contents(c.input(input)); }

/// Checks that an input is a vector of integers (E141) of known length, at most 4096 (E122).
void check_vector(const Call& c, size_t input) {
  const Shape& shape = c.input(input).shape();
  if (!is_integer(shape.dtype) || shape.rank() != 1)
    c.fail("E141", cat("needs input ", input, " as a vector of integers, is ", shape));
  constexpr int64_t max_axes = 4096;
  if (!shape.is_static()) c.importer().note_static(c.input(input), input, c.node().op_type, true);
  if (!shape.is_static() || shape.elements().value() > max_axes)
    c.unsupported(
        cat("input ", input, " holds ", shape.elements(), " sizes; their number must be fixed, at most ", max_axes));
}

/// Imports Reshape: 0 copies the input's size (unless allowzero is set), -1 is inferred.
Values reshape(Call& c) {
  Expr x = arg(c, 0);
  bool copies = !c.flag("allowzero");
  if (!is_known(c, 1)) check_vector(c, 1);
  return {reshape_to(x, is_known(c, 1) ? sizes_or(c, 1, "shape") : sizes_by_data(x, c.input(1), copies), copies)};
}

Values transpose(Call& c) {
  Expr x = arg(c, 0);
  auto order = c.integers("perm");
  if (order.empty()) {
    for (int64_t a = x.rank(); a-- > 0;) order.push_back(a);
  }
  for (int64_t& a : order) a = c.axis(a, x.rank());
  auto sorted = c.axes(order, x.rank());
  if (static_cast<int64_t>(sorted.size()) != x.rank())
    c.fail("E143", cat("permutes ", order.size(), " axes of ", x.value.shape()));
  return {transpose(x, order)};
}

Values flatten(Call& c) {
  Expr x = arg(c, 0);
  int64_t axis = c.integer("axis", 1);
  if (axis != x.rank()) axis = c.axis(axis, x.rank());
  Dims front(x.dims().begin(), x.dims().begin() + axis), back(x.dims().begin() + axis, x.dims().end());
  return {reshape(x, {product(front), product(back)})};
}

/// True if Squeeze without axes removes an axis of this size, because the size is 1. A symbolic size gets a guard.
bool removes(Call& c, const Dim& size) {
  return c.importer().decide(c.module(), {Guard::Kind::equal, size, 1, false}, "Squeeze");
}

Values squeeze(Call& c) {
  Expr x = arg(c, 0);
  auto axes = c.axes(numbers_or(c, 1, "axes"), x.rank());
  bool all = !c.has_input(1) && !c.has("axes");
  Dims dims;
  for (int64_t a = 0; a < x.rank(); ++a) {
    bool goes = all ? removes(c, x.dims()[a]) : std::ranges::binary_search(axes, a);
    if (!goes) {
      dims.push_back(x.dims()[a]);
    } else if (known_different(x.dims()[a], 1)) {
      c.fail("E143", cat("cannot remove axis ", a, " of ", x.value.shape(), ": its size is not 1"));
    }
  }
  return {reshape(x, dims)};
}

Values unsqueeze(Call& c) {
  Expr x = arg(c, 0);
  auto axes = numbers_or(c, 1, "axes");
  axes = c.axes(axes, x.rank() + static_cast<int64_t>(axes.size()));
  Dims dims = x.dims();
  for (int64_t a : axes) dims.insert(dims.begin() + a, 1);
  return {reshape(x, dims)};
}

Values unfold(Call& c) {
  int64_t axis = c.axis(c.integer("dim", -1), c.input(0).rank());
  return {unfold(arg(c, 0), axis, c.integer("size"), c.integer("step", 1))};
}

/// Adds an axis of size 1 at a position that may be counted from the end.
Values expand_dims(Call& c) {
  Expr x = arg(c, 0);
  auto axes = c.numbers(1);
  if (axes.size() != 1) c.fail("E140", cat("needs one axis, has ", axes));
  Dims dims = x.dims();
  dims.insert(dims.begin() + c.axis(axes[0], x.rank() + 1), 1);
  return {reshape(x, dims)};
}

Values concat(Call& c) {
  Values parts = c.inputs();
  if (parts.empty()) c.fail("E140", "needs at least one input");
  return {concat(c, parts, c.axis(c.integer("axis"), parts[0].rank()))};
}

/// Returns the sizes of the parts: as given, or equal, with a last part that may be smaller or empty.
Dims split_sizes(Call& c, const Dim& size) {
  Dims parts = sizes_or(c, 1, "split");
  if (!parts.empty()) return parts;
  int64_t count = c.integer("num_outputs", static_cast<int64_t>(c.output_count()));
  if (count < 1) c.fail("E145", cat("num_outputs must be 1 or more, is ", count));
  if (count != static_cast<int64_t>(c.output_count()))
    c.fail("E140", cat("has num_outputs ", count, " and ", c.output_count(), " outputs"));
  Dim each = ceildiv(size, count);
  Dim others = each * (count - 1);
  if (known_less_equal(size + 1, others))
    c.fail("E151", cat("splits ", size, " elements into ", count, " parts of ", each));
  GuardCollector guards(c.module());
  require_less_equal(others, size, "Split: the parts before the last are whole");
  parts.assign(count, each);
  parts.back() = size - others;
  return parts;
}

Values split(Call& c) {
  Expr x = arg(c, 0);
  int64_t axis = c.axis(c.integer("axis", 0), x.rank());
  return split(x, axis, split_sizes(c, x.dims()[axis]));
}

/// Returns the bounds in an input or attribute, with an empty entry for each run-time bound.
std::vector<std::optional<Dim>> bounds_or(Call& c, size_t input, std::string_view attribute) {
  if (is_known(c, input)) {
    Dims dims = sizes_or(c, input, attribute);
    return {dims.begin(), dims.end()};
  }
  check_vector(c, input);
  return partly_known_contents(c.input(input));
}

Values slice(Call& c) {
  Expr x = arg(c, 0);
  auto starts = bounds_or(c, 1, "starts"), ends = bounds_or(c, 2, "ends");
  auto axes = numbers_or(c, 3, "axes");
  auto steps = c.has_input(4) ? c.numbers(4) : std::vector<int64_t>(starts.size(), 1);
  if (axes.empty()) axes = axes_from(0, std::ssize(starts));
  if (ends.size() != starts.size() || axes.size() != starts.size() || steps.size() != starts.size()) {
    c.fail("E140", cat("has ", starts.size(), " starts, ", ends.size(), " ends, ", axes.size(), " axes and ",
                       steps.size(), " steps"));
  }
  for (int64_t& a : axes) a = c.axis(a, x.rank());
  c.axes(axes, x.rank());
  std::vector<Cut> cuts;
  for (size_t i = 0; i < axes.size(); ++i) {
    Cut one{.axis = axes[i], .start = starts[i], .end = ends[i], .step = steps[i], .clamps_start = true};
    if (!starts[i] || !ends[i]) one.start_data = element(c, 1, i), one.end_data = element(c, 2, i);
    cuts.push_back(std::move(one));
  }
  return {cut(x, cuts)};
}

/// Returns the sizes of Expand's result if input 1 is computed at run time: x's size where input 1 is 1.
Dims expand_by_data(Call& c, Expr x) {
  check_vector(c, 1);
  Expr shape = convert(arg(c, 1), DType::i64);
  auto known = partly_known_contents(c.input(1));
  Dims own(std::max(known.size(), x.dims().size()), 1);
  std::ranges::copy(x.dims(), own.end() - x.rank());
  own.erase(own.begin(), own.end() - std::ssize(known));
  return c.sizes_or_bound(select(equal(shape, 1), sizes(c, own), shape), known);
}

Values expand(Call& c) {
  Expr x = arg(c, 0);
  Dims dims = is_known(c, 1) ? c.sizes(1) : expand_by_data(c, x);
  GuardCollector guards(c.module());
  return {broadcast(x, broadcast_dims(std::vector<Dims>{x.dims(), dims}, "Expand"))};
}

PadMode pad_mode(Call& c) {
  std::string mode = c.text("mode", "constant");
  if (mode == "constant") return PadMode::constant;
  if (mode == "reflect") return PadMode::reflect;
  if (mode == "edge") return PadMode::edge;
  if (mode == "wrap") return PadMode::wrap;
  c.fail("E145", cat("mode '", printable(mode), "' is not constant, reflect, edge or wrap"));
}

Values pad(Call& c) {
  Expr x = arg(c, 0);
  auto is_row_of = [](const Dims& d, int64_t n) {
    return d.size() == 2 && known_equal(d[0], 1) && known_equal(d[1], n);
  };
  bool is_row = c.node().domain == "com.microsoft" && is_row_of(c.input(1).dims(), 2 * x.rank());
  Dims pads = is_row           ? sizes_in(c.module(), reshape(arg(c, 1), {c.input(1).dims()[1]}), INT64_MIN)
              : c.has_input(1) ? c.sizes(1, INT64_MIN)
                               : sizes_or(c, 1, "pads");
  auto axes = c.has_input(3) ? c.numbers(3) : axes_from(0, x.rank());
  for (int64_t& a : axes) a = c.axis(a, x.rank());
  if (pads.size() != 2 * axes.size()) c.fail("E140", cat("has ", pads.size(), " pads for ", axes.size(), " axes"));
  Dims before(x.dims().size(), 0), after = before;
  for (size_t i = 0; i < axes.size(); ++i) {
    before[axes[i]] = pads[i];
    after[axes[i]] = pads[axes.size() + i];
  }
  PadMode mode = pad_mode(c);
  double value = c.number("value", 0);
  Value fill = mode != PadMode::constant ? Value{}
               : c.has_input(2)          ? reshape(arg(c, 2), {}).value
                                         : number(c, x.dtype(), value).value;
  return {pad(x, before, after, mode, fill)};
}

Values center_crop_pad(Call& c) {
  Expr x = arg(c, 0);
  Dims target = c.sizes(1);
  auto axes = c.integers("axes");
  if (axes.empty()) axes = axes_from(0, x.rank());
  if (axes.size() != target.size()) c.fail("E140", cat("has ", target.size(), " sizes for ", axes.size(), " axes"));
  for (size_t i = 0; i < axes.size(); ++i) {
    int64_t axis = c.axis(axes[i], x.rank());
    Dim size = x.dims()[axis];
    Dim kept = min(size, target[i]);
    x = slice(x, axis, floordiv(size - kept, 2), kept);
    Dims before(x.dims().size(), 0), after = before;
    before[axis] = floordiv(target[i] - kept, 2);
    after[axis] = target[i] - kept - before[axis];
    x = pad(x, before, after);
  }
  return {x};
}

Values shape_of(Call& c) {
  const Dims& dims = c.input(0).dims();
  auto rank = static_cast<int64_t>(dims.size());
  auto bound = [rank](int64_t i) { return std::clamp<int64_t>(i < 0 ? i + rank : i, 0, rank); };
  int64_t start = bound(c.integer("start", 0)), end = bound(c.integer("end", rank));
  return {sizes(c, Dims(dims.begin() + start, dims.begin() + std::max(start, end)))};
}

Values size_of(Call& c) { return {scalar(c, c.input(0).shape().elements())}; }

Values depth_and_space(Call& c, Expr (*moved)(Expr x, int64_t block, bool depth_first)) {
  Expr x = arg(c, 0);
  int64_t block = c.integer("blocksize");
  if (block < 1) c.fail("E145", cat("blocksize must be 1 or more, is ", block));
  if (x.rank() != 4) c.fail("E140", cat("needs rank 4, has ", x.value.shape()));
  std::string mode = c.text("mode", "DCR");
  if (mode != "DCR" && mode != "CRD") c.fail("E145", cat("mode '", printable(mode), "' is not DCR or CRD"));
  return {moved(x, block, mode == "CRD")};
}

Values reverse_sequence(Call& c) {
  Expr x = arg(c, 0);
  int64_t batch = c.integer("batch_axis", 1), time = c.integer("time_axis", 0);
  if (batch + time != 1 || batch * time != 0)
    c.fail("E145", cat("batch_axis ", batch, " and time_axis ", time, " must be 0 and 1"));
  if (x.rank() < 2) c.fail("E140", cat("needs rank 2 or more, has ", x.value.shape()));
  return {reverse_rows(x, arg(c, 1), batch, time)};
}

Values constant_value(Call& c) {
  if (c.has("value")) return {constant(c.module(), c.tensor("value"))};
  if (c.has("value_int")) return {constant(c.module(), integer_scalar(DType::i64, c.integer("value_int")))};
  if (c.has("value_float")) return {constant(c.module(), DType::f32, c.number("value_float"))};
  if (c.has("value_ints")) return {constant(c.module(), make_i64_tensor(c.integers("value_ints")))};
  if (c.has("value_floats")) {
    auto values = c.floats("value_floats");
    return {constant(c.module(), make_tensor(DType::f32, {static_cast<int64_t>(values.size())}, values))};
  }
  if (c.has("sparse_value")) return {constant(c.module(), dense_tensor(c.sparse_tensor("sparse_value")))};
  bool is_scalar = c.has("value_string");
  auto strings = is_scalar ? std::vector<std::string>{c.text("value_string")} : c.strings("value_strings");
  Tensor tensor{.dtype = DType::string};
  if (!is_scalar) tensor.dims = {static_cast<int64_t>(strings.size())};
  tensor.strings = std::make_shared<const std::vector<std::string>>(std::move(strings));
  return {constant(c.module(), tensor)};
}

Values constant_of_shape(Call& c) {
  Dims dims = c.sizes(0);
  for (const Dim& dim : dims) {
    if (dim.upper_bound() < 0) c.fail("E150", cat("has size ", dim, " in ", dims));
  }
  if (!c.has("value")) return {full(c, DType::f32, dims, 0)};
  Tensor value = c.tensor("value");
  if (value.elements() != 1) c.fail("E140", cat("needs one value, has ", value.elements()));
  value.dims.clear();
  return {broadcast(Expr{&c, constant(c.module(), value)}, dims)};
}

constexpr Operator layout_table[] = {
#include "frontends/onnx/ops/layout.def"
};

}  // namespace

std::span<const Operator> layout_operators() { return layout_table; }

}  // namespace weft::onnx
