// SPDX-License-Identifier: Apache-2.0
#include "lower/gpu/library.h"

#include <algorithm>

#include "base/error.h"
#include "lower/gpu/products.h"
#include "lower/product.h"
#include "lower/window.h"
#include "ops/elementwise.h"
#include "ops/views.h"

namespace weft {

static bool is_library_type(DType type) { return type == DType::f32 || type == DType::f16 || type == DType::bf16; }

/// True if the view starts at a constant offset aligned to 16 bytes, as libraries require.
static bool begins_well(const View& view) {
  return view.offset.is_constant() && view.offset.is_multiple_of(tasks::vector_bits / bits(view.dtype));
}

/// Adds a library call; `operands`: the inputs, then the output.
static void add_call(Lowering& lowering, LibraryCall call, const std::vector<View>& operands, const Dim& flops,
                     std::string reason) {
  View memory = lowering.new_packed(DType::u8, library_workspace, false, "working memory of a library");
  LibraryStep use{.call = std::move(call)};
  PlanStep step{.flops = flops};
  for (const View& operand : operands) {
    step.buffers.push_back(operand.buffer);
    use.offsets.push_back(operand.offset.value() * bits(operand.dtype) / 8);
  }
  step.buffers.push_back(memory.buffer);
  step.outputs = {operands.back().buffer, memory.buffer};
  step.action = std::move(use);
  lowering.add_step(std::move(step), std::move(reason), false);
}

// --- products --------------------------------------------------------------------------------------------------------

std::vector<LibraryOffer> product_offers(const Lowering& lowering, const Region& region, const Product& p, DType type) {
  const std::string& library = lowering.libraries().products;
  if (library.empty() || !is_library_type(type) || lowering.is_load_time({region.anchor, 0})) return {};
  Batch batch = leading(p.a, p.batch_axes);
  std::vector<Dims> strides{batch.strides, leading(p.b, p.batch_axes).strides};
  if (p.batch_axes > 0) collapse_axes(batch.dims, strides);
  else strides = {{0}, {0}};
  Dims sizes{p.batch, p.m, p.n, p.k}, others{row_stride(p), p.b.strides.back(), p.a.offset, p.b.offset};
  bool is_one = strides[0].size() == 1 && all_constant(strides[0]) && all_constant(strides[1]);
  if (!is_one || !all_constant(sizes) || !all_constant(others)) return {};
  if (std::ranges::any_of(sizes, [](const Dim& size) { return size.value() < 1; })) return {};
  LibraryProduct work{.type = type,
                      .batch = p.batch.value(),
                      .m = p.m.value(),
                      .n = p.n.value(),
                      .k = p.k.value(),
                      .a_row = others[0].value(),
                      .b_row = others[1].value(),
                      .a_batch = strides[0][0].value(),
                      .b_batch = strides[1][0].value()};
  return {{.name = library, .call = {.library = library, .work = work}}};
}

void lower_library_product(Lowering& lowering, const Region& region, const Product& p, const LibraryOffer& offer) {
  View view = lowering.new_packed(DType::f32, p.batch * p.m * p.n, false, cat("sums of ", region.anchor->source));
  Dim flops = p.batch * p.m * p.n * p.k * Dim(2);
  add_call(lowering, offer.call, {p.a, p.b, view}, flops, "the vendor's library");
  SplitKSums sums{.view = view, .type = DType::f32, .batch = p.batch, .m = p.m, .n = p.n, .parts = 1};
  add_parts(lowering, region, sums, result_iteration(region.dims, p), p.order);
}

// --- convolutions ----------------------------------------------------------------------------------------------------

namespace {

/// True if the value is one float per channel, known when the program is loaded.
bool is_bias(Lowering& lowering, Value value) {
  if (!lowering.is_load_time(value) || !is_float(value.dtype())) return false;
  View view = lowering.view_of(value);
  for (size_t axis = 0; axis + 1 < view.dims.size(); ++axis) {
    if (!known_equal(view.strides[axis], 0) && !known_equal(view.dims[axis], 1)) return false;
  }
  return all_constant({view.dims.back(), view.strides.back(), view.offset});
}

/// Returns the epilogue in the library's terms; nothing if the library does not support it.
std::optional<ConvolutionEpilogue> epilogue_of(Lowering& lowering, const Region& region) {
  ConvolutionEpilogue e;
  Value at = region.anchor->result();
  for (Instruction* i : region.epilogue) {
    const auto* op = i->as<Elementwise>();
    bool reads = op && !e.has_relu && std::ranges::count(i->inputs, at) == 1;
    if (!reads || (op->fn != Fn::add && op->fn != Fn::relu)) return std::nullopt;
    if (op->fn == Fn::relu) {
      e.has_relu = true;
    } else {
      Value with = i->inputs[0] == at ? i->inputs[1] : i->inputs[0];
      bool may_be_bias = !e.bias && !e.other && is_bias(lowering, with);
      if (!may_be_bias && e.other) return std::nullopt;
      (may_be_bias ? e.bias : e.other) = with;
    }
    at = i->result();
  }
  return region.outputs == std::vector<Value>{at} ? std::optional(e) : std::nullopt;
}

/// True if new_result stores the value in dense memory of its own as `type`.
bool is_written_as(const Lowering& lowering, Value value, DType type) {
  auto goes_apart = [](const Instruction* user) {
    auto is_concat = [](const Instruction* i) { return i->is<Concat>(); };
    return is_concat(user) || (user->is<Reshape>() && std::ranges::any_of(user->users, is_concat));
  };
  DType stored = lowering.slot_of(value) ? value.dtype() : lowering.stored_type(value.dtype());
  return stored == type && std::ranges::none_of(value.def->users, goes_apart);
}

/// True if the library can read the view without a copy.
bool is_dense(const View& view, DType type) { return view.dtype == type && is_contiguous(view) && begins_well(view); }

/// Returns the part of the region that the library call computes.
Region part_of(const Region& region, const LibraryOffer& offer) {
  Region part = region;
  if (!offer.does_epilogue) part.epilogue.clear(), part.outputs = {region.anchor->result()};
  return part;
}

View bias_operand(Lowering& lowering, Value value) {
  View from = lowering.view_of(value);
  View one{from.buffer, from.dtype, {from.dims.back()}, {from.strides.back()}, from.offset};
  bool is_ready = from.dtype == DType::f32 && known_equal(one.strides[0], 1) && known_equal(one.offset, 0);
  return is_ready ? one : lowering.copy_of(one, value, "a number for each channel", DType::f32);
}

}  // namespace

std::string epilogue_text(Lowering& lowering, const Region& region) {
  if (region.epilogue.empty()) return "";
  auto e = epilogue_of(lowering, region);
  if (!e) return " kernel";
  return cat(e->bias ? " bias" : "", e->other ? " other" : "", e->has_relu ? " relu" : "");
}

std::vector<LibraryOffer> convolution_offers(Lowering& lowering, const Region& region, const Window& w,
                                             const DirectConvolution& c) {
  const VendorLibraries& libraries = lowering.libraries();
  bool is_usual = is_library_type(c.type) && !w.transposed && region.anchor->inputs.size() == 2 && begins_well(c.x);
  if (libraries.convolutions.empty() || !is_usual || lowering.is_load_time(region.anchor->result())) return {};
  LibraryConvolution alone{.type = c.type,
                           .batch = w.batch,
                           .groups = w.groups,
                           .channels_in = w.channels_in,
                           .channels_out = w.channels_out,
                           .in = w.in,
                           .out = w.out,
                           .kernel = w.kernel,
                           .stride = w.stride,
                           .dilation = w.dilation,
                           .pad = w.pad,
                           .pixel = w.pixel};
  LibraryConvolution fused = alone;
  auto e = epilogue_of(lowering, region);
  bool is_alone = region.epilogue.empty();
  if (e) fused.has_bias = bool(e->bias), fused.has_other = bool(e->other), fused.has_relu = e->has_relu;
  bool fuses = e && (libraries.fuses || is_alone) && is_written_as(lowering, region.outputs[0], c.type);
  if (fuses && e->other) fuses = is_dense(lowering.view_of(e->other), c.type);
  std::vector<LibraryOffer> offers;
  const std::string& name = libraries.convolutions;
  if (fuses) offers.push_back({is_alone ? name : cat(name, " fused"), {.library = name, .work = fused}, true});
  if (!is_alone && is_written_as(lowering, region.anchor->result(), c.type))
    offers.push_back({name, {.library = name, .work = alone}, false});
  return offers;
}

void lower_library_convolution(Lowering& lowering, const Region& region, const DirectConvolution& c,
                               const LibraryOffer& offer, const std::function<PlanStep(const Region&)>& spare) {
  const auto& work = std::get<LibraryConvolution>(offer.call.work);
  Region part = part_of(region, offer);
  std::vector<View> operands{c.x, c.weights};
  if (auto e = epilogue_of(lowering, part); e) {
    if (e->bias) operands.push_back(bias_operand(lowering, e->bias));
    if (e->other) operands.push_back(lowering.view_of(e->other));
  }
  std::optional<PlanStep> instead;
  if (offer.call.has_symbols()) instead = spare(part);
  View y = instead ? lowering.view_of(part.outputs[0]) : lowering.new_result(part.outputs[0]);
  check(is_dense(y, c.type), "a library writes to a place of its own");
  operands.push_back(y);
  Dim flops = product(work.out) * work.batch * work.groups * work.channels_out * work.channels_in *
              product(work.kernel) * Dim(2);
  std::string with = epilogue_text(lowering, part);
  add_call(lowering, offer.call, operands, flops, cat("the vendor's library", with.empty() ? "" : " with", with));
  if (instead) {
    launch_of(*instead).is_spare = true;
    lowering.add_step(std::move(*instead), "for sizes that the library does not support");
  }
  if (part.outputs == region.outputs) return;
  Region rest{.epilogue = region.epilogue, .dims = region.dims, .outputs = region.outputs};
  std::erase(rest.outputs, region.anchor->result());
  lower_pointwise(lowering, rest);
}

}  // namespace weft
