// SPDX-License-Identifier: Apache-2.0
#include "base/error.h"
#include "lower/lowering.h"
#include "ops/dot.h"

namespace weft {
namespace {

/// Text of {batch stride, head stride, row stride}.
std::string strides_text(KernelBuilder& kernel, const View& view) {
  return cat("{", kernel.size(view.strides[0]), ", ", kernel.size(view.strides[1]), ", ", kernel.size(view.strides[2]),
             "}");
}

/// The kernel reads rows whose elements lie side by side.
View dense_rows(Lowering& lowering, Value value) {
  View view = lowering.view_of(value);
  bool dense = known_equal(view.strides[3], 1) || known_equal(view.dims[3], 1);
  return dense ? view : lowering.contiguous_view_of(value);
}

/// The mask as if it had all four axes: missing and single ones repeat.
View spread_mask(const View& mask, const Dims& dims) {
  View view = mask;
  view.dims = dims;
  view.strides.assign(4, 0);
  size_t added = 4 - mask.dims.size();
  for (size_t i = 0; i < mask.dims.size(); ++i) {
    if (!known_equal(mask.dims[i], 1)) view.strides[added + i] = mask.strides[i];
  }
  return view;
}

/// Lines of the score lambda: scale, soft cap and mask of `W` keys from `key` on.
void emit_score(KernelBuilder& kernel, const Attention& op, const View* mask) {
  kernel.line(
      "    [&]([[maybe_unused]] i64 batch, [[maybe_unused]] i64 head, [[maybe_unused]] i64 query, [[maybe_unused]] i64 "
      "key, auto s, [[maybe_unused]] auto lanes) WEFT_LAMBDA {");
  kernel.line("  using V = Vec<f32, W>;");
  kernel.line("  V score = s * V(", number_text(DType::f32, op.scale), ");");
  if (op.softcap > 0) {
    std::string cap = number_text(DType::f32, op.softcap);
    kernel.line("  score = V(", cap, ") * tanh(score / V(", cap, "));");
  }
  if (mask) {
    std::string at = cat(kernel.buffer(mask->buffer, mask->dtype, false), " + ", kernel.size(mask->offset),
                         " + batch * ", kernel.size(mask->strides[0]), " + head * ", kernel.size(mask->strides[1]),
                         " + query * ", kernel.size(mask->strides[2]));
    std::string stride = kernel.size(mask->strides[3]);
    std::string m = stride == "0"   ? cat("load_uniform<W>(", at, ")")
                    : stride == "1" ? cat("load<W>(", at, " + key, lanes)")
                                    : cat("load_strided<W>(", at, " + key * ", stride, ", ", stride, ", lanes)");
    kernel.line("  const auto m = ", m, ";");
    kernel.line(mask->dtype == DType::boolean ? "  score = select(m, score, V(-__builtin_inff()));"
                                              : "  score = score + convert<f32>(m);");
  }
  kernel.line("  return score;");
  kernel.line("    },");
}

/// How attention_gpu is instantiated: the head size rounded up, keys taken at a time, waves of a block.
struct GpuAttention {
  int d = 0, keys = 0, waves = 0;
};

/// As much as fits in 48 KiB of shared memory: queries, keys, values and scores of a block.
GpuAttention gpu_attention(const Lowering& lowering, const View& q, const View& v) {
  Dim widest = max(q.dims[3], v.dims[3]);
  if (!widest.is_constant() || widest.value() > 256) {
    throw Error({.kind = ErrorKind::unsupported,
                 .code = "E149",
                 .what = cat("attention over heads of ", widest, " has no kernel on a GPU; at most 256")});
  }
  int bytes = bits(q.dtype) / 8, pad = 16 / bytes, d = static_cast<int>((widest.value() + 15) / 16 * 16);
  auto shared = [&](const GpuAttention& a) {
    int rows = a.waves * 16;
    return bytes * ((rows + a.keys) * (d + pad) + (d + rows) * (a.keys + pad));
  };
  for (GpuAttention a : {GpuAttention{d, 64, 4}, {d, 32, 4}, {d, 32, 2}, {d, 16, 2}, {d, 16, 1}}) {
    if (shared(a) <= 48 * 1024) return a;
  }
  internal_error(cat("attention over heads of ", d, " fits in no block of ", lowering.chip()));
}

}  // namespace

void lower_attention(Lowering& lowering, const Region& region) {
  const Instruction& i = *region.anchor;
  const auto& op = *i.as<Attention>();
  View q = dense_rows(lowering, i.inputs[0]), k = dense_rows(lowering, i.inputs[1]),
       v = dense_rows(lowering, i.inputs[2]);
  if (lowering.on_gpu()) {
    DType type = lowering.stored_type(i.inputs[0].dtype());
    for (auto [view, at] : {std::pair{&q, 0}, {&k, 1}, {&v, 2}}) {
      if (view->dtype != type)
        *view =
            lowering.copy_of(*view, i.inputs[static_cast<size_t>(at)], "attention reads operands of one type", type);
    }
  }
  if (q.dtype != k.dtype || q.dtype != v.dtype || bits(q.dtype) > 32 || bits(q.dtype) < 16) {
    throw Error({.kind = ErrorKind::unsupported,
                 .code = "E149",
                 .what = cat("the cpu target has no attention of ", q.dtype, ", ", k.dtype, " and ", v.dtype),
                 .where = i.source});
  }
  Dims scores{q.dims[0], q.dims[1], q.dims[2], k.dims[2]};
  std::optional<View> mask;
  if (i.inputs.size() == 4) mask = spread_mask(lowering.view_of(i.inputs[3]), scores);
  // Heads are mostly merged again: rows of all heads of a position are stored together.
  View out = lowering.new_result({region.anchor, 0}, {0, 2, 1, 3});

  KernelBuilder kernel(lowering.on_gpu() ? "attention_gpu.h" : "attention.h");
  std::string batch = kernel.size(q.dims[0]), heads = kernel.size(q.dims[1]), kv_heads = kernel.size(k.dims[1]),
              queries = kernel.size(q.dims[2]), keys = kernel.size(k.dims[2]), d = kernel.size(q.dims[3]),
              dv = kernel.size(v.dims[3]);
  auto pointer = [&](const View& view) {
    return cat("raw(", kernel.buffer(view.buffer, view.dtype, false), ") + ", kernel.size(view.offset));
  };
  if (!lowering.on_gpu()) kernel.line("constexpr auto tile = native_tile;");
  kernel.line("constexpr int W = ", lowering.on_gpu() ? "1" : "tile.lanes", ";");
  kernel.line("const AttentionSizes s{.batch = ", batch, ", .heads = ", heads, ", .kv_heads = ", kv_heads,
              ", .queries = ", queries, ", .keys = ", keys, ", .d = ", d, ", .dv = ", dv,
              ", .q = ", strides_text(kernel, q), ", .k = ", strides_text(kernel, k),
              ", .v = ", strides_text(kernel, v), "};");
  std::string qp = pointer(q), kp = pointer(k), vp = pointer(v);
  GpuAttention gpu = lowering.on_gpu() ? gpu_attention(lowering, q, v) : GpuAttention{};
  std::string function = lowering.on_gpu() ? cat("attention_gpu<", kernel_type(q.dtype), ", ", gpu.d, ", ", gpu.keys,
                                                 ", ", op.nan_rows, ">")
                                           : cat("attention<tile, ", op.nan_rows, ">");
  kernel.line(function, "(WEFT_LAUNCH, s, ", qp, ", ", kp, ", ", vp, ",");
  std::string last = op.causal ? cat("least(", keys, ", most(query + ", kernel.size(op.offset), " + 1, 0))") : keys;
  kernel.line("    [&](i64, i64, [[maybe_unused]] i64 query) WEFT_LAMBDA { return KeyRange{0, ", last, "}; },");
  emit_score(kernel, op, mask ? &*mask : nullptr);
  kernel.line("    [&](i64 batch, i64 head, i64 query, i64 col, auto v, auto lanes) WEFT_LAMBDA {");
  std::string y = kernel.buffer(out.buffer, out.dtype, true);
  kernel.line("  store(", y, " + batch * ", kernel.size(out.strides[0]), " + head * ", kernel.size(out.strides[1]),
              " + query * ", kernel.size(out.strides[2]), " + col, convert<", kernel_type(out.dtype), ">(v), lanes);");
  kernel.line("});");
  std::string blocks = cat("tasks::attention_blocks(native_tile, ", batch, ", ", kv_heads, ", ", heads, " / most(",
                           kv_heads, ", 1) * ", queries, ", ", keys, ")");
  kernel.set_tasks(cat(blocks, ".tasks"),
                   cat("tasks::attention_scratch_bytes(native_tile, ", blocks, ", ", d, ", ", dv, ")"));
  if (lowering.on_gpu()) {
    Dim rows = *exact_divide(q.dims[1], k.dims[1]) * q.dims[2];
    kernel.set_grid(q.dims[0] * k.dims[1] * ceildiv(rows, 16 * gpu.waves), gpu.waves * lowering.wave());
  }
  PlanStep step = kernel.finish(lowering.plan(), cat("attention_", q.dtype));
  step.flops = product(scores) * (q.dims[3] + v.dims[3]) * Dim(2);
  lowering.add_step(std::move(step), "scores are never stored");
}

}  // namespace weft
