// SPDX-License-Identifier: Apache-2.0
// Operators that move elements without computing on them, and those that make constants and sizes.
#include <algorithm>
#include <numeric>

#include "frontends/onnx/expr.h"
#include "frontends/onnx/importer.h"
#include "ops/indexed.h"
#include "ops/views.h"

namespace weft::onnx {
namespace {

size_t at(int64_t i) { return static_cast<size_t>(i); }

/// Sizes from an input or, in older opsets, an attribute.
Dims sizes_or(Call& c, size_t input, std::string_view attribute) {
  if (c.has_input(input)) return c.sizes(input);
  auto numbers = c.integers(attribute);
  return Dims(numbers.begin(), numbers.end());
}
std::vector<int64_t> numbers_or(Call& c, size_t input, std::string_view attribute) {
  return c.has_input(input) ? c.numbers(input) : c.integers(attribute);
}

/// Element `i` of a vector.
Expr element(Expr x, size_t i) { return slice(x, 0, static_cast<int64_t>(i), 1); }

/// The shape that Reshape is given, where only the run tells some of its elements: their 0 and -1 are resolved by
/// instructions. Those that are known stay as they are.
Dims reshape_by_data(Call& c, Expr x, bool copies) {
  Expr shape = convert(arg(c, 1), DType::i64);
  auto known = partly_known_contents(c.input(1));
  if (copies) {
    Dims own(known.size(), 0);
    std::copy_n(x.dims().begin(), std::min(own.size(), x.dims().size()), own.begin());
    shape = select(equal(shape, 0), sizes(c, own), shape);
  }
  bool has_open = std::ranges::any_of(known, [](const auto& dim) { return dim && *dim == Dim(-1); });
  if (!has_open) {
    Expr is_open = equal(shape, -1);
    Expr others = reduce(ReduceFn::product, select(is_open, 1, shape), {0});
    shape = select(is_open, sizes(c, {x.value.shape().elements()}) / max(others, 1), shape);
  }
  return c.sizes_or_bound(shape, known);
}

bool is_known(const Call& c, size_t input) { return !c.has_input(input) || known_contents(c.input(input)); }

/// A vector of sizes (E141, E122).
void check_vector(const Call& c, size_t input) {
  const Shape& shape = c.input(input).shape();
  if (!is_integer(shape.dtype) || shape.rank() != 1)
    c.fail("E141", cat("needs input ", input, " to be whole numbers in a row, is ", shape));
  constexpr int64_t most_axes = 4096;
  if (!shape.is_static()) c.importer().note_static(c.input(input), input, c.node().op_type, true);
  if (!shape.is_static() || shape.elements().value() > most_axes)
    c.unsupported(
        cat("input ", input, " holds ", shape.elements(), " sizes; their number must be fixed, at most ", most_axes));
}

/// 0 copies the input's size (unless allowzero), -1 is what is left.
Values reshape(Call& c) {
  Expr x = arg(c, 0);
  bool copies = !c.flag("allowzero");
  if (!is_known(c, 1)) check_vector(c, 1);
  Dims dims = is_known(c, 1) ? sizes_or(c, 1, "shape") : reshape_by_data(c, x, copies);
  std::optional<size_t> open;
  Dim rest = 1, total = 1;  // without the copied axes, so that these need no division
  std::vector<bool> is_copied(x.dims().size());
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] == Dim(-1)) {
      if (open) c.fail("E151", cat("has two sizes of -1 in ", dims));
      open = i;
    } else if (copies && dims[i] == Dim(0)) {
      if (i >= x.dims().size()) c.fail("E151", cat("copies axis ", i, " of ", x.value.shape()));
      dims[i] = x.dims()[i];
      is_copied[i] = true;
    } else {
      rest *= dims[i];
    }
  }
  for (size_t i = 0; i < is_copied.size(); ++i) {
    if (!is_copied[i]) total *= x.dims()[i];
  }
  if (open) {
    if (known_equal(rest, 0)) c.fail("E151", cat("cannot find the -1 of ", dims, " for ", x.value.shape()));
    auto exact = exact_divide(total, rest);
    dims[*open] = exact ? *exact : floordiv(total, rest);
  }
  return {reshape(x, dims)};
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

