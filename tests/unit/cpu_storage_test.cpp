// SPDX-License-Identifier: Apache-2.0
// Values of f32 that are stored in bf16 or f16 (LowerOptions::storage), and the operators that read them. All numbers
// are small integers, which both types represent exactly, so that results are equal.
#include <doctest/doctest.h>

#include "base/text.h"
#include "cpu_compare.h"

using namespace weft;

namespace {

/// Lines that compute `%a`, f32[n,6], as a product of integers from 0 to 4; the product is stored in 16 bits.
const std::string product_lines = R"(  %i = parameter {name="i", type=i64[n,5]}
  %k = parameter {name="k", type=i64[5,6]}
  %x = convert %i {to=f32}
  %w = convert %k {to=f32}
  %a = dot %x, %w
)";

std::string program(const std::string& lines) {
  return cat("program \"p\"\nsymbol n min=0\nmodule main {\n", product_lines, lines, "}\n");
}

/// Compares runs of 5 and of 7 rows, with values stored in bf16 and in f16. `others` are the sizes of further inputs.
void compare_narrow(const std::string& lines, const std::vector<std::vector<int64_t>>& others = {}) {
  InputSizes cases;
  for (int64_t rows : {5, 7}) {
    cases.push_back({{rows, 5}, {5, 6}});
    cases.back().insert(cases.back().end(), others.begin(), others.end());
  }
  for (DType storage : {DType::bf16, DType::f16}) compare_on_cpu(program(lines), cases, storage);
}

}  // namespace

TEST_CASE("storage: gathers read 16 bits") {
  compare_narrow(R"(  %at = parameter {name="at", type=i64[3,2]}
  %y = gather_nd %a, %at {batch=0}
  %rows = parameter {name="rows", type=i64[4,1]}
  %z = gather_nd %a, %rows {batch=0}
  return "y"=%y, "z"=%z
)",
                 {{3, 2}, {4, 1}});
  compare_narrow(R"(  %at = parameter {name="at", type=i64[3,6]}
  %y = gather_elements %a, %at {axis=0}
  %z = gather %a, %at {axis=0}
  return "y"=%y, "z"=%z
)",
                 {{3, 6}});
}

TEST_CASE("storage: scatters take data and updates in 16 bits") {
  for (const char* fn : {"replace", "add", "max"}) {
    compare_narrow(cat(R"(  %at = parameter {name="at", type=i64[2,6]}
  %d = parameter {name="d", type=f32[9,6]}
  %e = exp %a
  %r = slice %e {starts=[0, 0], sizes=[2, 6], steps=[1, 1]}
  %s = slice %a {starts=[0, 0], sizes=[2, 6], steps=[1, 1]}
  %y = scatter_elements %d, %at, %s {axis=0, fn=)",
                       fn, R"(}
  %v = scatter_elements %a, %at, %s {axis=0, fn=)",
                       fn, R"(}
  %rows = parameter {name="rows", type=i64[2,1]}
  %z = scatter_nd %d, %rows, %s {fn=)",
                       fn, R"(}
  return "y"=%y, "z"=%z, "v"=%v
)"),
                   {{2, 6}, {9, 6}, {2, 1}});
  }
}

TEST_CASE("storage: scans, top-k, positions and paddings read 16 bits") {
  compare_narrow(R"(  %y = scan %a {fn=sum, axis=1}
  %z = scan %a {fn=sum, axis=0, exclusive=true, reverse=true}
  %t = top_k %a {k=2, axis=1}
  %u = top_k %a {k=2, axis=0}
  %m = arg_reduce %a {axis=1}
  return "y"=%y, "z"=%z, "t"=%t, "j"=%t.1, "u"=%u, "m"=%m
)");
  for (const char* mode : {"reflect", "edge", "wrap", "constant"}) {
    compare_narrow(cat("  %seven = constant {value=f32[]{7}}\n  %y = pad %a",
                       mode == std::string("constant") ? ", %seven" : "", " {before=[1, 2], after=[2, 3], mode=", mode,
                       "}\n  return \"y\"=%y\n"));
  }
}

