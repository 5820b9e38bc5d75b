// SPDX-License-Identifier: Apache-2.0
#include "base/error.h"
#include "lower/cpu/mac.h"
#include "lower/gpu/products.h"
#include "lower/lowering.h"
#include "ops/dot.h"

namespace weft {
namespace {

/// Returns the text {batch stride, head stride, row stride}.
std::string strides_text(KernelBuilder& kernel, const View& view) {
  return cat("{", kernel.size(view.strides[0]), ", ", kernel.size(view.strides[1]), ", ", kernel.size(view.strides[2]),
             "}");
}

/// Returns an operand's view with stride 1 along the last axis, as the kernel requires; copies it if necessary.
View dense_rows(Lowering& lowering, Value value) {
  View view = lowering.view_of(value);
  bool dense = known_equal(view.strides[3], 1) || known_equal(view.dims[3], 1);
  return dense ? view : lowering.contiguous_view_of(value);
}

/// Broadcasts the mask to all four axes: missing axes and axes of size 1 get stride 0.
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

/// True if an even key has its mask element at an even offset, so that two keys can be loaded as an aligned pair.
bool has_even_rows(const View& mask) {
  bool even = mask.offset.is_multiple_of(2);
  for (size_t axis = 0; axis < 3; ++axis) even &= mask.strides[axis].is_multiple_of(2);
  return even;
}

/// Emits the lambda that returns a query's KeyRange: its keys, all before `last`, and its attention sink's score.
void emit_keys(Lowering& lowering, KernelBuilder& kernel, const Instruction& i, const std::string& last) {
  const auto& op = *i.as<Attention>();
  kernel.line(
      "    [&]([[maybe_unused]] i64 batch, [[maybe_unused]] i64 head, [[maybe_unused]] i64 query) WEFT_LAMBDA {");
  std::string begin = "0", end = last, sink;
  if (op.ranged) {
    View view = lowering.view_of(i.inputs.back());
    begin = cat(kernel.buffer(view.buffer, DType::i64, false), "[", kernel.size(view.offset), " + batch * ",
                kernel.size(view.strides[0]), " + query * ", kernel.size(view.strides[1]));
    end = cat("least(", last, ", ", begin, " + ", kernel.size(view.strides[2]), "])");
    begin += "]";
  }
  if (op.sinks) {
    View view = lowering.view_of(i.inputs[op.sinks_at(i.inputs.size())]);
    sink = cat(", convert<f32>(load_uniform<1>(", kernel.buffer(view.buffer, view.dtype, false), " + ",
               kernel.size(view.offset), " + head * ", kernel.size(view.strides[0]), "))");
  }
  kernel.line("  return KeyRange{", begin, ", ", end, sink, "};");
  kernel.line("    },");
}

/// Emits the score lambda for `W` keys from `key` on: multiplies by the scale if `scale`, then applies soft cap and
/// mask. `load` is the function that reads the mask as one vector.
void emit_score(KernelBuilder& kernel, const Attention& op, const View* mask, bool scale, const std::string& load) {
  kernel.line(
      "    [&]([[maybe_unused]] i64 batch, [[maybe_unused]] i64 head, [[maybe_unused]] i64 query, [[maybe_unused]] i64 "
      "key, auto s, [[maybe_unused]] auto lanes) WEFT_LAMBDA {");
  kernel.line("  using V = Vec<f32, W>;");
  kernel.line("  V score = s", scale ? cat(" * V(", number_text(DType::f32, op.scale), ")") : "", ";");
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
                    : stride == "1" ? cat(load, "<W>(", at, " + key, lanes)")
                                    : cat("load_strided<W>(", at, " + key * ", stride, ", ", stride, ", lanes)");
    kernel.line("  const auto m = ", m, ";");
    kernel.line(mask->dtype == DType::boolean
                    ? cat("  score = select(m, score, V(", number_text(DType::f32, op.hidden), "));")
                    : "  score = score + convert<f32>(m);");
  }
  kernel.line("  return score;");
  kernel.line("    },");
}

/// Parameters of a GPU attention kernel: padded head size, keys per step, waves of a block; then parameters of the
/// kernels attention_groups (group_attention) and attention_few (few_attention).
struct GpuAttention {
  int d = 0, keys = 0, waves = 0;
  int groups = 0, split = 1, occupancy = 0;  ///< warp groups; blocks that share the keys; blocks per compute unit
  int few = 0;                               ///< query rows of the kernel attention_few or attention_mma
  bool mma = false;                          ///< attention_mma
  int rows() const {
    return few > 0 ? few : groups > 0 ? tasks::attention_group_rows * groups : tasks::attention_wave_rows * waves;
  }
  int shared_bytes() const { return groups > 0 ? tasks::attention_group_bytes(d, groups, split) : 0; }
  std::string header() const { return mma ? "attention_mma.h" : few > 0 ? "attention_few.h" : "attention_gpu.h"; }
  std::string function(DType type, bool nan_rows, bool causal) const {
    if (few > 0)
      return cat(mma ? "attention_mma<" : "attention_few<", kernel_type(type), ", ", d, ", ", few, ", ", split, ", ",
                 nan_rows, ">");
    if (groups > 0) {
      bool in_turns = groups == 2 && d == 64 && !causal;  // slower in other cases, on an H200
      return cat("attention_groups<", kernel_type(type), ", ", d, ", ", groups, ", ", split, ", ", nan_rows, ", ",
                 in_turns, ">");
    }
    return cat("attention_gpu<", kernel_type(type), ", ", d, ", ", keys, ", ", nan_rows, ">");
  }
};

/// True if rows start at multiples of 8 elements and have whole groups of 8, so that 16-byte copies are aligned.
bool has_whole_rows(const View& view) {
  bool whole = view.dims[3].is_multiple_of(8) && view.offset.is_multiple_of(8);
  for (size_t axis = 0; axis < 3; ++axis) whole &= view.strides[axis].is_multiple_of(8);
  return whole;
}

Dim rows_of_a_key_head(const View& q, const View& k) { return *exact_divide(q.dims[1], k.dims[1]) * q.dims[2]; }

/// Returns the number of blocks of a cluster that share the keys (Flash-Decoding): above 1 only if `blocks` would leave
/// compute units idle. Each block gets at least `fewest` keys.
int key_split(const Lowering& lowering, int64_t blocks, const View& k, int64_t fewest) {
  int64_t keys = k.dims[2].is_constant() ? k.dims[2].value() : 512;  // unknown for a growing cache: assumes 512
  int split = 1;
  while (split < 8 && blocks * split * 2 <= lowering.compute_units() && keys >= fewest * split * 2) split *= 2;
  return split;
}

/// Returns the kernel for few query rows per key-value head, as in text generation. Returns nothing if there are more
/// rows than the chip's registers hold (GpuModel::short_rows, wide_rows), or for symbolic, wide or unaligned rows.
std::optional<GpuAttention> few_attention(const Lowering& lowering, const View& q, const View& k, const View& v) {
  int64_t most = bits(q.dtype) <= 16 ? lowering.gpu().short_rows : lowering.gpu().wide_rows;
  Dim widest = max(q.dims[3], v.dims[3]), rows = rows_of_a_key_head(q, k);
  if (!widest.is_constant() || !rows.is_constant() || rows.value() < 1 || rows.value() > most) return std::nullopt;
  if (!has_whole_rows(q) || !has_whole_rows(k) || !has_whole_rows(v)) return std::nullopt;
  GpuAttention a{.d = 64, .waves = tasks::block_threads / lowering.gpu().wave, .few = 1};
  while (a.d < widest.value()) a.d *= 2;
  while (a.few < rows.value()) a.few *= 2;
  if (a.d * bits(q.dtype) / tasks::vector_bits > lowering.gpu().wave || a.d > 256) return std::nullopt;
  if (a.few * a.d > 1024) a.waves /= 2;  // limits the shared memory of a block
  int64_t blocks = typical_size(q.dims[0] * k.dims[1]);
  if (lowering.gpu().warp_groups) a.split = key_split(lowering, blocks, k, 32);
  bool is_short = q.dtype == DType::f16 || q.dtype == DType::bf16;
  a.mma = lowering.gpu().matrix == MatrixUnit::mma && is_short && a.d <= 128;
  return a;
}

/// Returns the kernel of warp groups, if possible. Two groups of a block share the keys, unless that leaves compute
/// units idle or adds over a seventh of empty rows. If there are few blocks, the keys are split among more blocks.
std::optional<GpuAttention> group_attention(const Lowering& lowering, const View& q, const View& k, const View& v) {
  bool narrow = q.dtype == DType::f16 || q.dtype == DType::bf16;
  Dim widest = max(q.dims[3], v.dims[3]), rows = rows_of_a_key_head(q, k);
  bool fits = widest.is_constant() && widest.value() <= 128;
  if (!lowering.gpu().warp_groups || !narrow || !fits) return std::nullopt;
  if (!has_whole_rows(q) || !has_whole_rows(k) || !has_whole_rows(v)) return std::nullopt;
  auto blocks = [&](int groups) {
    return typical_size(q.dims[0] * k.dims[1] * ceildiv(rows, tasks::attention_group_rows * groups));
  };
  bool is_short = widest.value() <= 64,
       has_empty_rows = 7 * 2 * blocks(2) > 8 * blocks(1);  // blocks of two groups have over a seventh more rows
  GpuAttention a{.d = is_short ? 64 : 128, .groups = has_empty_rows || blocks(2) < lowering.compute_units() ? 1 : 2};
  a.waves = 4 * (a.groups + 1);
  a.occupancy = a.groups == 1 && is_short ? 2 : 1;
  if (a.groups == 1) a.split = key_split(lowering, blocks(1), k, 64);
  return a;
}

/// Returns few_attention or group_attention if one is possible, else attention_gpu with the largest tile that fits.
GpuAttention gpu_attention(const Lowering& lowering, const View& q, const View& k, const View& v) {
  if (auto few = few_attention(lowering, q, k, v)) return *few;
  if (auto groups = group_attention(lowering, q, k, v)) return *groups;
  Dim widest = max(q.dims[3], v.dims[3]);
  int most = tasks::attention_widest_head(bits(q.dtype));
  if (!widest.is_constant() || widest.value() > most) {
    throw Error({.kind = ErrorKind::unsupported,
                 .code = "E149",
                 .what = cat("attention over heads of ", widest, " has no kernel on a GPU; at most ", most)});
  }
  int bytes = bits(q.dtype) / 8, d = static_cast<int>((widest.value() + 15) / 16 * 16);
  constexpr std::pair<int, int> choices[] = {{64, 4}, {32, 4}, {32, 2}, {16, 2}, {tasks::attention_least_keys, 1}};
  int max_keys = bytes == 2 ? lowering.gpu().short_keys : 64;
  for (auto [keys, waves] : choices) {
    GpuAttention a{.d = d, .keys = keys, .waves = waves};
    int memory = bytes * tasks::attention_elements(a.rows(), keys, d, tasks::vector_bits / bits(q.dtype));
    if (keys <= max_keys && memory <= tasks::attention_memory) return a;
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
        *view = lowering.copy_of(*view, i.inputs[at], "attention reads operands of one type", type);
    }
  }
  auto is_known = [](DType type) { return is_float(type) && bits(type) <= 32 && bits(type) >= 16; };
  if (!is_known(q.dtype) || !is_known(k.dtype) || !is_known(v.dtype)) {
    throw Error({.kind = ErrorKind::unsupported,
                 .code = "E149",
                 .what = cat("there is no kernel for attention of ", q.dtype, ", ", k.dtype, " and ", v.dtype),
                 .where = i.source});
  }
  Dims scores{q.dims[0], q.dims[1], q.dims[2], k.dims[2]};
  std::optional<View> mask;
  if (op.has_mask(i.inputs.size())) mask = spread_mask(lowering.view_of(i.inputs[3]), scores);
  // Stores rows of all heads of a position together, because a transpose that merges the heads usually follows.
  View out = lowering.new_result({region.anchor, 0}, {0, 2, 1, 3});

