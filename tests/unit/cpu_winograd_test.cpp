// SPDX-License-Identifier: Apache-2.0
// Convolutions that lowering computes by minimal filtering (Winograd), compared with the reference: floats, and
// integers bit for bit.
#include <doctest/doctest.h>

#include <algorithm>

#include "base/text.h"
#include "compile.h"
#include "cpu_compare.h"
#include "ir/text.h"
#include "lower/lower.h"
#include "ops/registry.h"

using namespace weft;

namespace {

/// Returns a constant [out, in, 3, 3] of integers from -most to most; `type` is its element type.
std::string weights(const char* type, int64_t out, int64_t in, int most) {
  std::string text = cat("constant {value=", type, "[", out, ",", in, ",3,3]{");
  unsigned state = 1;
  for (int64_t i = 0; i < out * in * 9; ++i) {
    state = state * 1664525 + 1013904223;
    text += cat(i ? ", " : "", static_cast<int>(state >> 16) % (2 * most + 1) - most);
  }
  return text + "}}\n";
}

std::string floats(int64_t in, int64_t out, int64_t groups, const char* pads, const char* type = "f32") {
  return cat("program \"p\"\nsymbol n min=0\nsymbol h min=2\nsymbol k min=2\nmodule main {\n",
             "  %x = parameter {name=\"x\", type=", type, "[n,h,k,", in,
             "]}\n  %w = ", weights(type, out, in / groups, 5),
             "  %c = convolution %x, %w {strides=[1, 1], dilations=[1, 1], ", pads, ", groups=", groups,
             ", layout=channels_last}\n  %r = relu %c\n  return \"r\"=%r\n}\n");
}

std::string integers(int64_t in, int64_t out, int most) {
  return cat("program \"p\"\nsymbol n min=0\nmodule main {\n", "  %x = parameter {name=\"x\", type=u8[n,", in,
             ",9,7]}\n  %w = ", weights("i8", out, in, most),
             "  %s = constant {value=f32[]{0.125}}\n  %z = constant {value=u8[]{3}}\n"
             "  %ys = constant {value=f32[]{64}}\n  %yz = constant {value=u8[]{117}}\n"
             "  %xd = dequantize %x, %s, %z {to=f32, axis=1, block=0}\n"
             "  %wd = dequantize %w, %s {to=f32, axis=1, block=0}\n"
             "  %c = convolution %xd, %wd {strides=[1, 1], dilations=[1, 1], pads_begin=[1, 1], pads_end=[1, 1], "
             "groups=1, layout=channels_first, type=f32}\n"
             "  %q = quantize %c, %ys, %yz {to=u8, axis=1, block=0, saturate=true}\n  return \"q\"=%q\n}\n");
}

/// True if the name of a kernel of the compiled program starts with `beginning`.
bool has_kernel(const std::string& text, std::string_view beginning) {
  auto executable = compile(parse_program(text, make_op), {.device = "cpu", .threads = 1});
  return std::ranges::any_of(executable->steps(),
                             [&](const StepInfo& step) { return step.kernel.starts_with(beginning); });
}

/// True if lowering for `chip`, without passes, makes a kernel with a name that starts with `beginning`.
bool has_kernel_for(const char* chip, const std::string& text, std::string_view beginning) {
  Plan plan = lower(*parse_program(text, make_op), chip_named(chip), {});
  return std::ranges::any_of(plan.kernels,
                             [&](const PlanKernel& kernel) { return kernel.name.starts_with(beginning); });
}

/// Returns a program of a 3 x 3 x 3 convolution over volumes of four planes.
std::string volumes(int64_t in, int64_t out) {
  std::string w = weights("f32", out, in * 3, 5);
  return cat("program \"p\"\nsymbol n min=0\nsymbol h min=2\nmodule main {\n",
             "  %x = parameter {name=\"x\", type=f32[n,4,h,9,", in, "]}\n  %f = ", w, "  %w = reshape %f {dims=[", out,
             ", ", in, ", 3, 3, 3]}\n",
             "  %c = convolution %x, %w {strides=[1, 1, 1], dilations=[1, 1, 1], pads_begin=[1, 1, 1], "
             "pads_end=[1, 1, 1], groups=1, layout=channels_last}\n  return \"c\"=%c\n}\n");
}

const char* around = "pads_begin=[1, 1], pads_end=[1, 1]";

}  // namespace

