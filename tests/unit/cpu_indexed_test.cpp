// SPDX-License-Identifier: Apache-2.0
// Gathers and scatters on the CPU, compared with the reference. Random indices are 0 to 4.
#include <doctest/doctest.h>

#include "base/error.h"
#include "base/text.h"
#include "cpu_compare.h"

using namespace weft;

TEST_CASE("cpu: gather_elements along any axis, with negative indices") {
  const InputSizes sizes{{{4, 5, 6}, {4, 3, 6}}, {{1, 7, 6}, {1, 1, 6}}, {{0, 5, 6}, {0, 3, 6}}};
  for (const char* type : {"f32", "bool", "bf16"}) {
    compare_on_cpu(cat("program \"p\"\nsymbol n min=0\nsymbol a\nsymbol b min=0\nmodule main {\n",
                       "  %x = parameter {name=\"x\", type=", type, "[n,a,6]}\n",
                       R"(  %i = parameter {name="i", type=i64[n,b,6]}
  %c = constant {value=i64[]{3}}
  %d = broadcast %c {dims=[n, b, 6]}
  %j = sub %i, %d
  %t = transpose %x {permutation=[1, 0, 2]}
  %u = transpose %i {permutation=[1, 0, 2]}
  %y = gather_elements %x, %j {axis=1}
  %z = gather_elements %t, %u {axis=0}
  return "y"=%y, "z"=%z
})"),
                   type == std::string("bool") ? InputSizes{{{2, 5, 6}, {2, 0, 6}}} : sizes);
  }
}

TEST_CASE("cpu: gather_nd of elements, slices and batches") {
  compare_on_cpu(R"(program "p"
symbol n min=0
symbol m min=0
module main {
  %x = parameter {name="x", type=f32[n,5,6,17]}
  %i = parameter {name="i", type=i32[n,m,2]}
  %j = parameter {name="j", type=i64[n,m,3]}
  %k = parameter {name="k", type=i64[m,1]}
  %a = gather_nd %x, %i {batch=1}
  %b = gather_nd %x, %j {batch=1}
  %t = transpose %x {permutation=[1, 0, 2, 3]}
  %c = gather_nd %t, %k {batch=0}
  return "a"=%a, "c"=%c
})",
                 {{{2, 5, 6, 17}, {2, 3, 2}, {2, 3, 3}, {3, 1}},
                  {{1, 5, 6, 17}, {1, 1, 2}, {1, 1, 3}, {1, 1}},
                  {{3, 5, 6, 17}, {3, 0, 2}, {3, 0, 3}, {0, 1}}});
}

TEST_CASE("cpu: an operand added to a gather or resize may broadcast along axes that were merged") {
  compare_on_cpu(R"(program "p"
symbol n min=0
module main {
  %t = parameter {name="t", type=f32[7]}
  %i = parameter {name="i", type=i64[n,30]}
  %b = parameter {name="b", type=f32[30]}
  %bb = broadcast %b {dims=[n, 30]}
  %g = gather %t, %i {axis=0}
  %y = add %g, %bb
  %u = parameter {name="u", type=f32[7,3,5]}
  %j = parameter {name="j", type=i64[n]}
  %c = parameter {name="c", type=f32[3,1]}
  %cc = broadcast %c {dims=[n, 3, 5]}
  %h = gather %u, %j {axis=0}
  %z = mul %h, %cc
  %v = parameter {name="v", type=f32[2,n,6,7]}
  %d = parameter {name="d", type=f32[6,1]}
  %dd = broadcast %d {dims=[4, n, 6, 7]}
  %r = resize %v {dims=[4, n, 6, 7], scales=[0, 0, 0, 0], mode=nearest}
  %w = add %r, %dd
  %e = parameter {name="e", type=f32[7]}
  %ee = broadcast %e {dims=[2, n, 6, 7]}
  %l = parameter {name="l", type=f32[2,n,6,2]}
  %s = resize %l {dims=[2, n, 6, 7], scales=[0, 0, 0, 0], mode=linear}
  %k = parameter {name="k", type=f32[n,1,1]}
  %kk = broadcast %k {dims=[2, n, 6, 7]}
  %m = add %s, %ee
  %o = mul %m, %kk
  return "g"=%g, "y"=%y, "z"=%z, "w"=%w, "o"=%o
})",
                 {{{7}, {5, 30}, {30}, {7, 3, 5}, {5}, {3, 1}, {2, 5, 6, 7}, {6, 1}, {7}, {2, 5, 6, 2}, {5, 1, 1}},
                  {{7}, {1, 30}, {30}, {7, 3, 5}, {1}, {3, 1}, {2, 1, 6, 7}, {6, 1}, {7}, {2, 1, 6, 2}, {1, 1, 1}},
                  {{7}, {0, 30}, {30}, {7, 3, 5}, {0}, {3, 1}, {2, 0, 6, 7}, {6, 1}, {7}, {2, 0, 6, 2}, {0, 1, 1}}});
}

