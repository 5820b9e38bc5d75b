// SPDX-License-Identifier: Apache-2.0
// Programs in text form, lowered, compiled and run on the CPU, compared with the reference.
#include <doctest/doctest.h>

#include "compile.h"
#include "cpu_compare.h"
#include "ir/text.h"
#include "ops/registry.h"

using namespace weft;

TEST_CASE("cpu: pointwise with broadcasts, views and two results") {
  compare_on_cpu(R"(program "p"
symbol n min=0
module main {
  %x = parameter {name="x", type=f32[n,3,5]}
  %b = parameter {name="b", type=f32[5]}
  %bb = broadcast %b {dims=[n, 3, 5]}
  %y = add %x, %bb
  %t = transpose %y {permutation=[1, 0, 2]}
  %z = exp %y
  %c = constant {value=f32[]{2}}
  %cc = broadcast %c {dims=[n, 3, 5]}
  %m = greater %z, %cc
  %s = select %m, %z, %y
  return "s"=%s, "t"=%t, "m"=%m
})",
                 {{{2, 3, 5}, {5}}, {{0, 3, 5}, {5}}, {{1, 3, 5}, {5}}, {{7, 3, 5}, {5}}});
}

TEST_CASE("cpu: inputs that are also results") {
  compare_on_cpu(R"(program "c"
symbol n min=0
module main {
  %x = parameter {name="x", type=f32[]}
  %y = parameter {name="y", type=f32[n]}
  return "x"=%x, "y"=%y
})",
                 {{{}, {3}}, {{}, {0}}});
}

TEST_CASE("cpu: dot with constant and dynamic right side, batches, epilogue") {
  compare_on_cpu(R"(program "d"
symbol n min=0
symbol k
module main {
  %a = parameter {name="a", type=f32[n,4,k]}
  %b = parameter {name="b", type=f32[n,k,7]}
  %d = dot %a, %b
  %r = relu %d
  %bt = transpose %b {permutation=[0, 2, 1]}
  %at = transpose %a {permutation=[0, 2, 1]}
  %e = dot %bt, %at
  return "r"=%r, "e"=%e
})",
                 {{{2, 4, 3}, {2, 3, 7}},
                  {{1, 4, 1}, {1, 1, 7}},
                  {{3, 4, 70}, {3, 70, 7}},
                  {{2, 4, 0}, {2, 0, 7}},
                  {{0, 4, 3}, {0, 3, 7}}});
}

TEST_CASE("cpu: softmax, norms and reductions") {
  compare_on_cpu(R"(program "r"
symbol n min=0
module main {
  %x = parameter {name="x", type=f32[n,6,37]}
  %y = parameter {name="y", type=f32[n,6,37]}
  %a = add %x, %y
  %s = softmax %a {axis=2}
  %l = normalize %a {axis=2, epsilon=1e-5}
  %q = mul %l, %y
  %m = reduce %a {fn=mean, axes=[2], keep=true}
  %c = reduce %x {fn=max, axes=[1], keep=false}
  %t = reduce %x {fn=sum, axes=[0, 1, 2], keep=false}
  return "s"=%s, "q"=%q, "m"=%m, "c"=%c, "t"=%t
})",
                 {{{2, 6, 37}, {2, 6, 37}}, {{1, 6, 37}, {1, 6, 37}}, {{5, 6, 37}, {5, 6, 37}}});
}

TEST_CASE("cpu: reductions of no elements give the initial value of their function") {
  for (const char* type : {"f32", "f64", "bf16", "i64", "u64", "i8", "u8"}) {
    for (const char* fn : {"sum", "mean", "product", "min", "max"}) {
      compare_on_cpu(
          cat("program \"p\"\nsymbol n min=0\nmodule main {\n  %x = parameter {name=\"x\", type=", type,
              "[3,n,5]}\n  %t = parameter {name=\"t\", type=", type, "[4,0]}\n  %y = reduce %x {fn=", fn,
              ", axes=[1], keep=false}\n  %z = reduce %x {fn=", fn, ", axes=[1, 2], keep=true}\n",
              "  %u = reduce %t {fn=", fn, ", axes=[1], keep=false}\n", "  return \"y\"=%y, \"z\"=%z, \"u\"=%u\n}\n"),
          {{{3, 0, 5}, {4, 0}}});
    }
  }
}

