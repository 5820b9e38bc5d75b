// SPDX-License-Identifier: Apache-2.0
#include "frontends/onnx/export/operators.h"

#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "frontends/onnx/export/control.h"
#include "frontends/onnx/export/windows.h"
#include "frontends/onnx/file/writer.h"
#include "ir/control.h"
#include "ops/dot.h"
#include "ops/elementwise.h"
#include "ops/indexed.h"
#include "ops/quantize.h"
#include "ops/reduce.h"
#include "ops/views.h"

namespace weft::onnx {
namespace {

std::string cast(Out& out, const std::string& x, DType to) { return out.add("Cast", {x}, {{"to", element_code(to)}}); }

/// Returns the operand of a Broadcast, because ONNX broadcasts implicitly; returns any other value unchanged.
Value before_broadcast(Value value) { return value.def->is<Broadcast>() ? value.def->inputs[0] : value; }

Names operands(const Out& out, const Instruction& i) {
  auto is_whole = [&](Value v) { return before_broadcast(v).dims() == i.types[0].shape.dims; };
  bool may_strip = std::ranges::any_of(i.inputs, is_whole);
  Names names;
  for (Value v : i.inputs) names.push_back(out.name(may_strip ? before_broadcast(v) : v));
  return names;
}

/// Writes a function for which elementwise.def names no operator of ONNX.
std::string write_function(Out& out, Fn fn, const Names& x, DType type) {
  auto number = [&](double value) { return out.scalar(type, value); };
  switch (fn) {
    case Fn::rsqrt: return out.add("Reciprocal", {out.add("Sqrt", x)});
    case Fn::gelu: return out.add("Gelu", x);
    case Fn::tanh_gelu: return out.add("Gelu", x, {{"approximate", std::string("tanh")}});
    case Fn::exp2: return out.add("Pow", {number(2), x[0]});
    case Fn::log2: return out.add("Div", {out.add("Log", x), number(std::log(2.0))});
    case Fn::log10: return out.add("Div", {out.add("Log", x), number(std::log(10.0))});
    case Fn::trunc: return out.add("Mul", {out.add("Sign", x), out.add("Floor", {out.add("Abs", x)})});
    case Fn::pow: return out.add("Pow", x);
    case Fn::min: return out.add("Min", x);
    case Fn::max: return out.add("Max", x);
    case Fn::fmod: return out.add("Mod", x, {{"fmod", int64_t{1}}});
    case Fn::expm1: {  // 2 sinh(x / 2) e^(x / 2), which is accurate near 0
      std::string half = out.add("Mul", {x[0], number(0.5)});
      return out.add("Mul", {out.add("Mul", {out.add("Sinh", {half}), number(2)}), out.add("Exp", {half})});
    }
    case Fn::log1p: {  // 2 atanh(x / (x + 2))
      std::string share = out.add("Div", {x[0], out.add("Add", {x[0], number(2)})});
      return out.add("Mul", {out.add("Atanh", {share}), number(2)});
    }
    case Fn::floor_mod: {
      if (!is_float(type)) return out.add("Mod", x);
      // Adds the divisor to the remainder of truncated division if their signs differ: the sum has the divisor's sign.
      std::string rest = out.add("Mod", x, {{"fmod", int64_t{1}}});
      std::string signs = out.add("Mul", {out.add("Sign", {rest}), out.add("Sign", {x[1]})});
      return out.add("Add", {rest, out.add("Where", {out.add("Less", {signs, number(0)}), x[1], number(0)})});
    }
    default: refuse_export(out.source(), cat("ONNX has no operator '", info(fn).name, "'"));
  }
}

Names write(Out& out, const Instruction& i, const Elementwise& op) {
  Names x = operands(out, i);
  std::string_view known = info(op.fn).onnx;
  return {known.empty() ? write_function(out, op.fn, x, i.types[0].shape.dtype) : out.add(known, x)};
}

Names write(Out& out, const Instruction& i, const Convert& op) { return {cast(out, out.name(i.inputs[0]), op.to)}; }

Names write(Out& out, const Instruction& i, const Reshape& op) {
  return {out.add("Reshape", {out.name(i.inputs[0]), out.sizes(op.dims)}, {{"allowzero", int64_t{1}}})};
}

Names write(Out& out, const Instruction& i, const Transpose& op) {
  return {out.add("Transpose", {out.name(i.inputs[0])}, {{"perm", op.permutation}})};
}

Names write(Out& out, const Instruction& i, const Broadcast& op) {
  return {out.add("Expand", {out.name(i.inputs[0]), out.sizes(op.dims)})};
}

/// Returns the exclusive end of a slice for ONNX. A negative end counts from the back in ONNX, so a slice backwards to
/// element 0 ends at INT64_MIN + 1.
Dim end_of(const Out& out, const Dim& start, const Dim& size, int64_t step) {
  if (step > 0) return start + size * step;
  Dim last = start + (size - 1) * step;
  if (last.lower_bound() >= 1) return last - 1;
  if (known_equal(last, 0) || (last.is_constant() && last.value() + step < 0)) return INT64_MIN + 1;
  refuse_export(out.source(), cat("a slice backwards ends at ", to_string(last)));
}

Names write(Out& out, const Instruction& i, const Slice& op) {
  Dims starts, ends;
  std::vector<int64_t> axes, steps;
  for (size_t axis = 0; axis < op.starts.size(); ++axis) {
    bool is_whole = op.steps[axis] == 1 && op.starts[axis] == Dim(0) && op.sizes[axis] == i.inputs[0].dims()[axis];
    if (is_whole) continue;
    axes.push_back(static_cast<int64_t>(axis)), steps.push_back(op.steps[axis]);
    starts.push_back(op.starts[axis]), ends.push_back(end_of(out, op.starts[axis], op.sizes[axis], op.steps[axis]));
  }
  if (axes.empty()) return {out.name(i.inputs[0])};
  return {out.add(
      "Slice", {out.name(i.inputs[0]), out.sizes(starts), out.sizes(ends), out.integers(axes), out.integers(steps)})};
}

Names write(Out& out, const Instruction& i, const Pad& op) {
  Dims pads = op.before;
  pads.insert(pads.end(), op.after.begin(), op.after.end());
  Names inputs = {out.name(i.inputs[0]), out.sizes(pads)};
  if (op.mode == PadMode::constant) inputs.push_back(out.name(i.inputs[1]));
  return {out.add("Pad", inputs, {{"mode", std::string(enum_name(op.mode))}})};
}

Names all_names(const Out& out, const Instruction& i) {
  Names names;
  for (Value v : i.inputs) names.push_back(out.name(v));
  return names;
}

Names write(Out& out, const Instruction& i, const Concat& op) {
  return {out.add("Concat", all_names(out, i), {{"axis", op.axis}})};
}

Names write(Out& out, const Instruction& i, const Reduce& op) {
  constexpr std::string_view ops[] = {"ReduceSum", "ReduceMean", "ReduceProd", "ReduceMin", "ReduceMax"};
  return {out.add(ops[static_cast<size_t>(op.fn)], {out.name(i.inputs[0]), out.integers(op.axes)},
                  {{"keepdims", int64_t{op.keep}}, {"noop_with_empty_axes", int64_t{1}}})};
}

Names write(Out& out, const Instruction& i, const ArgReduce& op) {
  return {out.add(op.largest ? "ArgMax" : "ArgMin", {out.name(i.inputs[0])},
                  {{"axis", op.axis}, {"keepdims", int64_t{op.keep}}, {"select_last_index", int64_t{op.last}}})};
}

Names write(Out& out, const Instruction& i, const Scan& op) {
  if (op.fn != ReduceFn::sum) refuse_export(out.source(), "ONNX has running sums only");
  return {out.add("CumSum", {out.name(i.inputs[0]), out.scalar(DType::i64, static_cast<double>(op.axis))},
                  {{"exclusive", int64_t{op.exclusive}}, {"reverse", int64_t{op.reverse}}})};
}

Names write(Out& out, const Instruction& i, const Softmax& op) {
  return {out.add(op.logarithm ? "LogSoftmax" : "Softmax", {out.name(i.inputs[0])}, {{"axis", op.axis}})};
}

Names write(Out& out, const Instruction& i, const Normalize& op) {
  const Dims& dims = i.inputs[0].dims();
  Dims inner(dims.begin() + op.axis, dims.end());
  std::string ones = out.add("Expand", {out.scalar(i.inputs[0].dtype(), 1), out.sizes(inner)});
  return {out.add(op.centred ? "LayerNormalization" : "RMSNormalization", {out.name(i.inputs[0]), ones},
                  {{"axis", op.axis}, {"epsilon", static_cast<float>(op.epsilon)}})};
}

Names write(Out& out, const Instruction& i, const TopK& op) {
  return out.add_all("TopK", {out.name(i.inputs[0]), out.sizes({op.k})}, 2,
                     {{"axis", op.axis}, {"largest", int64_t{op.largest}}, {"sorted", int64_t{1}}});
}

/// Returns the name of a factor of a Dot. Leaves out the factor's Broadcast where ONNX broadcasts implicitly.
std::string factor(Out& out, Value value, const Value& other) {
  Value plain = before_broadcast(value);
  bool is_matrix = plain.rank() >= 2 && before_broadcast(other).def == other.def;
  if (!is_matrix) return out.name(value);
  for (int64_t axis = 0; axis < plain.rank() - 2; ++axis)
    if (!(plain.dims()[axis] == Dim(1))) return out.name(plain);
  if (plain.rank() == 2) return out.name(plain);
  Dims matrix(plain.dims().end() - 2, plain.dims().end());
  return out.add("Reshape", {out.name(plain), out.sizes(matrix)});
}

std::string product(Out& out, std::string a, std::string b, DType from, DType to) {
  bool are_bytes = bits(from) == 8 && is_integer(from);
  if (are_bytes && to == DType::i32) return out.add("MatMulInteger", {a, b});
  if (from != to) a = cast(out, a, to), b = cast(out, b, to);
  return out.add("MatMul", {a, b});
}

Names write(Out& out, const Instruction& i, const Dot& op) {
  Value a = i.inputs[0], b = i.inputs[1];
  std::string left = out.name(a), right = out.name(b);
  if (b.def->is<Broadcast>()) right = factor(out, b, a);
  else if (a.def->is<Broadcast>()) left = factor(out, a, b);
  return {product(out, left, right, a.dtype(), op.type)};
}

Names write(Out& out, const Instruction& i, const GroupedDot& op) {
  std::string which = out.add("Max", {out.name(i.inputs[2]), out.scalar(i.inputs[2].dtype(), 0)});
  std::string matrices = out.add("Gather", {out.name(i.inputs[1]), which}, {{"axis", int64_t{0}}});
  return {product(out, out.name(i.inputs[0]), matrices, i.inputs[0].dtype(), op.type)};
}

Names write(Out& out, const Instruction& i, const Gather& op) {
  return {out.add("Gather", all_names(out, i), {{"axis", op.axis}})};
}
Names write(Out& out, const Instruction& i, const GatherElements& op) {
  return {out.add("GatherElements", all_names(out, i), {{"axis", op.axis}})};
}
/// Returns the names of the operands, with the indices (operand 1) converted to i64.
Names with_long_indices(Out& out, const Instruction& i) {
  Names names = all_names(out, i);
  if (i.inputs[1].dtype() != DType::i64) names[1] = cast(out, names[1], DType::i64);
  return names;
}
Names write(Out& out, const Instruction& i, const GatherNd& op) {
  return {out.add("GatherND", with_long_indices(out, i), {{"batch_dims", op.batch}})};
}

std::string scatter_reduction(ScatterFn fn) { return fn == ScatterFn::replace ? "none" : std::string(enum_name(fn)); }
Names write(Out& out, const Instruction& i, const ScatterElements& op) {
  return {out.add("ScatterElements", all_names(out, i), {{"axis", op.axis}, {"reduction", scatter_reduction(op.fn)}})};
}
Names write(Out& out, const Instruction& i, const ScatterNd& op) {
  return {out.add("ScatterND", with_long_indices(out, i), {{"reduction", scatter_reduction(op.fn)}})};
}

Names write(Out& out, const Instruction&, const Iota& op) {
  size_t axis = op.axis;
  std::string row = out.add("Range", {out.scalar(DType::i64, 0), out.size(op.dims[axis]), out.scalar(DType::i64, 1)});
  if (op.type != DType::i64) row = cast(out, row, op.type);
  if (op.dims.size() == 1) return {row};
  Dims column(op.dims.size(), 1);
  column[axis] = op.dims[axis];
  row = out.add("Reshape", {row, out.sizes(column)}, {{"allowzero", int64_t{1}}});
  return {out.add("Expand", {row, out.sizes(op.dims)})};
}

template <class T>
std::string word(T value) {
  return std::string(enum_name(value));
}

Names write(Out& out, const Instruction& i, const Resize& op) {
  if (i.inputs.size() > 1) refuse_export(out.source(), "the scales of a resize are computed");
  if (op.snaps) refuse_export(out.source(), "a resize copies elements along an axis whose open size it keeps");
  Names inputs = {out.name(i.inputs[0]), ""};
  bool has_scales = std::ranges::any_of(op.scales, [](double x) { return x != 0 && x != 1; });
  if (!op.roi.empty()) inputs[1] = out.weight(make_tensor(DType::f32, {std::ssize(op.roi)}, op.roi));
  if (has_scales) {
    std::vector<double> scales = op.scales;
    for (size_t a = 0; a < scales.size(); ++a) {
      if (scales[a] == 0 && !known_equal(op.dims[a], i.inputs[0].dims()[a]))
        refuse_export(out.source(), "a resize has sizes and scales");
    }
    std::ranges::replace(scales, 0.0, 1.0);
    inputs.push_back(out.weight(make_tensor(DType::f32, {std::ssize(scales)}, scales)));
  } else {
    inputs.insert(inputs.end(), {"", out.sizes(op.dims)});
  }
  return {out.add("Resize", inputs,
                  {{"mode", word(op.mode)},
                   {"coordinate_transformation_mode", word(op.coordinates)},
                   {"nearest_mode", word(op.nearest)},
                   {"cubic_coeff_a", static_cast<float>(op.cubic_a)},
                   {"exclude_outside", int64_t{op.exclude_outside}},
                   {"antialias", int64_t{op.antialias}},
                   {"extrapolation_value", static_cast<float>(op.extrapolation)}})};
}

Names write(Out& out, const Instruction& i, const Quantize& op) {
  OutAttributes attributes = {{"axis", op.axis}, {"block_size", op.block}, {"saturate", int64_t{op.saturate}}};
  if (i.inputs.size() < 3) attributes.push_back({"output_dtype", element_code(op.to)});
  return {out.add("QuantizeLinear", all_names(out, i), attributes)};
}
Names write(Out& out, const Instruction& i, const Dequantize& op) {
  return {out.add("DequantizeLinear", all_names(out, i),
                  {{"axis", op.axis}, {"block_size", op.block}, {"output_dtype", element_code(op.to)}})};
}

/// Returns the causal mask, bool[rows, keys]: true at [i, j] if j <= i + offset.
std::string causal_mask(Out& out, const Dim& rows, const Dim& keys, const Dim& offset) {
  auto range = [&](const Dim& count) {
    return out.add("Range", {out.scalar(DType::i64, 0), out.size(count), out.scalar(DType::i64, 1)});
  };
  std::string last = out.add("Unsqueeze", {out.add("Add", {range(rows), out.size(offset)}), out.integers({1})});
  return out.add("LessOrEqual", {range(keys), last});
}

/// Writes an attention whose mask sets scores to a number; the mask of ONNX's Attention sets them to -infinity.
Names selecting_attention(Out& out, const Instruction& i, const Attention& op) {
  if (op.causal || op.softcap > 0 || !known_equal(i.inputs[0].dims()[1], i.inputs[1].dims()[1]))
    refuse_export(out.source(),
                  "an attention, causal, capped or with shared heads, whose mask sets scores to a number");
  Names inputs = all_names(out, i);
  auto number = [&](double x) { return out.scalar(i.inputs[0].dtype(), x); };
  std::string keys = out.add("Transpose", {inputs[1]}, {{"perm", std::vector<int64_t>{0, 1, 3, 2}}});
  std::string scores = out.add("Mul", {out.add("MatMul", {inputs[0], keys}), number(op.scale)});
  scores = out.add("Where", {inputs[3], scores, number(op.hidden)});
  return {out.add("MatMul", {out.add("Softmax", {scores}, {{"axis", int64_t{3}}}), inputs[2]})};
}

Names write(Out& out, const Instruction& i, const Attention& op) {
  if (op.ranged || op.sinks) refuse_export(out.source(), "an attention with sinks or ranges of keys");
  bool has_flags = i.inputs.size() == 4 && i.inputs[3].dtype() == DType::boolean;
  if (has_flags && !std::isinf(op.hidden)) return selecting_attention(out, i, op);
  Names inputs = all_names(out, i);
  bool is_plain = !op.causal || known_equal(op.offset, 0);
  if (!is_plain) {
    std::string seen = causal_mask(out, i.inputs[0].dims()[2], i.inputs[1].dims()[2], op.offset);
    if (inputs.size() == 3) inputs.push_back(seen);
    else if (has_flags) inputs[3] = out.add("And", {inputs[3], seen});
    else inputs[3] = out.add("Where", {seen, inputs[3], out.scalar(i.inputs[3].dtype(), -HUGE_VAL)});
  }
  return {out.add("Attention", inputs,
                  {{"scale", static_cast<float>(op.scale)},
                   {"is_causal", int64_t{op.causal && is_plain}},
                   {"softcap", static_cast<float>(op.softcap)}})};
}

Names write(Out& out, const Instruction&, const Sizes& op) { return {out.sizes(op.dims)}; }
Names write(Out& out, const Instruction&, const Constant& op) { return {out.weight(op.tensor)}; }

Names write(Out& out, const Instruction& i, const Bind& op) {
  for (size_t k = 0; k < op.symbols.size(); ++k)
    out.set_symbol(op.symbols[k].as_symbol()->name, out.name(i.inputs[0]), static_cast<int64_t>(k));
  return {};
}

/// Calls `write` if the operator is one of the types T; returns false otherwise.
template <class... T>
bool write_as(Out& out, const Instruction& i, Names& results) {
  return ((i.is<T>() && (results = write(out, i, *i.as<T>()), true)) || ...);
}

}  // namespace

void write_instruction(Out& out, const Instruction& i) {
  out.set_source(i.source);
  Names results;
  bool is_known =
      write_as<Sizes, Constant, Bind, Elementwise, Convert, Reshape, Transpose, Broadcast, Slice, Pad, Concat, Reduce,
               ArgReduce, Scan, Softmax, Normalize, TopK, Dot, GroupedDot, Attention, Gather, GatherElements, GatherNd,
               ScatterElements, ScatterNd, Iota, Resize, Quantize, Dequantize>(out, i, results) ||
      write_window(out, i, results) || write_control(out, i, results);
  if (!is_known) refuse_export(i.source, cat("ONNX has no operator '", display_name(i.op), "' of Weft"));
  for (size_t k = 0; k < results.size(); ++k) {
    Value value = const_cast<Instruction&>(i).result(static_cast<uint32_t>(k));
    out.set_name(value, results[k]);
    out.learn_symbols(value);
  }
}

}  // namespace weft::onnx