TEST_CASE("cpu: scatter_elements, duplicates in order") {
  const InputSizes sizes{{{4, 5, 6}, {4, 9, 6}, {4, 9, 6}},
                         {{1, 7, 6}, {1, 1, 6}, {1, 1, 6}},
                         {{0, 5, 6}, {0, 3, 6}, {0, 3, 6}},
                         {{2, 5, 6}, {2, 0, 6}, {2, 0, 6}}};
  for (const char* type : {"f32", "f16", "i64"}) {
    for (const char* fn : {"replace", "add", "mul", "min", "max"}) {
      compare_on_cpu(cat("program \"p\"\nsymbol n min=0\nsymbol a\nsymbol b min=0\nmodule main {\n",
                         "  %x = parameter {name=\"x\", type=", type, "[n,a,6]}\n",
                         "  %i = parameter {name=\"i\", type=i64[n,b,6]}\n  %u = parameter {name=\"u\", type=", type,
                         "[n,b,6]}\n  %y = scatter_elements %x, %i, %u {axis=1, fn=", fn, "}\n  return \"y\"=%y\n}\n"),
                     sizes);
    }
  }
}

TEST_CASE("cpu: scatter_nd of slices and elements, duplicates in order") {
  const InputSizes sizes{{{5, 5, 1500}, {7, 1}, {7, 5, 1500}, {9, 2}, {9, 1500}},
                         {{6, 5, 1500}, {1, 1}, {1, 5, 1500}, {0, 2}, {0, 1500}}};
  for (const char* fn : {"replace", "add", "max"}) {
    compare_on_cpu(cat(R"(program "p"
symbol n min=0
symbol m min=0
symbol l min=0
module main {
  %x = parameter {name="x", type=f32[n,5,1500]}
  %i = parameter {name="i", type=i64[m,1]}
  %u = parameter {name="u", type=f32[m,5,1500]}
  %j = parameter {name="j", type=i32[l,2]}
  %v = parameter {name="v", type=f32[l,1500]}
  %y = scatter_nd %x, %i, %u {fn=)",
                       fn, "}\n  %z = scatter_nd %y, %j, %v {fn=", fn, "}\n  return \"y\"=%y, \"z\"=%z\n}\n"),
                   sizes);
  }
}

TEST_CASE("cpu: an index out of range is an error") {
  const std::string text = R"(program "p"
module main {
  %x = parameter {name="x", type=f32[1,2]}
  %i = parameter {name="i", type=i64[1,3]}
  %y = gather_elements %x, %i {axis=1}
  return "y"=%y
})";
  Tensor x = make_tensor(DType::f32, {1, 2}, std::vector<double>{5, 6});
  CHECK_NOTHROW(run_on_cpu(text, {x, make_tensor(DType::i64, {1, 3}, std::vector<double>{0, 1, -2})}));
  CHECK_THROWS_AS(run_on_cpu(text, {x, make_tensor(DType::i64, {1, 3}, std::vector<double>{0, 2, 1})}), Error);
}
