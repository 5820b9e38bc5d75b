// SPDX-License-Identifier: Apache-2.0
// Quantised convolutions and matrix products on the CPU. After the passes that turn them into integer products, they
// are compared with the original program on the reference. Scales are powers of two, so that both sides are exact.
#include <doctest/doctest.h>

#include "base/text.h"
#include "cpu_compare.h"

using namespace weft;

namespace {

/// One quantised convolution: sizes are [batch, channels, height, width] and [outputs, channels of a group, ky, kx].
struct Convolution {
  const char *x, *w;            ///< element types
  int x_zero, w_zero;           ///< zero points
  std::vector<int64_t> weight;  ///< sizes
  int64_t channels, groups;
  const char* rest;  ///< the operator's remaining fields, as text
  const char *after = "", *result = "%c";
};

std::string list(const std::vector<int64_t>& sizes) {
  std::string text;
  for (int64_t size : sizes) text += cat(text.empty() ? "[" : ",", size);
  return text + "]";
}

std::string scalar(const char* name, const std::string& type, const std::string& value) {
  return cat("  %", name, " = constant {value=", type, "[]{", value, "}}\n");
}

std::string program(const Convolution& c) {
  return cat("program \"p\"\nsymbol n min=0\nsymbol h min=3\nsymbol k min=3\nmodule main {\n",
             "  %x = parameter {name=\"x\", type=", c.x, "[n,", c.channels, ",h,k]}\n",
             "  %w = parameter {name=\"w\", type=", c.w, list(c.weight), "}\n", scalar("xs", "f32", "0.125"),
             scalar("xz", c.x, cat(c.x_zero)), scalar("ws", "f32", "0.25"), scalar("wz", c.w, cat(c.w_zero)),
             scalar("ys", "f32", "64"), scalar("yz", "u8", "117"),
             "  %xd = dequantize %x, %xs, %xz {to=f32, axis=1, block=0}\n",
             "  %wd = dequantize %w, %ws, %wz {to=f32, axis=1, block=0}\n", "  %c = convolution %xd, %wd {", c.rest,
             ", groups=", c.groups, ", layout=channels_first, type=f32}\n", c.after, "  %q = quantize ", c.result,
             ", %ys, %yz {to=u8, axis=1, block=0, saturate=true}\n",
             "  %d = dequantize %q, %ys, %yz {to=f32, axis=1, block=0}\n  return \"q\"=%q, \"d\"=%d\n}\n");
}

const char* plain = "strides=[1, 1], dilations=[1, 1], pads_begin=[1, 1], pads_end=[1, 1]";
const char* strided = "strides=[2, 2], dilations=[2, 1], pads_begin=[2, 0], pads_end=[1, 3]";
const char* pointwise = "strides=[1, 1], dilations=[1, 1], pads_begin=[0, 0], pads_end=[0, 0]";

void check(const Convolution& c) {
  InputSizes sizes;
  for (std::vector<int64_t> x :
       {std::vector<int64_t>{1, c.channels, 5, 7}, {3, c.channels, 9, 4}, {0, c.channels, 3, 3}})
    sizes.push_back({x, c.weight});
  compare_quantized_on_cpu(program(c), sizes);
}

std::string dot(const char* a, const char* b, int a_zero, int b_zero) {
  return cat("program \"p\"\nsymbol m min=0\nsymbol k min=0 max=300\nmodule main {\n",
             "  %a = parameter {name=\"a\", type=", a, "[2,m,k]}\n  %b = parameter {name=\"b\", type=", b, "[k,19]}\n",
             scalar("as", "f32", "0.125"), scalar("az", a, cat(a_zero)), scalar("bz", b, cat(b_zero)),
             "  %bs1 = constant {value=f32[]{0.5}}\n  %bs = broadcast %bs1 {dims=[19]}\n",
             "  %bzs = broadcast %bz {dims=[19]}\n", "  %ad = dequantize %a, %as, %az {to=f32, axis=1, block=0}\n",
             "  %bd = dequantize %b, %bs, %bzs {to=f32, axis=1, block=0}\n  %bb = broadcast %bd {dims=[2,k,19]}\n",
             "  %y = dot %ad, %bb {type=f32}\n  return \"y\"=%y\n}\n");
}

/// One term of a sum: an input, of type i32 or i16, times a constant.
struct Product {
  const char* type;
  int64_t x;
  const char* factor;
};

/// Rounds a sum of products and a constant to [low, high]; the sum is added in pairs, then in pairs of pairs.
void check_sum(const std::vector<Product>& products, const char* constant, int low, int high) {
  std::string head, body;
  std::vector<std::string> terms;
  std::vector<Tensor> inputs;
  for (const auto& [type, x, factor] : products) {
    auto n = cat(terms.size());
    DType dtype = type == std::string("i32") ? DType::i32 : DType::i16;
    inputs.push_back(make_tensor(dtype, {1}, std::vector<double>{static_cast<double>(x)}));
    body += cat("  %x", n, " = parameter {name=\"x", n, "\", type=", type, "[1]}\n");
    head += cat("  %w", n, " = convert %x", n, " {to=f64}\n  %k", n, " = constant {value=f64[1]{", factor, "}}\n  %p",
                n, " = mul %w", n, ", %k", n, "\n");
    terms.push_back("%p" + n);
  }
  head += cat("  %c = constant {value=f64[1]{", constant, "}}\n");
  terms.emplace_back("%c");
  for (int next = 0; terms.size() > 1; terms.erase(terms.begin(), terms.begin() + 2)) {
    std::string sum = cat("%s", next++);
    head += cat("  ", sum, " = add ", terms[0], ", ", terms[1], "\n");
    terms.push_back(sum);
  }
  compare_quantized_on_cpu(cat("program \"p\"\nmodule main {\n", body, head, "  %low = constant {value=i32[1]{", low,
                               "}}\n  %high = constant {value=i32[1]{", high, "}}\n  %r = nearest ", terms[0],
                               ", %low, %high {to=i16}\n  return \"r\"=%r\n}\n"),
                           inputs);
}

}  // namespace