TEST_CASE("cpu: convolution and pooling, channels last") {
  compare_on_cpu(
      R"(program "c"
symbol n
symbol h min=3
module main {
  %x = parameter {name="x", type=f32[n,h,9,5]}
  %w = parameter {name="w", type=f32[12,5,3,3]}
  %v = parameter {name="v", type=f32[5,1,3,3]}
  %b = parameter {name="b", type=f32[12]}
  %c = convolution %x, %w {strides=[2, 1], dilations=[1, 1], pads_begin=[1, 1], pads_end=[1, 1], layout=channels_last}
  %bb = broadcast %b {dims=[n, floordiv(h - 1, 2) + 1, 9, 12]}
  %d = add %c, %bb
  %r = relu %d
  %e = convolution %x, %v {strides=[1, 1], dilations=[1, 1], pads_begin=[1, 1], pads_end=[1, 1], groups=5, layout=channels_last}
  %p = pool %r {fn=max, kernel=[2, 2], strides=[2, 2], dilations=[1, 1], pads_begin=[0, 0], pads_end=[0, 0], layout=channels_last}
  %q = pool %e {fn=average, kernel=[3, 3], strides=[1, 1], dilations=[1, 1], pads_begin=[1, 1], pads_end=[1, 1], layout=channels_last}
  return "p"=%p, "q"=%q
})",
      {{{2, 8, 9, 5}, {12, 5, 3, 3}, {5, 1, 3, 3}, {12}}, {{1, 3, 9, 5}, {12, 5, 3, 3}, {5, 1, 3, 3}, {12}}});
}

TEST_CASE("cpu: weights in bf16 and f16, and a node that stays in f32") {
  const std::string text = R"weft(program "p"
symbol n
module main {
  %x = parameter {name="x", type=f32[n,4]}
  %w = constant {value=f32[4,3]{0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.1, 1.2, 70000}}
  %v = constant {value=f32[4,2]{0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8}}
  %y = dot %x, %w  // from "node 0 'first' (MatMul)"
  %z = dot %x, %v  // from "node 1 'second' (MatMul)"
  return "y"=%y, "z"=%z
})weft";
  // Returns the kernels of the first node and, after a space, those of the second.
  auto kernels_of = [&](Precision precision, std::vector<std::string> keep) -> std::string {
    auto executable = compile(parse_program(text, make_op),
                              {.device = "cpu", .threads = 1, .precision = precision, .keep_f32 = std::move(keep)});
    std::vector<double> ones{1, 1, 1, 1};
    auto got = executable->new_context()->run(std::vector<Tensor>{make_tensor(DType::f32, {1, 4}, ones)});
    CHECK(to_doubles(got[1])[1] == doctest::Approx(2.0).epsilon(0.01));
    std::string first, second;
    for (const StepInfo& step : executable->steps()) {
      bool is_first = step.source.find("first") != std::string::npos;
      (is_first ? first : second) += step.kernel.substr(0, step.kernel.rfind('_'));
    }
    return first + " " + second;
  };
  CHECK(kernels_of(Precision::f32, {}) == "dot_f32 dot_f32");
  CHECK(kernels_of(Precision::bf16, {}) == "dot_bf16 dot_bf16");
  CHECK(kernels_of(Precision::bf16, {"sec*"}) == "dot_bf16 dot_f32");
  CHECK(kernels_of(Precision::f16, {}) == "dot_f32 dot_f16");  // 70000 overflows f16
}

TEST_CASE("cpu: convolutions have weights in 16 bits only where the chip multiplies these") {
  auto kernels_on = [](const char* device) {
    auto executable = compile(parse_program(R"(program "p"
module main {
  %x = parameter {name="x", type=f32[1,4,6,6]}
  %w = constant {value=f32[1]{0.5}}
  %k = reshape %w {dims=[1, 1, 1, 1]}
  %b = broadcast %k {dims=[4, 4, 3, 3]}
  %y = convolution %x, %b {strides=[2, 2], pads_begin=[1, 1], pads_end=[1, 1], dilations=[1, 1], groups=1}
  return "y"=%y
})",
                                            make_op),
                              {.device = device, .precision = Precision::bf16});
    std::string kernels;
    for (const StepInfo& step : executable->steps()) kernels += step.kernel + " ";
    return kernels;
  };
  std::string kernels = kernels_on("cpu:x86-64-v3");
  CHECK_MESSAGE(kernels.find("conv_f32") != std::string::npos, kernels);
}

TEST_CASE("cpu: rows whose keys are all masked by the lowest f32 are means in every precision") {
  // In 16 bits the mask would round to -infinity, and the softmax of a row that is fully masked would be NaN.
  const std::string text = R"weft(program "p"
module main {
  %q = parameter {name="q", type=f32[2,4]}
  %k = parameter {name="k", type=f32[4,3]}
  %seen = parameter {name="seen", type=f32[1,3]}
  %one = constant {value=f32[]{1}}
  %ones = broadcast %one {dims=[1, 3]}
  %lowest = constant {value=f32[]{-3.4028234663852886e+38}}
  %lows = broadcast %lowest {dims=[1, 3]}
  %hidden = sub %ones, %seen
  %mask = mul %hidden, %lows
  %bias = broadcast %mask {dims=[2, 3]}
  %s = dot %q, %k
  %masked = add %s, %bias
  %p = softmax %masked {axis=1}
  %turned = add %bias, %s
  %exp = exp %turned
  %r = mul %p, %exp
  return "p"=%p, "r"=%r, "mask"=%mask
})weft";
  for (Precision precision : {Precision::f32, Precision::bf16, Precision::f16}) {
    auto executable = compile(parse_program(text, make_op), {.device = "cpu", .threads = 1, .precision = precision});
    Tensor q = make_tensor(DType::f32, {2, 4}, std::vector<double>(8, 1)),
           k = make_tensor(DType::f32, {4, 3}, std::vector<double>(12, 0.5)),
           seen = make_tensor(DType::f32, {1, 3}, std::vector<double>(3, 0));
    auto got = executable->new_context()->run(std::vector<Tensor>{q, k, seen});
    for (double p : to_doubles(got[0])) CHECK(p == doctest::Approx(1.0 / 3).epsilon(0.01));
  }
}