/// Without axes, Squeeze removes those that the run finds to be of size 1.
bool removes(Call& c, const Dim& size) {
  return c.importer().decide(c.module(), Guard::Kind::equal, size, 1, false, "Squeeze");
}

Values squeeze(Call& c) {
  Expr x = arg(c, 0);
  auto axes = c.axes(numbers_or(c, 1, "axes"), x.rank());
  bool all = !c.has_input(1) && !c.has("axes");
  Dims dims;
  for (int64_t a = 0; a < x.rank(); ++a) {
    bool goes = all ? removes(c, x.dims()[at(a)]) : std::ranges::binary_search(axes, a);
    if (!goes) {
      dims.push_back(x.dims()[at(a)]);
    } else if (known_different(x.dims()[at(a)], 1)) {
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

/// Windows of `size` places along an axis, `step` apart; their places are a last axis.
Values unfold(Call& c) {
  Expr x = arg(c, 0);
  int64_t axis = c.axis(c.integer("dim", -1), x.rank()), size = c.integer("size"), step = c.integer("step", 1);
  if (size < 1 || step < 1) c.fail("E145", cat("size and step must be >=1, are ", size, " and ", step));
  Dim length = x.dims()[static_cast<size_t>(axis)];
  GuardCollector guards(c.module());
  require_less_equal(size, length, "UnfoldTensor: a window and its axis");
  Expr first = along(iota(c, floordiv(length - size, step) + 1), 0, 2) * static_cast<double>(step);
  Expr windows{&c, c.emit(Gather{.axis = axis}, {x, first + along(iota(c, size), 1, 2)})};
  std::vector<int64_t> order(static_cast<size_t>(windows.rank()));
  std::iota(order.begin(), order.end(), 0);
  std::rotate(order.begin() + axis + 1, order.begin() + axis + 2, order.end());
  return {transpose(windows, order)};
}

/// One axis more, at a place that may be counted from the end.
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

/// Sizes of the parts: given, or equal ones with a last that may be smaller, or empty.
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
  parts.assign(at(count), each);
  parts.back() = size - others;
  return parts;
}

Values split(Call& c) {
  Expr x = arg(c, 0);
  int64_t axis = c.axis(c.integer("axis", 0), x.rank());
  Dim size = x.dims()[at(axis)], start = 0, total = 0;
  Dims parts = split_sizes(c, size);
  for (const Dim& part : parts) total += part;
  if (known_different(total, size)) c.fail("E151", cat("splits ", size, " elements into parts of ", parts));
  GuardCollector guards(c.module());
  require_equal(total, size, "Split: sum of the parts");
  Values results;
  for (const Dim& part : parts) {
    results.push_back(slice(x, axis, start, part));
    start += part;
  }
  return results;
}

constexpr int64_t far = INT32_MAX;  // exporters write "to the end" as INT32_MAX or INT64_MAX

/// One end of a slice, counted from the front and clamped to [low, high]; `size` is the axis.
Dim slice_bound(Call& c, const Dim& given, const Dim& size, const Dim& low, const Dim& high) {
  if (auto value = given.constant()) {
    if (*value >= far) return high;
    if (*value <= -far) return low;
    return *value < 0 ? max(given + size, low) : min(given, high);
  }
  if (given.upper_bound() < 0) return max(given + size, low);
  GuardCollector guards(c.module());
  require_less_equal(0, given, "Slice: a bound that depends on sizes is counted from the front");
  return min(given, high);
}

void slice_one(Call& c, Slice& slice, size_t axis, const Dim& start, const Dim& end, int64_t step) {
  const Dim size = slice.sizes[axis];
  Dim low = step > 0 ? 0 : -1, high = step > 0 ? size : size - 1;
  Dim from = slice_bound(c, start, size, low, high), to = slice_bound(c, end, size, low, high);
  slice.starts[axis] = from;
  slice.steps[axis] = step;
  // Forwards the end is clamped already, so the count needs no clamped start: max(n - 2, 0), not n - min(2, n).
  bool counts_from_front = start.lower_bound() >= 0;
  Dim count = step > 0 ? ceildiv(to - (counts_from_front ? start : from), step) : ceildiv(from - to, -step);
  slice.sizes[axis] = max(count, 0);
}

/// A bound of a slice that only the run tells, counted from the front and clamped as slice_bound does.
Expr bound_by_data(Expr given, Expr size, bool forwards) {
  Expr from_front = select(given < 0, given + size, given);
  return forwards ? min(max(from_front, 0), size) : min(max(from_front, -1), size - 1);
}

/// Starts and sizes of the axes that are cut at places which only the run tells.
void slice_by_data(Call& c, Slice& slice, const std::vector<int64_t>& axes, const std::vector<int64_t>& steps,
                   const std::vector<size_t>& open) {
  Values computed;
  Dims most;
  Expr starts = convert(arg(c, 1), DType::i64), ends = convert(arg(c, 2), DType::i64);
  for (size_t i : open) {
    const Dim& size = slice.sizes[at(axes[i])];
    int64_t step = steps[i];
    Expr n = sizes(c, {size});
    Expr from = bound_by_data(element(starts, i), n, step > 0), to = bound_by_data(element(ends, i), n, step > 0);
    Expr length = max(step > 0 ? to - from : from - to, 0);
    double stride = static_cast<double>(step > 0 ? step : -step);
    computed.insert(computed.end(), {max(from, 0), (length + (stride - 1)) / stride});
    most.insert(most.end(), {size, size});
  }
  Dims found = c.sizes_or_bound(concat(c, computed, 0), std::vector<std::optional<Dim>>(most.size()), most);
  for (size_t k = 0; k < open.size(); ++k) {
    slice.starts[at(axes[open[k]])] = found[2 * k];
    slice.sizes[at(axes[open[k]])] = found[2 * k + 1];
    slice.steps[at(axes[open[k]])] = steps[open[k]];
  }
}

/// The bounds in an input or attribute; null where only the run tells.
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
  if (axes.empty()) {
    for (size_t i = 0; i < starts.size(); ++i) axes.push_back(static_cast<int64_t>(i));
  }
  if (ends.size() != starts.size() || axes.size() != starts.size() || steps.size() != starts.size()) {
    c.fail("E140", cat("has ", starts.size(), " starts, ", ends.size(), " ends, ", axes.size(), " axes and ",
                       steps.size(), " steps"));
  }
  for (int64_t& a : axes) a = c.axis(a, x.rank());
  c.axes(axes, x.rank());
  Slice slice{.starts = Dims(x.dims().size(), 0), .sizes = x.dims(), .steps = std::vector<int64_t>(x.dims().size(), 1)};
  std::vector<size_t> open;
  for (size_t i = 0; i < axes.size(); ++i) {
    if (steps[i] == 0) c.fail("E145", "has a step of 0");
    if (starts[i] && ends[i]) slice_one(c, slice, at(axes[i]), *starts[i], *ends[i], steps[i]);
    else open.push_back(i);
  }
  if (!open.empty()) slice_by_data(c, slice, axes, steps, open);
  bool is_all = slice.sizes == x.dims() && std::ranges::all_of(slice.steps, [](int64_t s) { return s == 1; });
  return {is_all ? x.value : c.emit(slice, {x})};
}

/// The shape that Expand is given; a 1 that only the run tells stands for the size of x.
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

Values tile(Call& c) {
  Expr x = arg(c, 0);
  Dims repeats = c.sizes(1);
  if (repeats.size() != x.dims().size()) c.fail("E140", cat("has ", repeats.size(), " repeats for ", x.value.shape()));
  Dims apart, repeated, joined;
  for (size_t i = 0; i < repeats.size(); ++i) {
    apart.insert(apart.end(), {1, x.dims()[i]});
    repeated.insert(repeated.end(), {repeats[i], x.dims()[i]});
    joined.push_back(repeats[i] * x.dims()[i]);
  }
  return {reshape(broadcast(reshape(x, apart), repeated), joined)};
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
  std::vector<int64_t> axes;
  for (int64_t a = 0; a < x.rank(); ++a) axes.push_back(a);
  if (c.has_input(3)) axes = c.numbers(3);
  for (int64_t& a : axes) a = c.axis(a, x.rank());
  if (pads.size() != 2 * axes.size()) c.fail("E140", cat("has ", pads.size(), " pads for ", axes.size(), " axes"));
  Pad pad{.before = Dims(x.dims().size(), 0), .after = Dims(x.dims().size(), 0), .mode = pad_mode(c)};
  for (size_t i = 0; i < axes.size(); ++i) {
    pad.before[at(axes[i])] = pads[i];
    pad.after[at(axes[i])] = pads[axes.size() + i];
    if (all_constant({pads[i], pads[axes.size() + i]})) continue;
    GuardCollector guards(c.module());
    require_less_equal(0, pads[i] + x.dims()[at(axes[i])] + pads[axes.size() + i], "Pad: a size after padding");
  }
  double value = c.number("value", 0);
  if (pad.mode != PadMode::constant) return {c.emit(pad, {x})};
  return {c.emit(pad, {x, c.has_input(2) ? reshape(arg(c, 2), {}) : number(c, x.dtype(), value)})};
}

Values center_crop_pad(Call& c) {
  Expr x = arg(c, 0);
  Dims target = c.sizes(1);
  auto axes = c.integers("axes");
  if (axes.empty()) {
    for (int64_t a = 0; a < x.rank(); ++a) axes.push_back(a);
  }
  if (axes.size() != target.size()) c.fail("E140", cat("has ", target.size(), " sizes for ", axes.size(), " axes"));
  for (size_t i = 0; i < axes.size(); ++i) {
    int64_t axis = c.axis(axes[i], x.rank());
    Dim size = x.dims()[at(axis)];
    Dim kept = min(size, target[i]);
    x = slice(x, axis, floordiv(size - kept, 2), kept);
    Pad pad{.before = Dims(x.dims().size(), 0), .after = Dims(x.dims().size(), 0)};
    pad.before[at(axis)] = floordiv(target[i] - kept, 2);
    pad.after[at(axis)] = target[i] - kept - pad.before[at(axis)];
    x = {&c, c.emit(pad, {x, number(c, x.dtype(), 0)})};
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

int64_t block_size(Call& c, Expr x) {
  int64_t block = c.integer("blocksize");
  if (block < 1) c.fail("E145", cat("blocksize must be 1 or more, is ", block));
  if (x.rank() != 4) c.fail("E140", cat("needs rank 4, has ", x.value.shape()));
  return block;
}

Values depth_to_space(Call& c) {
  Expr x = arg(c, 0);
  int64_t b = block_size(c, x);
  std::string mode = c.text("mode", "DCR");
  if (mode != "DCR" && mode != "CRD") c.fail("E145", cat("mode '", printable(mode), "' is not DCR or CRD"));
  Dim n = x.dims()[0], depth = floordiv(x.dims()[1], b * b), h = x.dims()[2], w = x.dims()[3];
  Expr y = mode == "DCR" ? transpose(reshape(x, {n, b, b, depth, h, w}), {0, 3, 4, 1, 5, 2})
                         : transpose(reshape(x, {n, depth, b, b, h, w}), {0, 1, 4, 2, 5, 3});
  return {reshape(y, {n, depth, h * b, w * b})};
}

Values space_to_depth(Call& c) {
  Expr x = arg(c, 0);
  int64_t b = block_size(c, x);
  std::string mode = c.text("mode", "DCR");
  if (mode != "DCR" && mode != "CRD") c.fail("E145", cat("mode '", printable(mode), "' is not DCR or CRD"));
  Dim n = x.dims()[0], depth = x.dims()[1], h = floordiv(x.dims()[2], b), w = floordiv(x.dims()[3], b);
  Expr apart = reshape(x, {n, depth, h, b, w, b});
  Expr y =
      transpose(apart, mode == "DCR" ? std::vector<int64_t>{0, 3, 5, 1, 2, 4} : std::vector<int64_t>{0, 1, 3, 5, 2, 4});
  return {reshape(y, {n, depth * (b * b), h, w})};
}

/// The first sequence_lens[b] steps of each row backwards, the others as they are.
Values reverse_sequence(Call& c) {
  Expr x = arg(c, 0);
  int64_t batch = c.integer("batch_axis", 1), time = c.integer("time_axis", 0);
  if (batch + time != 1 || batch * time != 0)
    c.fail("E145", cat("batch_axis ", batch, " and time_axis ", time, " must be 0 and 1"));
  if (x.rank() < 2) c.fail("E140", cat("needs rank 2 or more, has ", x.value.shape()));
  Expr step = along(iota(c, x.dims()[at(time)]), time, x.rank());
  Expr length = along(convert(arg(c, 1), DType::i64), batch, x.rank());
  Expr from = select(step < length, length - step - 1.0, step);
  return {c.emit(GatherElements{.axis = time}, {x, broadcast(from, x.dims())})};
}

Values constant_value(Call& c) {
  if (c.has("value")) return {constant(c.module(), c.tensor("value"))};
  if (c.has("value_int")) return {constant(c.module(), DType::i64, static_cast<double>(c.integer("value_int")))};
  if (c.has("value_float")) return {constant(c.module(), DType::f32, c.number("value_float"))};
  if (c.has("value_ints")) return {constant(c.module(), make_i64_tensor(c.integers("value_ints")))};
  if (c.has("value_floats")) {
    auto values = c.floats("value_floats");
    return {constant(c.module(), make_tensor(DType::f32, {static_cast<int64_t>(values.size())}, values))};
  }
  if (c.has("sparse_value")) return {constant(c.module(), dense_tensor(c.sparse_tensor("sparse_value")))};
  bool is_scalar = c.has("value_string");
  auto texts = is_scalar ? std::vector<std::string>{c.text("value_string")} : c.texts("value_strings");
  Tensor tensor{.dtype = DType::string};
  if (!is_scalar) tensor.dims = {static_cast<int64_t>(texts.size())};
  tensor.strings = std::make_shared<const std::vector<std::string>>(std::move(texts));
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

constexpr Operator table[] = {
    {"", "Reshape", reshape},
    {"", "Transpose", transpose},
    {"", "Flatten", flatten},
    {"", "Squeeze", squeeze},
    {"", "Unsqueeze", unsqueeze},
    {"com.microsoft", "ExpandDims", expand_dims},
    {"com.microsoft", "Pad", pad},
    {"com.microsoft", "UnfoldTensor", unfold},
    {"", "Concat", concat},
    {"", "Split", split},
    {"", "Slice", slice},
    {"", "Expand", expand},
    {"", "Tile", tile},
    {"", "Pad", pad},
    {"", "CenterCropPad", center_crop_pad},
    {"", "Shape", shape_of},
    {"", "Size", size_of},
    {"", "DepthToSpace", depth_to_space},
    {"", "SpaceToDepth", space_to_depth},
    {"", "ReverseSequence", reverse_sequence},
    {"", "Constant", constant_value},
    {"", "ConstantOfShape", constant_of_shape},
};

}  // namespace

std::span<const Operator> layout_operators() { return table; }

}  // namespace weft::onnx