TEST_CASE("storage: pictures read 16 bits") {
  compare_narrow(R"(  %p = reshape %a {dims=[n, 2, 3, 1]}
  %y = resize %p {dims=[n, 4, 6, 1], scales=[0, 0, 0, 0], mode=nearest}
  %z = resize %p {dims=[n, 4, 6, 1], scales=[0, 0, 0, 0], mode=linear}
  %m = pool %p {fn=max, indices=true, kernel=[2, 2], strides=[1, 1], dilations=[1, 1], pads_begin=[0, 0], pads_end=[0, 0], layout=channels_last}
  return "y"=%y, "z"=%z, "m"=%m, "at"=%m.1
)");
}

TEST_CASE("storage: a concatenation with a part that f16 cannot hold is stored in f32, whichever part comes first") {
  compare_narrow(R"(  %lowest = constant {value=f32[]{-3.4028234663852886e+38}}
  %l = broadcast %lowest {dims=[n, 6]}
  %m = add %a, %l
  %p = neg %x
  %b = concat %p, %m {axis=1}
  %zero = constant {value=f32[]{0}}
  %z = broadcast %zero {dims=[n, 11]}
  %y = mul %b, %z
  return "y"=%y
)");
}

TEST_CASE("storage: kernels that cannot read 16 bits get copies") {
  compare_narrow(R"(  %b = slice %a {starts=[0, 0], sizes=[5, 4], steps=[1, 1]}
  %boxes = reshape %b {dims=[1, 5, 4]}
  %c = slice %a {starts=[0, 4], sizes=[5, 1], steps=[1, 1]}
  %scores = reshape %c {dims=[1, 1, 5]}
  %half = constant {value=f32[]{0.5}}
  %least = constant {value=f32[]{0}}
  %y = non_max_suppression %boxes, %scores, %half, %least {most=5, centers=true}
  return "y"=%y
)");
  const std::string text = program(
      R"(  %y = custom %a {op="mine:Twice", rule="f32[...] -> f32[...]", source="template <class V> V twice(V x) { return x + x; }", function="twice", pointwise=true}
  return "y"=%y
)");
  for (DType storage : {DType::bf16, DType::f16}) {
    std::vector<double> numbers(30, 3);
    const std::vector<Tensor> inputs{make_tensor(DType::i64, {5, 5}, std::span(numbers).first(25)),
                                     make_tensor(DType::i64, {5, 6}, std::span(numbers))};
    CHECK(to_doubles(run_on_cpu(text, inputs, storage)[0]) == std::vector<double>(30, 90));
  }
}

TEST_CASE("storage: bodies of control flow and functions of the host get the types that they read") {
  const std::string text = R"(program "p"
symbol n min=0
symbol t min=0
module main {
)" + product_lines + R"(  %c = parameter {name="c", type=bool[]}
  %at = parameter {name="at", type=i64[]}
  %e = if %c, %a, %a [yes, no] {first=1, types=[f32[n,6]], sets=[]}
  %l = loop %a, %a [body] {counter=t, trips=3, count=3, carried=1, types=[f32[n,6], f32[3,n,6]]}
  %s = host %a, %l {fn=collect, numbers=[1], strings=[], types=[sequence(f32[n,6])]}
  %o = host %s, %at {fn=item, numbers=[], strings=[], types=[f32[n,6]]}
  return "e"=%e, "l"=%l, "rows"=%l.1, "o"=%o
}
module yes {
  %y1 = parameter {name="b", type=f32[n,6]}
  %y2 = add %y1, %y1
  return "y"=%y2
}
module no {
  %n1 = parameter {name="b", type=f32[n,6]}
  return "y"=%n1
}
module body {
  %l1 = parameter {name="s", type=f32[n,6]}
  %l2 = parameter {name="b", type=f32[n,6]}
  %l3 = add %l1, %l2
  return "s"=%l3, "row"=%l2
})";
  std::vector<double> numbers(30);
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<double>(i % 4);
  for (double choice : {0, 1}) {
    const std::vector<Tensor> inputs{make_tensor(DType::i64, {5, 5}, std::span(numbers).first(25)),
                                     make_tensor(DType::i64, {5, 6}, std::span(numbers)),
                                     scalar_tensor(DType::boolean, choice), scalar_tensor(DType::i64, choice)};
    auto wanted = run_on_cpu(text, inputs);
    for (DType storage : {DType::bf16, DType::f16}) {
      auto got = run_on_cpu(text, inputs, storage);
      for (size_t i = 0; i < got.size(); ++i) CHECK(to_doubles(got[i]) == to_doubles(wanted[i]));
    }
  }
}