TEST_CASE("cpu quantised: convolutions of every pair of types, with zero points at the ends") {
  check({"u8", "i8", 255, 0, {6, 4, 3, 3}, 4, 1, plain});
  check({"u8", "u8", 3, 128, {17, 5, 3, 3}, 5, 1, plain});
  check({"i8", "i8", -128, 0, {9, 6, 2, 3}, 6, 1, strided});
  check({"i8", "u8", 127, 255, {4, 3, 1, 1}, 3, 1, pointwise});
  check({"u8", "i8", 0, -128, {33, 8, 1, 1}, 8, 1, pointwise});
}

TEST_CASE("cpu quantised: groups, depthwise, transposed, few channels") {
  check({"u8", "i8", 7, 0, {8, 3, 3, 3}, 6, 2, plain});
  check({"u8", "i8", 9, 0, {8, 2, 3, 3}, 8, 4, plain});
  check({"u8", "i8", 31, 5, {11, 1, 3, 3}, 11, 11, plain});
  check({"i8", "i8", 5, 0, {2, 2, 3, 3}, 2, 1, strided});
  check({"u8",
         "i8",
         100,
         0,
         {4, 3, 3, 3},
         4,
         1,
         "strides=[2, 1], dilations=[1, 1], pads_begin=[1, 0], pads_end=[0, 1], transposed=true"});
}

TEST_CASE("cpu quantised: relu and another quantised value inside the rounding") {
  Convolution c{"u8", "i8", 12, 0, {4, 4, 3, 3}, 4, 1, plain};
  c.after = "  %s = add %c, %xd\n  %r = relu %s\n";
  c.result = "%r";
  check(c);
}

TEST_CASE("cpu quantised: dots of every pair of types, a scale for each column") {
  const InputSizes sizes{{{2, 5, 7}, {7, 19}},
                         {{2, 1, 1}, {1, 19}},
                         {{2, 33, 130}, {130, 19}},
                         {{2, 3, 0}, {0, 19}},
                         {{2, 0, 4}, {4, 19}}};
  compare_quantized_on_cpu(dot("u8", "i8", 128, 0), sizes);
  compare_quantized_on_cpu(dot("i8", "i8", 0, 1), sizes);
  compare_quantized_on_cpu(dot("u8", "u8", 255, 255), sizes);
  compare_quantized_on_cpu(dot("i8", "u8", -128, 0), sizes);
}

TEST_CASE("cpu quantised: the greatest of dequantised values is taken among integers") {
  compare_quantized_on_cpu(
      cat("program \"p\"\nsymbol n min=0\nmodule main {\n  %x = parameter {name=\"x\", type=f32[n,5,9,8]}\n",
          scalar("s", "f32", "0.125"), scalar("z", "u8", "100"),
          "  %q = quantize %x, %s, %z {to=u8, axis=1, block=0, saturate=true}\n",
          "  %d = dequantize %q, %s, %z {to=f32, axis=1, block=0}\n",
          "  %p = pool %d {fn=max, kernel=[3, 3], strides=[2, 2], dilations=[1, 1], pads_begin=[1, 1], pads_end=[1, "
          "1], "
          "round_up=false, count_include_pad=false, p=2, indices=false, layout=channels_first}\n",
          "  %r = quantize %p, %s, %z {to=u8, axis=1, block=0, saturate=true}\n  return \"r\"=%r\n}\n"),
      {{{2, 5, 9, 8}}, {{0, 5, 9, 8}}});
}

TEST_CASE("cpu quantised: a sum of eight terms, whose errors in f32 add up, is rounded as in f64") {
  // The sum is 1.4999903. In f32 its error exceeds 2^-11, which the error of a sum of two such terms would not.
  check_sum({{"i32", 162270744, "7.668746096945929e-06"},
             {"i16", 26645, "0.00027380263328225576"},
             {"i16", -31858, "0.00456974818323043"},
             {"i16", 6572, "0.00042643927829654843"},
             {"i16", -32768, "0.00021770453164339054"},
             {"i16", -31077, "0.00029028237072398867"},
             {"i16", -32759, "0.026147051698408082"}},
            "-234.7220229761523", -8, 7);
}

TEST_CASE("cpu quantised: sums that round to 2^31 are clamped to the greatest result") {
  check_sum({{"i32", 2147483647, "0.99999999"}}, "0", -100, 155);  // below 2^31, but not in f32
  check_sum({{"i32", 2147483647, "0.9999999999"}}, "0.9", -100, 155);
}