TEST_CASE("cpu: 3x3 convolutions of stride 1 by minimal filtering") {
  CHECK(has_kernel(floats(24, 20, 1, around), "winograd4_f32"));
  CHECK(has_kernel(floats(3, 20, 1, around), "conv_f32"));  // few channels: transforms would cost more
  compare_on_cpu(floats(24, 20, 1, around), {{{2, 9, 7, 24}}, {{1, 4, 12, 24}}, {{3, 2, 3, 24}}, {{0, 5, 5, 24}}});
  compare_on_cpu(floats(24, 20, 1, "pads_begin=[0, 2], pads_end=[2, 0]"), {{{1, 5, 6, 24}}, {{2, 18, 33, 24}}});
  compare_on_cpu(floats(34, 38, 2, around), {{{2, 6, 11, 34}}});
}

TEST_CASE("cpu: minimal filtering of 16-bit floats in f32, unless AMX multiplies them") {
  const char* zen = "x86-64-v4+avx512bf16+avx512vnni";
  const char* amx = "x86-64-v4+avx512bf16+avx512vnni+amx-bf16+amx-int8+amx-tile";
  for (const char* type : {"bf16", "f16"}) {
    const std::string text = floats(64, 40, 1, around, type);
    CHECK(has_kernel_for(zen, text, "winograd4_f32"));
    CHECK(has_kernel_for("x86-64-v3", text, "winograd4_f32"));
    CHECK(has_kernel_for(amx, text, "winograd4_f32") == (type == std::string("f16")));
    compare_on_cpu(text, {{{2, 9, 7, 64}}, {{1, 4, 12, 64}}, {{3, 2, 3, 64}}, {{0, 5, 5, 64}}});
    compare_on_cpu(floats(34, 38, 2, around, type), {{{2, 6, 11, 34}}});
  }
}

TEST_CASE("cpu: minimal filtering of volumes, plane by plane") {
  CHECK(has_kernel(volumes(24, 20), "winograd4_f32"));
  compare_on_cpu(volumes(24, 20), {{{2, 4, 7, 9, 24}}, {{1, 4, 2, 9, 24}}, {{0, 4, 5, 9, 24}}});
}

TEST_CASE("cpu: minimal filtering of integers is exact, in the tile that their bounds allow") {
  compare_quantized_on_cpu(integers(24, 20, 127), {{{2, 24, 9, 7}}, {{1, 24, 9, 7}}, {{0, 24, 9, 7}}});
  const std::string many = integers(300, 17, 127);  // sums of about 255 * 9 * 300 * 64 need more than 25 bits
  CHECK(!has_kernel(many, "winograd4"));
  compare_quantized_on_cpu(many, {{{1, 300, 9, 7}}});
}

TEST_CASE("cpu: minimal filtering of bytes in 16 bits with AVX-512") {
  std::string bytes = floats(64, 40, 1, around, "u8");
  for (auto [from, to] :
       {std::pair{"constant {value=u8", "constant {value=i8"}, {"channels_last}", "channels_last, type=i32}"}})
    bytes.replace(bytes.find(from), std::string_view(from).size(), to);
  CHECK(has_kernel_for("x86-64-v4+avx512vnni", bytes, "winograd4_i16"));
  CHECK(has_kernel_for("x86-64-v3+avxvnni", bytes, "conv_i8"));
  CHECK(has_kernel_for("x86-64-v4+avx512vnni+amx-int8+amx-tile", bytes, "conv_i8"));
  compare_on_cpu(bytes, {{{2, 9, 7, 64}}, {{1, 4, 12, 64}}, {{3, 2, 3, 64}}, {{0, 5, 5, 64}}});
}