  GpuAttention gpu = lowering.on_gpu() ? gpu_attention(lowering, q, k, v) : GpuAttention{};
  bool same = q.dtype == k.dtype && q.dtype == v.dtype;
  Mac mac = attention_mac(lowering, same ? q.dtype : DType::f32);
  KernelBuilder kernel(lowering.on_gpu() ? gpu.header() : "attention.h");
  std::string batch = kernel.size(q.dims[0]), heads = kernel.size(q.dims[1]), kv_heads = kernel.size(k.dims[1]),
              queries = kernel.size(q.dims[2]), keys = kernel.size(k.dims[2]), d = kernel.size(q.dims[3]),
              dv = kernel.size(v.dims[3]);
  auto pointer = [&](const View& view) {
    return cat("raw(", kernel.buffer(view.buffer, view.dtype, false), ") + ", kernel.size(view.offset));
  };
  if (!lowering.on_gpu()) {
    mac.share(kernel);
    kernel.line("constexpr auto tile = ", mac.tile_name, ";");
  }
  kernel.line("constexpr int W = ", !lowering.on_gpu() ? "tile.lanes" : gpu.groups > 0 ? "2" : "1", ";");
  kernel.line("const AttentionSizes s{.batch = ", batch, ", .heads = ", heads, ", .kv_heads = ", kv_heads,
              ", .queries = ", queries, ", .keys = ", keys, ", .d = ", d, ", .dv = ", dv,
              ", .q = ", strides_text(kernel, q), ", .k = ", strides_text(kernel, k),
              ", .v = ", strides_text(kernel, v), "};");
  std::string qp = pointer(q), kp = pointer(k), vp = pointer(v);
  std::string function = lowering.on_gpu() ? gpu.function(q.dtype, op.nan_rows, op.causal)
                                           : cat("attention<", mac.name, ", tile, ", op.nan_rows, ">");
  // Without soft cap, mask and sinks, the kernel of warp groups multiplies by a positive scale inside the exponential.
  bool scale_apart = gpu.groups > 0 && op.softcap <= 0 && !mask && !op.sinks && op.scale > 0;
  constexpr double log2e = 1.4426950408889634;
  std::string factor =
      gpu.groups == 0 ? "" : cat(number_text(DType::f32, scale_apart ? op.scale * log2e : log2e), ", ");
  kernel.line(function, "(WEFT_LAUNCH, s, ", factor, qp, ", ", kp, ", ", vp, ",");
  std::string last = op.causal ? cat("least(", keys, ", most(query + ", kernel.size(op.offset), " + 1, 0))") : keys;
  emit_keys(lowering, kernel, i, last);
  emit_score(kernel, op, mask ? &*mask : nullptr, !scale_apart,
             gpu.groups > 0 && mask && has_even_rows(*mask) ? "load_whole" : "load");
  kernel.line("    [&](i64 batch, i64 head, i64 query, i64 col, auto v, auto lanes) WEFT_LAMBDA {");
  std::string y = kernel.buffer(out.buffer, out.dtype, true);
  kernel.line("  store", gpu.groups > 0 && has_whole_rows(out) ? "_whole(" : "(", y, " + batch * ",
              kernel.size(out.strides[0]), " + head * ", kernel.size(out.strides[1]), " + query * ",
              kernel.size(out.strides[2]), " + col, convert<", kernel_type(out.dtype), ">(v), lanes);");
  kernel.line("});");
  std::string blocks = cat("tasks::attention_blocks(", mac.tile_name, ", ", batch, ", ", kv_heads, ", ", heads,
                           " / most(", kv_heads, ", 1) * ", queries, ", ", keys, ")");
  kernel.set_tasks(cat(blocks, ".tasks"),
                   cat("tasks::attention_scratch_bytes(", mac.tile_name, ", ", blocks, ", ", d, ", ", dv, ")"));
  if (lowering.on_gpu()) {
    Dim blocks = q.dims[0] * k.dims[1] * ceildiv(rows_of_a_key_head(q, k), gpu.rows()) * Dim(gpu.split);
    if (gpu.groups > 0 && gpu.split == 1) blocks = min(blocks, lowering.compute_units() * gpu.occupancy);
    kernel.set_grid(blocks, gpu.waves * lowering.gpu().wave, gpu.shared_bytes(), gpu.split);
    kernel.set_occupancy(gpu.occupancy);
  }
  PlanStep step = kernel.finish(lowering.plan(), cat("attention_", q.dtype));
  step.flops = product(scores) * (q.dims[3] + v.dims[3]) * Dim(2);
  lowering.add_step(std::move(step), "scores are never stored");
}

}  // namespace weft
