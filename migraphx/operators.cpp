// SPDX-License-Identifier: Apache-2.0
#include "migraphx/operators.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>

#include "migraphx/attributes.h"
#include "migraphx/handles.h"

namespace weft::mgx {
namespace {

using Numbers = std::vector<int64_t>;

/// The instruction that is being translated.
struct Call {
  Graph& graph;
  const std::string& name;
  Attributes& attributes;
  std::span<const Values> operands;

  size_t count() const { return operands.size(); }
  /// Returns operand `i`; throws if it is missing or a tuple.
  weft_value in(size_t i) const {
    if (i >= operands.size())
      refuse(name + " takes at least " + std::to_string(i + 1) + " operands, " + std::to_string(count()) +
             " are given");
    if (operands[i].size() != 1) refuse("operand " + std::to_string(i) + " of " + name + " is a tuple");
    return operands[i][0];
  }
  void expect(size_t wanted) const {
    if (count() == wanted) return;
    refuse(name + " takes " + std::to_string(wanted) + " operands, " + std::to_string(count()) + " are given");
  }
  ValueType type(weft_value v) const { return type_of(graph, v); }
  int64_t rank(weft_value v) const { return static_cast<int64_t>(type(v).rank()); }

  weft_value op(const std::string& text, std::initializer_list<weft_value> inputs) const {
    return graph.append(text, inputs);
  }
  weft_value convert(weft_value v, const std::string& dtype) const {
    return type(v).dtype == dtype ? v : op("convert {to=" + dtype + ", saturate=true}", {v});
  }
  weft_value broadcast(weft_value v, const std::string& dims) const { return op("broadcast {dims=" + dims + "}", {v}); }
  weft_value reshape(weft_value v, const std::string& dims) const { return op("reshape {dims=" + dims + "}", {v}); }
  /// Returns a constant with the type and sizes of `like`; every element is `value`.
  weft_value number(double value, weft_value like) const {
    char text[40];
    std::snprintf(text, sizeof text, "%.17g", value);
    weft_value scalar = op(std::string("constant {value=f64[]{") + text + "}}", {});
    return broadcast(convert(scalar, type(like).dtype), type(like).list());
  }
  int64_t axis(int64_t given, int64_t rank) const {
    int64_t axis = given < 0 ? given + rank : given;
    if (axis < 0 || axis >= rank)
      refuse("axis " + std::to_string(given) + " of " + name + " lies outside rank " + std::to_string(rank));
    return axis;
  }
};

using Handler = std::function<Values(Call&)>;

// --- elementwise ---------------------------------------------------------------------------------------------------

Handler same(const char* fn, size_t arity) {
  return [fn = std::string(fn), arity](Call& c) -> Values {
    c.expect(arity);
    Values in;
    for (size_t i = 0; i < arity; ++i) in.push_back(c.in(i));
    return {c.graph.append(fn, in)};
  };
}

/// As in MIGraphX, a comparison returns 1 or 0 in the type of its operands.
Handler comparison(const char* fn) {
  return [fn = std::string(fn)](Call& c) -> Values {
    c.expect(2);
    return {c.convert(c.op(fn, {c.in(0), c.in(1)}), c.type(c.in(0)).dtype)};
  };
}

Handler logical(const char* fn, size_t arity) {
  return [fn = std::string(fn), arity](Call& c) -> Values {
    c.expect(arity);
    Values in;
    for (size_t i = 0; i < arity; ++i) in.push_back(c.convert(c.in(i), "bool"));
    return {c.convert(c.graph.append(fn, in), c.type(c.in(0)).dtype)};
  };
}

Values where(Call& c) {
  c.expect(3);
  return {c.op("select", {c.convert(c.in(0), "bool"), c.in(1), c.in(2)})};
}

Values identity(Call& c) {
  c.expect(1);
  return {c.in(0)};
}

Values isinf(Call& c) {
  weft_value x = c.op("abs", {c.in(0)});
  return {c.op("equal", {x, c.number(HUGE_VAL, x)})};
}

Values log2(Call& c) {
  weft_value x = c.op("log", {c.in(0)});
  return {c.op("mul", {x, c.number(1.4426950408889634, x)})};
}

Values leaky_relu(Call& c) {
  weft_value x = c.in(0), scaled = c.op("mul", {x, c.number(c.attributes.real("alpha", 0.01), x)});
  return {c.op("select", {c.op("less", {x, c.number(0, x)}), scaled, x})};
}

Values prelu(Call& c) {
  weft_value x = c.in(0), scaled = c.op("mul", {x, c.in(1)});
  return {c.op("select", {c.op("less", {x, c.number(0, x)}), scaled, x})};
}

Values elu(Call& c) {
  weft_value x = c.in(0), curve = c.op("mul", {c.op("expm1", {x}), c.number(c.attributes.real("alpha", 1), x)});
  return {c.op("select", {c.op("less", {x, c.number(0, x)}), curve, x})};
}

Values squared_difference(Call& c) {
  weft_value d = c.op("sub", {c.in(0), c.in(1)});
  return {c.op("mul", {d, d})};
}

Values clip(Call& c) {
  c.expect(3);
  return {c.op("min", {c.op("max", {c.in(0), c.in(1)}), c.in(2)})};
}

Values convert(Call& c) {
  static const std::vector<std::string> words = {
      "bool_type",        "half_type",      "float_type",   "double_type", "uint8_type",      "int8_type",
      "uint16_type",      "int16_type",     "int32_type",   "int64_type",  "uint32_type",     "uint64_type",
      "fp8e4m3fnuz_type", "fp8e4m3fn_type", "fp8e5m2_type", "bf16_type",   "fp8e5m2fnuz_type"};
  std::string word = c.attributes.choice("target_type", words, "half_type");
  auto number = std::ranges::find(words, word) - words.begin() + migraphx_shape_bool_type;
  return {c.convert(c.in(0), weft_dtype_name(dtype_of(static_cast<migraphx_shape_datatype_t>(number))))};
}

// --- quantisation: scales and zero points have the sizes of the value ------------------------------------------------

Values quantize_linear(Call& c) {
  weft_value x = c.in(0), scale = c.in(1);
  static const std::vector<std::string> words = {"bool_type", "half_type",   "float_type", "double_type", "uint8_type",
                                                 "int8_type", "uint16_type", "int16_type", "int32_type"};
  std::string to = c.count() > 2 ? c.type(c.in(2)).dtype : "i8";
  if (c.attributes.has("out_type")) {
    std::string word = c.attributes.choice("out_type", words, "int8_type");
    auto number = std::ranges::find(words, word) - words.begin() + migraphx_shape_bool_type;
    to = weft_dtype_name(dtype_of(static_cast<migraphx_shape_datatype_t>(number)));
  }
  weft_value steps = c.op("round", {c.op("div", {x, c.convert(scale, c.type(x).dtype)})});
  if (c.count() > 2) steps = c.op("add", {steps, c.convert(c.in(2), c.type(x).dtype)});
  std::map<std::string, std::pair<double, double>> ranges = {{"i8", {-128, 127}},
                                                             {"u8", {0, 255}},
                                                             {"i16", {-32768, 32767}},
                                                             {"u16", {0, 65535}},
                                                             {"i32", {-0x1p31, 0x1p31 - 1}}};
  if (!ranges.contains(to)) refuse("quantizelinear to " + to + " is not supported");
  auto [low, high] = ranges[to];
  steps = c.op("min", {c.op("max", {steps, c.number(low, steps)}), c.number(high, steps)});
  return {c.convert(steps, to)};
}

Values dequantize_linear(Call& c) {
  std::string real = c.type(c.in(1)).dtype;
  weft_value x = c.convert(c.in(0), real);
  if (c.count() > 2) x = c.op("sub", {x, c.convert(c.in(2), real)});
  return {c.op("mul", {x, c.in(1)})};
}

// --- products and windows ------------------------------------------------------------------------------------------

Values dot(Call& c) {
  c.expect(2);
  std::string type = c.name == "quant_dot" ? "i32" : c.type(c.in(0)).dtype;
  return {c.op("dot {type=" + type + "}", {c.in(0), c.in(1)})};
}

/// Returns the padding before and after each axis. The attribute has one number per axis for both sides, or all begins
/// and then all ends.
std::pair<Numbers, Numbers> both_sides(Call& c, size_t spatial) {
  Numbers given = c.attributes.numbers("padding", Numbers(spatial, 0));
  if (given.size() == spatial) return {given, given};
  if (given.size() != 2 * spatial)
    refuse("padding of " + c.name + " has " + std::to_string(given.size()) + " numbers for " + std::to_string(spatial) +
           " axes");
  return {Numbers(given.begin(), given.begin() + static_cast<int64_t>(spatial)),
          Numbers(given.begin() + static_cast<int64_t>(spatial), given.end())};
}

size_t spatial_axes(Call& c) {
  int64_t rank = c.rank(c.in(0));
  if (rank < 3) refuse(c.name + " takes a value of at least 3 axes, not " + std::to_string(rank));
  c.attributes.choice("padding_mode", {"default_"}, "default_");
  return static_cast<size_t>(rank - 2);
}

Values convolution(Call& c) {
  c.expect(2);
  size_t spatial = spatial_axes(c);
  auto [begin, end] = both_sides(c, spatial);
  bool is_transposed = c.name == "convolution_backwards" || c.name == "deconvolution";
  Numbers output = is_transposed ? c.attributes.numbers("output_padding") : Numbers();
  std::string type = c.name == "quant_convolution" ? "i32" : c.type(c.in(0)).dtype;
  return {c.op("convolution {strides=" + list_of(c.attributes.numbers("stride", Numbers(spatial, 1))) + ", dilations=" +
                   list_of(c.attributes.numbers("dilation", Numbers(spatial, 1))) + ", pads_begin=" + list_of(begin) +
                   ", pads_end=" + list_of(end) + ", groups=" + std::to_string(c.attributes.number("group", 1)) +
                   ", transposed=" + (is_transposed ? "true" : "false") + ", output_padding=" + list_of(output) +
                   ", layout=channels_first, type=" + type + "}",
               {c.in(0), c.in(1)})};
}

Values pooling(Call& c) {
  c.expect(1);
  size_t spatial = spatial_axes(c);
  auto [begin, end] = both_sides(c, spatial);
  std::string mode = c.attributes.choice("mode", {"average", "max", "lpnorm"}, "average");
  std::string ones = list_of(Numbers(spatial, 1));
  Numbers lengths = c.attributes.numbers("lengths", Numbers(spatial, 1));
  auto text = [](bool value) { return value ? "true" : "false"; };
  return {c.op("pool {fn=" + (mode == "lpnorm" ? "lp" : mode) + ", kernel=" + list_of(lengths) +
                   ", strides=" + list_of(c.attributes.numbers("stride", Numbers(spatial, 1))) + ", dilations=" +
                   list_of(c.attributes.numbers("dilations", Numbers(spatial, 1))) + ", pads_begin=" + list_of(begin) +
                   ", pads_end=" + list_of(end) + ", round_up=" + text(c.attributes.flag("ceil_mode", false)) +
                   ", count_include_pad=" + text(c.attributes.flag("count_include_pad", false)) + ", p=" +
                   std::to_string(c.attributes.number("lp_order", 2)) + ", indices=false, layout=channels_first}",
               {c.in(0)})};
}

// --- along axes ----------------------------------------------------------------------------------------------------

Handler reduce(const char* fn) {
  return [fn = std::string(fn)](Call& c) -> Values {
    int64_t rank = c.rank(c.in(0));
    Numbers axes = c.attributes.numbers("axes");
    if (axes.empty()) {
      axes.resize(static_cast<size_t>(rank));
      std::iota(axes.begin(), axes.end(), 0);
    }
    for (int64_t& axis : axes) axis = c.axis(axis, rank);
    std::ranges::sort(axes);
    return {c.op("reduce {fn=" + fn + ", axes=" + list_of(axes) + ", keep=true}", {c.in(0)})};
  };
}

Handler arg_reduce(bool is_largest) {
  return [is_largest](Call& c) -> Values {
    int64_t axis = c.axis(c.attributes.number("axis", 0), c.rank(c.in(0)));
    bool is_last = c.attributes.flag("select_last_index", false);
    return {c.op(std::string("arg_reduce {largest=") + (is_largest ? "true" : "false") +
                     ", axis=" + std::to_string(axis) + ", keep=true, last=" + (is_last ? "true" : "false") + "}",
                 {c.in(0)})};
  };
}

Values softmax(Call& c) {
  int64_t axis = c.axis(c.attributes.number("axis", 1), c.rank(c.in(0)));
  return {c.op("softmax {axis=" + std::to_string(axis) + ", log=" + (c.name == "logsoftmax" ? "true" : "false") + "}",
               {c.in(0)})};
}

Values prefix_sum(Call& c) {
  int64_t axis = c.axis(c.attributes.number("axis", 0), c.rank(c.in(0)));
  auto text = [](bool value) { return value ? "true" : "false"; };
  return {c.op("scan {fn=sum, axis=" + std::to_string(axis) +
                   ", exclusive=" + text(c.attributes.flag("exclusive", false)) +
                   ", reverse=" + text(c.attributes.flag("reverse", false)) + "}",
               {c.in(0)})};
}

Values top_k(Call& c) {
  int64_t axis = c.axis(c.attributes.number("axis", 0), c.rank(c.in(0)));
  bool is_largest = c.attributes.flag("largest", true);
  weft_value first = c.op("top_k {k=" + std::to_string(c.attributes.number("k", 1)) + ", axis=" + std::to_string(axis) +
                              ", largest=" + (is_largest ? "true" : "false") + "}",
                          {c.in(0)});
  return {first, {first.instruction, first.result + 1}};
}

Values tuple_element(Call& c) {
  c.expect(1);
  return {item(c.operands[0], static_cast<size_t>(c.attributes.number("index", 0)))};
}

// --- views ---------------------------------------------------------------------------------------------------------

/// Reshapes to `dims`: 0 keeps the operand's size at this axis, -1 is inferred.
Values reshape(Call& c) {
  ValueType type = c.type(c.in(0));
  std::vector<std::string> dims;
  Numbers wanted = c.attributes.numbers("dims");
  for (size_t i = 0; i < wanted.size(); ++i)
    dims.push_back(wanted[i] == 0 && i < type.rank() ? type.dims[i] : std::to_string(wanted[i]));
  auto open = std::ranges::find(wanted, -1);
  if (open != wanted.end()) {
    std::string all = "1", rest = "1";
    for (const std::string& dim : type.dims) all += "*(" + dim + ")";
    for (size_t i = 0; i < dims.size(); ++i)
      if (wanted[i] != -1) rest += "*(" + dims[i] + ")";
    dims[open - wanted.begin()] = "(" + all + ") / (" + rest + ")";
  }
  return {c.reshape(c.in(0), list_of(dims))};
}

Values squeeze(Call& c) {
  ValueType type = c.type(c.in(0));
  Numbers axes = c.attributes.numbers("axes");
  std::vector<std::string> dims;
  for (size_t i = 0; i < type.rank(); ++i) {
    auto is_named = [&](int64_t axis) { return c.axis(axis, int64_t(type.rank())) == int64_t(i); };
    bool is_dropped = axes.empty() ? type.dims[i] == "1" : std::ranges::any_of(axes, is_named);
    if (!is_dropped) dims.push_back(type.dims[i]);
    else if (type.dims[i] != "1") refuse("squeeze of axis " + std::to_string(i) + ", which has size " + type.dims[i]);
  }
  return {c.reshape(c.in(0), list_of(dims))};
}

Values unsqueeze(Call& c) {
  ValueType type = c.type(c.in(0));
  Numbers axes = c.attributes.numbers("axes"), steps = c.attributes.numbers("steps");
  if (!steps.empty()) not_supported("unsqueeze with steps");
  int64_t rank = int64_t(type.rank() + axes.size());
  std::vector<std::string> dims(static_cast<size_t>(rank));
  for (int64_t& axis : axes) dims[c.axis(axis, rank)] = "1";
  auto next = type.dims.begin();
  for (std::string& dim : dims)
    if (dim.empty()) dim = next == type.dims.end() ? "1" : *next++;
  return {c.reshape(c.in(0), list_of(dims))};
}

Values flatten(Call& c) {
  ValueType type = c.type(c.in(0));
  int64_t rank = int64_t(type.rank()), axis = c.attributes.number("axis", 1);
  if (axis < 0) axis += rank;
  if (axis < 0 || axis > rank)
    refuse("axis " + std::to_string(axis) + " of flatten lies outside rank " + std::to_string(rank));
  std::vector<std::string> sizes = {"1", "1"};
  for (size_t i = 0; i < type.rank(); ++i) sizes[int64_t(i) < axis ? 0 : 1] += "*(" + type.dims[i] + ")";
  return {c.reshape(c.in(0), list_of(sizes))};
}

Values transpose(Call& c) {
  return {c.op("transpose {permutation=" + list_of(c.attributes.numbers("permutation")) + "}", {c.in(0)})};
}

/// Broadcasts to `out_lens`: the operand's first axis is axis `axis` of the result.
Values broadcast(Call& c) {
  ValueType type = c.type(c.in(0));
  Numbers out = c.attributes.numbers("out_lens");
  size_t axis = static_cast<size_t>(c.attributes.number("axis", 0));
  if (axis + type.rank() > out.size())
    refuse("broadcast of " + std::to_string(type.rank()) + " axes at " + std::to_string(axis) + " does not fit " +
           list_of(out));
  std::vector<std::string> dims(out.size(), "1");
  std::ranges::copy(type.dims, dims.begin() + int64_t(axis));
  return {c.broadcast(c.reshape(c.in(0), list_of(dims)), list_of(out))};
}

/// Broadcasts to `out_lens`, or to the sizes of a second operand.
Values multibroadcast(Call& c) {
  Numbers out = c.attributes.numbers("out_lens");
  c.attributes.ignore("out_dyn_dims");
  if (c.count() == 1) return {c.broadcast(c.in(0), list_of(out))};
  return {c.broadcast(c.in(0), c.type(c.in(1)).list())};
}

Values scalar(Call& c) { return {c.broadcast(c.in(0), list_of(c.attributes.numbers("scalar_bcst_dims")))}; }

/// Slices the named axes. Negative starts and ends count from the end of the axis; all are clamped to the axis.
Values slice(Call& c) {
  c.expect(1);
  ValueType type = c.type(c.in(0));
  Numbers axes = c.attributes.numbers("axes"), starts = c.attributes.numbers("starts"),
          ends = c.attributes.numbers("ends");
  if (axes.size() != starts.size() || axes.size() != ends.size())
    refuse("slice has axes, starts and ends of different number");
  std::vector<std::string> begin(type.rank(), "0"), size = type.dims;
  for (size_t i = 0; i < axes.size(); ++i) {
    size_t axis = static_cast<size_t>(c.axis(axes[i], int64_t(type.rank())));
    const std::string& whole = type.dims[axis];
    auto place = [&](int64_t at) {
      return at < 0 ? "max(0, " + whole + " - " + std::to_string(-at) + ")"
                    : "min(" + whole + ", " + std::to_string(at) + ")";
    };
    begin[axis] = place(starts[i]);
    size[axis] = "max(0, " + place(ends[i]) + " - " + place(starts[i]) + ")";
  }
  Numbers steps(type.rank(), 1);
  return {c.op("slice {starts=" + list_of(begin) + ", sizes=" + list_of(size) + ", steps=" + list_of(steps) + "}",
               {c.in(0)})};
}

Values step(Call& c) {
  ValueType type = c.type(c.in(0));
  Numbers axes = c.attributes.numbers("axes"), given = c.attributes.numbers("steps"), steps(type.rank(), 1);
  if (axes.size() != given.size()) refuse("step has axes and steps of different number");
  std::vector<std::string> size = type.dims;
  for (size_t i = 0; i < axes.size(); ++i) {
    size_t axis = static_cast<size_t>(c.axis(axes[i], int64_t(type.rank())));
    if (given[i] < 1) refuse("a step of " + std::to_string(given[i]));
    steps[axis] = given[i];
    size[axis] = "(" + size[axis] + " + " + std::to_string(given[i] - 1) + ") / " + std::to_string(given[i]);
  }
  return {c.op("slice {starts=" + list_of(Numbers(type.rank(), 0)) + ", sizes=" + list_of(size) +
                   ", steps=" + list_of(steps) + "}",
               {c.in(0)})};
}

Values reverse(Call& c) {
  ValueType type = c.type(c.in(0));
  Numbers steps(type.rank(), 1);
  std::vector<std::string> starts(type.rank(), "0");
  for (int64_t axis : c.attributes.numbers("axes")) {
    size_t at = static_cast<size_t>(c.axis(axis, int64_t(type.rank())));
    steps[at] = -1, starts[at] = type.dims[at] + " - 1";
  }
  return {c.op("slice {starts=" + list_of(starts) + ", sizes=" + type.list() + ", steps=" + list_of(steps) + "}",
               {c.in(0)})};
}

Values pad(Call& c) {
  size_t rank = c.type(c.in(0)).rank();
  Numbers pads = c.attributes.numbers("pads");
  if (pads.size() != 2 * rank)
    refuse("pads of pad has " + std::to_string(pads.size()) + " numbers for " + std::to_string(rank) + " axes");
  std::string mode = c.attributes.choice("mode", {"constant", "reflect", "edge"}, "constant");
  Numbers before(pads.begin(), pads.begin() + int64_t(rank)), after(pads.begin() + int64_t(rank), pads.end());
  std::string text = "pad {before=" + list_of(before) + ", after=" + list_of(after) + ", mode=" + mode + "}";
  double value = c.attributes.real("value", 0);
  if (mode != "constant") return {c.op(text, {c.in(0)})};
  weft_value fill = c.op("constant {value=f64[]{" + std::to_string(value) + "}}", {});
  return {c.op(text, {c.in(0), c.convert(fill, c.type(c.in(0)).dtype)})};
}

Values concat(Call& c) {
  int64_t axis = c.axis(c.attributes.number("axis", 0), c.rank(c.in(0)));
  Values in;
  for (size_t i = 0; i < c.count(); ++i) in.push_back(c.in(i));
  return {c.graph.append("concat {axis=" + std::to_string(axis) + "}", in)};
}

// --- indices from data ---------------------------------------------------------------------------------------------

Values gather(Call& c) {
  int64_t axis = c.axis(c.attributes.number("axis", 0), c.rank(c.in(0)));
  return {c.op("gather {axis=" + std::to_string(axis) + "}", {c.in(0), c.in(1)})};
}

Values gather_nd(Call& c) {
  return {c.op("gather_nd {batch=" + std::to_string(c.attributes.number("batch_dims", 0)) + "}", {c.in(0), c.in(1)})};
}

Handler scatter(const char* fn) {
  return [fn = std::string(fn)](Call& c) -> Values {
    int64_t axis = c.axis(c.attributes.number("axis", 0), c.rank(c.in(0)));
    if (c.attributes.flag("skip_out_of_bounds", false)) not_supported("scatter with skip_out_of_bounds");
    return {c.op("scatter_elements {axis=" + std::to_string(axis) + ", fn=" + fn + "}", {c.in(0), c.in(1), c.in(2)})};
  };
}

Handler scatter_nd(const char* fn) {
  return [fn = std::string(fn)](Call& c) -> Values {
    return {c.op("scatter_nd {fn=" + fn + "}", {c.in(0), c.in(1), c.in(2)})};
  };
}

const std::map<std::string, Handler>& handlers() {
  static const std::map<std::string, Handler> table = {
      {"abs", same("abs", 1)},
      {"acos", same("acos", 1)},
      {"acosh", same("acosh", 1)},
      {"add", same("add", 2)},
      {"argmax", arg_reduce(true)},
      {"argmin", arg_reduce(false)},
      {"asin", same("asin", 1)},
      {"asinh", same("asinh", 1)},
      {"atan", same("atan", 1)},
      {"atanh", same("atanh", 1)},
      {"bitwise_and", same("bit_and", 2)},
      {"broadcast", broadcast},
      {"ceil", same("ceil", 1)},
      {"clip", clip},
      {"concat", concat},
      {"contiguous", identity},
      {"convert", convert},
      {"convolution", convolution},
      {"convolution_backwards", convolution},
      {"cos", same("cos", 1)},
      {"cosh", same("cosh", 1)},
      {"deconvolution", convolution},
      {"dequantizelinear", dequantize_linear},
      {"div", same("div", 2)},
      {"dot", dot},
      {"elu", elu},
      {"equal", comparison("equal")},
      {"erf", same("erf", 1)},
      {"exp", same("exp", 1)},
      {"flatten", flatten},
      {"floor", same("floor", 1)},
      {"fmod", same("fmod", 2)},
      {"gather", gather},
      {"gathernd", gather_nd},
      {"get_tuple_elem", tuple_element},
      {"greater", comparison("greater")},
      {"identity", identity},
      {"isinf", isinf},
      {"isnan", same("is_nan", 1)},
      {"leaky_relu", leaky_relu},
      {"less", comparison("less")},
      {"log", same("log", 1)},
      {"log2", log2},
      {"logical_and", logical("logical_and", 2)},
      {"logical_or", logical("logical_or", 2)},
      {"logical_xor", logical("logical_xor", 2)},
      {"logsoftmax", softmax},
      {"max", same("max", 2)},
      {"min", same("min", 2)},
      {"mod", same("floor_mod", 2)},
      {"mul", same("mul", 2)},
      {"multibroadcast", multibroadcast},
      {"nearbyint", same("round", 1)},
      {"neg", same("neg", 1)},
      {"not", logical("logical_not", 1)},
      {"pad", pad},
      {"pooling", pooling},
      {"pow", same("pow", 2)},
      {"prefix_scan_sum", prefix_sum},
      {"prelu", prelu},
      {"quant_convolution", convolution},
      {"quant_dot", dot},
      {"quantizelinear", quantize_linear},
      {"recip", same("reciprocal", 1)},
      {"reduce_max", reduce("max")},
      {"reduce_mean", reduce("mean")},
      {"reduce_min", reduce("min")},
      {"reduce_prod", reduce("product")},
      {"reduce_sum", reduce("sum")},
      {"relu", same("relu", 1)},
      {"reshape", reshape},
      {"reverse", reverse},
      {"rsqrt", same("rsqrt", 1)},
      {"scalar", scalar},
      {"scatter_add", scatter("add")},
      {"scatter_max", scatter("max")},
      {"scatter_min", scatter("min")},
      {"scatter_mul", scatter("mul")},
      {"scatter_none", scatter("replace")},
      {"scatternd_add", scatter_nd("add")},
      {"scatternd_max", scatter_nd("max")},
      {"scatternd_min", scatter_nd("min")},
      {"scatternd_mul", scatter_nd("mul")},
      {"scatternd_none", scatter_nd("replace")},
      {"sigmoid", same("sigmoid", 1)},
      {"sign", same("sign", 1)},
      {"sin", same("sin", 1)},
      {"sinh", same("sinh", 1)},
      {"slice", slice},
      {"softmax", softmax},
      {"sqdiff", squared_difference},
      {"sqrt", same("sqrt", 1)},
      {"squeeze", squeeze},
      {"step", step},
      {"sub", same("sub", 2)},
      {"tan", same("tan", 1)},
      {"tanh", same("tanh", 1)},
      {"topk", top_k},
      {"transpose", transpose},
      {"unsqueeze", unsqueeze},
      {"where", where},
  };
  return table;
}

}  // namespace

std::string list_of(const std::vector<std::string>& items) {
  std::string text;
  for (const std::string& item : items) text += (text.empty() ? "" : ", ") + item;
  return "[" + text + "]";
}
std::string list_of(const std::vector<int64_t>& items) {
  std::vector<std::string> strings;
  for (int64_t item : items) strings.push_back(std::to_string(item));
  return list_of(strings);
}

std::string ValueType::list() const { return list_of(dims); }

ValueType type_of(const Graph& graph, weft_value value) {
  std::string text = graph.type(value);
  size_t open = text.find('[');
  if (open == std::string::npos || !text.ends_with(']')) not_supported("a value of type " + text + " is not a tensor");
  ValueType type{.dtype = text.substr(0, open)};
  int depth = 0;
  size_t begin = open + 1;
  for (size_t at = begin; at < text.size(); ++at) {  // commas inside min(a, b) do not separate sizes
    char c = text[at];
    bool is_end = depth == 0 && (c == ',' || c == ']');
    if (is_end && at > begin) type.dims.push_back(text.substr(begin, at - begin));
    if (is_end) begin = at + 1;
    depth += c == '(' ? 1 : c == ')' ? -1 : 0;
  }
  return type;
}

Values append_operator(Graph& graph, const std::string& name, const std::string& attributes,
                       std::span<const Values> operands) {
  auto found = handlers().find(name);
  if (found == handlers().end())
    not_supported("operator '" + name + "' cannot be built by hand here",
                  "docs/migraphx.md lists the operators; models in ONNX may use all of ONNX's");
  Attributes read(name, attributes);
  Call call{graph, name, read, operands};
  Values results = found->second(call);
  read.end();
  return results;
}

std::vector<std::string> operator_names() {
  std::vector<std::string> names;
  for (const auto& [name, handler] : handlers()) names.push_back(name);
  return names;
}

}  // namespace weft::mgx

const char* weft_migraphx_operator(size_t index) {
  static const auto* names = new std::vector<std::string>(weft::mgx::operator_names());
  return index < names->size() ? (*names)[index].c_str() : nullptr;
}
