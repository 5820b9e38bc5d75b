// SPDX-License-Identifier: Apache-2.0
#include "frontends/onnx/export/windows.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "frontends/onnx/file/writer.h"
#include "ops/dot.h"

namespace weft::onnx {
namespace {

/// Transposes x from `layout` to ONNX's layout, which is channels first, or with `is_back` back to `layout`.
std::string permuted(Out& out, const std::string& x, Layout layout, int64_t rank, bool is_back) {
  if (layout == Layout::channels_first) return x;
  std::vector<int64_t> order = {0, rank - 1};
  for (int64_t axis = 1; axis + 1 < rank; ++axis) order.push_back(axis);
  if (is_back) {
    order = {0};
    for (int64_t axis = 2; axis < rank; ++axis) order.push_back(axis);
    order.push_back(1);
  }
  return out.add("Transpose", {x}, {{"perm", order}});
}

/// The attribute `pads`: the padding before each axis, then the padding after each axis; 0 for unknown padding.
struct Pads {
  std::vector<int64_t> numbers;
  bool are_known = true;  ///< all numbers are known and at least 0, as the attribute requires
};

Pads pads_of(const Dims& begin, const Dims& end) {
  Pads pads;
  for (const Dims* side : {&begin, &end}) {
    for (const Dim& dim : *side) {
      pads.are_known = pads.are_known && dim.is_constant() && dim.value() >= 0;
      pads.numbers.push_back(dim.is_constant() ? dim.value() : 0);
    }
  }
  return pads;
}

/// Pads x [batch, channels, spatial...] by a Pad node, for padding that the attribute cannot express.
std::string padded(Out& out, const std::string& x, const Dims& begin, const Dims& end, const std::string& fill) {
  Dims all = {0, 0};
  all.insert(all.end(), begin.begin(), begin.end());
  all.insert(all.end(), {0, 0});
  all.insert(all.end(), end.begin(), end.end());
  return out.add("Pad", {x, out.sizes(all), fill});
}

Names write(Out& out, const Instruction& i, const Convolution& op) {
  DType from = i.inputs[0].dtype();
  if (!is_float(from)) refuse_export(out.source(), cat("a convolution of ", from));
  Names inputs = {permuted(out, out.name(i.inputs[0]), op.layout, i.inputs[0].rank(), false), out.name(i.inputs[1])};
  if (from != op.type)
    for (std::string& input : inputs) input = out.add("Cast", {input}, {{"to", element_code(op.type)}});
  auto [pads, are_known] = pads_of(op.pads_begin, op.pads_end);
  if (!are_known) {
    if (op.transposed) refuse_export(out.source(), "a transposed convolution whose padding is computed");
    inputs[0] = padded(out, inputs[0], op.pads_begin, op.pads_end, out.scalar(op.type, 0));
    std::ranges::fill(pads, 0);
  }
  OutAttributes attributes = {
      {"strides", op.strides}, {"dilations", op.dilations}, {"pads", pads}, {"group", op.groups}};
  if (!op.output_padding.empty()) attributes.push_back({"output_padding", op.output_padding});
  std::string y = out.add(op.transposed ? "ConvTranspose" : "Conv", inputs, attributes);
  return {permuted(out, y, op.layout, i.inputs[0].rank(), true)};
}

Names write(Out& out, const Instruction& i, const Pool& op) {
  constexpr std::string_view ops[] = {"MaxPool", "AveragePool", "LpPool"};
  int64_t rank = i.inputs[0].rank();
  std::string x = permuted(out, out.name(i.inputs[0]), op.layout, rank, false);
  auto [pads, are_known] = pads_of(op.pads_begin, op.pads_end);
  if (!are_known) {
    bool may_pad = !op.round_up && !op.indices && (op.fn != PoolFn::average || op.count_include_pad);
    if (!may_pad) refuse_export(out.source(), "pooling whose padding is computed");
    x = padded(out, x, op.pads_begin, op.pads_end,
               out.scalar(i.inputs[0].dtype(), op.fn == PoolFn::max ? -HUGE_VAL : 0));
    std::ranges::fill(pads, 0);
  }
  OutAttributes attributes = {{"kernel_shape", op.kernel},
                              {"strides", op.strides},
                              {"dilations", op.dilations},
                              {"pads", pads},
                              {"ceil_mode", int64_t{op.round_up}}};
  if (op.fn == PoolFn::average) attributes.push_back({"count_include_pad", int64_t{op.count_include_pad}});
  if (op.fn == PoolFn::lp) attributes.push_back({"p", op.p});
  Names results = out.add_all(ops[static_cast<size_t>(op.fn)], {x}, op.indices ? 2 : 1, attributes);
  for (std::string& result : results) result = permuted(out, result, op.layout, rank, true);
  return results;
}

}  // namespace

bool write_window(Out& out, const Instruction& i, Names& results) {
  if (const auto* convolution = i.as<Convolution>()) return results = write(out, i, *convolution), true;
  if (const auto* pool = i.as<Pool>()) return results = write(out, i, *pool), true;
  return false;
}

}  // namespace weft::onnx