TEST_CASE("cpu: a weight in 16 bits that all batches share is packed when the program is loaded") {
  auto executable = compile(parse_program(R"(program "p"
symbol n
module main {
  %x = parameter {name="x", type=f32[n,2,4]}
  %w = constant {value=f32[3,4]{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}}
  %t = transpose %w {permutation=[1, 0]}
  %b = broadcast %t {dims=[n, 4, 3]}
  %y = dot %x, %b
  return "y"=%y
})",
                                          make_op),
                            {.device = "cpu", .threads = 1, .precision = Precision::bf16});
  REQUIRE(executable->steps().size() == 1);
  std::vector<double> ones(16, 1);
  auto got = executable->new_context()->run(std::vector<Tensor>{make_tensor(DType::f32, {2, 2, 4}, ones)});
  CHECK(to_doubles(got[0])[10] == 26);
}

TEST_CASE("cpu: a key cache that is sliced, extended, read and stacked is copied once") {
  const std::string text = R"(program "p"
symbol past min=0
module main {
  %all = parameter {name="all", type=f32[2,3,past,4]}
  %new = parameter {name="new", type=f32[3,1,4]}
  %i = constant {value=i64[]{0}}
  %j = constant {value=i64[]{-1}}
  %a = gather %all, %i {axis=0}
  %b = gather %all, %j {axis=0}
  %ka = concat %a, %new {axis=1}
  %kb = concat %b, %new {axis=1}
  %r = exp %ka
  %sa = reshape %ka {dims=[1, 3, past + 1, 4]}
  %sb = reshape %kb {dims=[1, 3, past + 1, 4]}
  %y = concat %sa, %sb {axis=0}
  return "r"=%r, "y"=%y
})";
  compare_on_cpu(text, {{{2, 3, 5, 4}, {3, 1, 4}}, {{2, 3, 0, 4}, {3, 1, 4}}});
  CHECK(compile(parse_program(text, make_op), {.device = "cpu", .threads = 1})->steps().size() == 5);
}

TEST_CASE("cpu: parts of a concatenation are computed in place, convolutions read them there") {
  compare_on_cpu(R"(program "c"
symbol n min=0
module main {
  %x = parameter {name="x", type=f32[n,3,6,7]}
  %w = constant {value=f32[4,3,1,1]{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}}
  %v = parameter {name="v", type=f32[5,2,3,3]}
  %l = transpose %x {permutation=[0, 2, 3, 1]}
  %a = convolution %l, %w {strides=[1, 1], dilations=[1, 1], pads_begin=[0, 0], pads_end=[0, 0], layout=channels_last}
  %b = slice %a {starts=[0, 0, 0, 2], sizes=[n, 6, 7, 2], steps=[1, 1, 1, 1]}
  %c = convolution %b, %v {strides=[1, 1], dilations=[1, 1], pads_begin=[1, 1], pads_end=[1, 1], layout=channels_last}
  %r = relu %c
  %p = pool %b {fn=max, kernel=[3, 3], strides=[1, 1], dilations=[1, 1], pads_begin=[1, 1], pads_end=[1, 1], layout=channels_last}
  %k = concat %a, %r, %p, %r {axis=3}
  %k2 = concat %r, %k {axis=3}
  %e = exp %p
  return "k2"=%k2, "e"=%e
})",
                 {{{2, 3, 6, 7}, {5, 2, 3, 3}}, {{0, 3, 6, 7}, {5, 2, 3, 3}}, {{1, 3, 6, 7}, {5, 2, 3, 3}}});
}

TEST_CASE("cpu: values that depend on constants and sizes alone are computed when the sizes are bound") {
  compare_on_cpu(R"(program "s"
symbol n
symbol p min=0 max=5
module main {
  %x = parameter {name="x", type=f32[n,3]}
  %y = parameter {name="y", type=f32[p,3]}
  %s = sizes {dims=[p, n]}
  %c = constant {value=i64[2]{10, 20}}
  %a = add %s, %c
  %t = constant {value=f32[8,3]{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23}}
  %r = slice %t {starts=[p, 0], sizes=[3, 3], steps=[1, 1]}
  %d = dot %x, %r
  %e = transpose %r {permutation=[1, 0]}
  %f = reshape %e {dims=[9]}
  return "a"=%a, "d"=%d, "f"=%f
})",
                 {{{2, 3}, {4, 3}}, {{1, 3}, {0, 3}}, {{5, 3}, {1, 3}}});
}
