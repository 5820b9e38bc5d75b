// SPDX-License-Identifier: Apache-2.0
// Modules: order, users, replacing, dead code; guards; the builders; the verifier.
#include <doctest/doctest.h>

#include "base/error.h"
#include "ir/core_ops.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "ops/build.h"

using namespace weft;

namespace {

std::vector<std::string> order_of(const Module& module) {
  std::vector<std::string> names;
  for (const Instruction& i : module) names.emplace_back(display_name(i.op));
  return names;
}
using Names = std::vector<std::string>;

}  // namespace

TEST_CASE("module: users follow every change") {
  Program program;
  Module& main = program.main();
  Value x = main.parameter("x", Shape{DType::f32, {4}});
  Value a = apply(main, Fn::exp, {x}), b = apply(main, Fn::mul, {a, a});
  main.set_results({{"b", b}});
  CHECK(a.def->users.size() == 2);
  Value c = apply(main, Fn::neg, {x});
  main.move_before(*c.def, b.def);
  main.replace(a, c);
  CHECK(a.def->users.empty());
  CHECK(c.def->users.size() == 2);
  verify(program, "replace");
  CHECK(main.remove_dead() == 1);
  CHECK(order_of(main) == Names{"parameter", "neg", "mul"});
  main.replace(b, c);
  CHECK(main.results()[0].value == c);
  CHECK(main.remove_dead() == 1);
  verify(program, "remove_dead");
}

TEST_CASE("verify: sizes may contradict each other if a guard of their node ends each run") {
  Program program;
  Module& main = program.main();
  const Dim n = program.symbol({.name = "n"});
  {
    SourceScope source(main, "node 3 (Add)");
    Value x = main.parameter("x", Shape{DType::f32, {n}}), y = main.parameter("y", Shape{DType::f32, {3}});
    main.set_results({{"z", main.append(Elementwise{.fn = Fn::add}, {x, broadcast(main, y, {n})})}});
  }
  CHECK(program.guards().size() == 1);
  program.replace_symbols([](const Symbol&) { return Dim(2); });
  verify(program, "replace_symbols");
  for (Instruction& i : main) i.source = "node 4 (Add)";
  CHECK_THROWS_AS(verify(program, "another source"), Error);
}

TEST_CASE("module: instructions can be inserted anywhere, any number of times") {
  Program program;
  Module& main = program.main();
  Value x = main.parameter("x", Shape{DType::f32, {4}});
  Value last = apply(main, Fn::exp, {x});
  main.set_results({{"y", last}});
  Value chain = x;
  // More insertions than the gaps between order numbers allow without renumbering.
  for (int i = 0; i < 200; ++i) {
    chain = main.insert_before(last.def, Elementwise{.fn = Fn::neg}, {chain});
    CHECK(chain.def->before(last.def));
  }
  main.set_input(*last.def, 0, chain);
  verify(program, "insert");
  CHECK(main.size() == 202);
}

TEST_CASE("module: replacements stand where they belong and keep the source") {
  Program program;
  Module& main = program.main();
  Value x = main.parameter("x", Shape{DType::f32, {4}});
  Value y;
  {
    SourceScope source(main, "node 3 'act' (Exp)");
    y = apply(main, Fn::exp, {x});
  }
  Value z = apply(main, Fn::neg, {y});
  main.set_results({{"z", z}});
  {
    ReplaceScope scope(main, *y.def);
    main.replace(y, apply(main, Fn::sqrt, {x}));
  }
  main.remove_dead();
  CHECK(order_of(main) == Names{"parameter", "sqrt", "neg"});
  CHECK(z.def->inputs[0].source() == "node 3 'act' (Exp)");
  CHECK(value_name(z.def->inputs[0]) == "%3 of node 3 'act' (Exp)");
  CHECK(apply(main, Fn::exp, {x}).source().empty());
}

TEST_CASE("module: a condition without a proof becomes a guard; one that is refuted is an error with the node") {
  Program program;
  Dim a = program.symbol({.name = "a"}), b = program.symbol({.name = "b"});
  Module& main = program.main();
  Value x = main.parameter("x", Shape{DType::f32, {a, 3}}), y = main.parameter("y", Shape{DType::f32, {b, 3}});
  SourceScope source(main, "node 9 'sum' (Add)");
  main.append(Elementwise{.fn = Fn::add}, {x, y});
  main.append(Elementwise{.fn = Fn::sub}, {x, y});
  REQUIRE(program.guards().size() == 1);  // the two instructions record one guard
  CHECK(program.guards()[0].source == "node 9 'sum' (Add)");
  CHECK(program.guards()[0].a == a);
  Value z = main.parameter("z", Shape{DType::f32, {a, 4}});
  CHECK_THROWS_WITH_AS(main.append(Elementwise{.fn = Fn::add}, {x, z}), doctest::Contains("node 9 'sum' (Add)"), Error);
  // Outside a module there is nothing to record a guard in.
  CHECK_THROWS_AS(require_equal(a, b, "sizes"), Error);
}

TEST_CASE("module: builders broadcast, and add no instruction without effect") {
  Program program;
  Dim n = program.symbol({.name = "n", .min = 0});
  Module& main = program.main();
  Value x = main.parameter("x", Shape{DType::f32, {n, 3}}), row = main.parameter("row", Shape{DType::f32, {3}});
  CHECK(apply(main, Fn::add, {x, row}).dims() == Dims{n, 3});
  CHECK(apply(main, Fn::mul, x, 2.0).dims() == Dims{n, 3});
  CHECK(reshape(main, x, {n, 3}) == x);
  CHECK(transpose(main, x, {0, 1}) == x);
  CHECK(convert(main, x, DType::f32) == x);
  CHECK(broadcast(main, x, {n, 3}) == x);
  CHECK(slice_axis(main, x, 0, 0, n) == x);
  Value w = main.parameter("w", Shape{DType::f32, {3, 5}});
  CHECK(matmul(main, x, w).dims() == Dims{n, 5});
  CHECK(matmul(main, row, w).dims() == Dims{5});
  CHECK(matmul(main, x, row).dims() == Dims{n});
  CHECK(matmul(main, row, row).dims() == Dims{});
  CHECK_THROWS_AS(apply(main, Fn::add, {x, w}), Error);
}

TEST_CASE("module: shape arithmetic is folded into sizes") {
  Program program;
  Dim n = program.symbol({.name = "n", .min = 1});
  Module& main = program.main();
  Value shape = sizes(main, {n, 12, 64});
  Value head = fold_sizes(main, slice_axis(main, shape, 0, 0, 1));
  CHECK(*known_contents(head) == Dims{n});
  Value two = constant(main, make_i64_tensor(std::vector<int64_t>{2}));
  Value doubled = fold_sizes(main, apply(main, Fn::mul, {head, two}));
  CHECK(*known_contents(doubled) == Dims{n * 2});
  Value halved = fold_sizes(main, apply(main, Fn::div, {doubled, two}));
  CHECK(*known_contents(halved) == Dims{n});
  Value all = fold_sizes(main, reduce(main, ReduceFn::product, shape, {0}, false));
  CHECK(*known_contents(all) == Dims{n * 768});
  // 0 < n is true for every size and folds to a constant; 2 < n does not.
  Value zero = constant(main, make_i64_tensor(std::vector<int64_t>{0}));
  CHECK(known_contents(fold_sizes(main, apply(main, Fn::less, {zero, head}))).has_value());
  CHECK_FALSE(known_contents(fold_sizes(main, apply(main, Fn::less, {two, head}))).has_value());
}

TEST_CASE("verify: a broken program is an internal error that names the pass") {
  Program program;
  Module& main = program.main();
  Value x = main.parameter("x", Shape{DType::f32, {4}});
  Value y = apply(main, Fn::exp, {x});
  main.set_results({{"y", y}});
  verify(program, "nothing");
  y.def->types[0] = Shape{DType::f32, {5}};
  CHECK_THROWS_WITH_AS(verify(program, "shrink"), doctest::Contains("after shrink"), Error);
  y.def->types[0] = Shape{DType::f32, {4}};
  x.def->users.clear();
  CHECK_THROWS_AS(verify(program, "forget"), Error);
}

TEST_CASE("module: results follow replacements of their values") {
  Program program;
  Module& main = program.main();
  Value x = main.parameter("x", Shape{DType::f32, {4}});
  Value y = apply(main, Fn::exp, {x}), z = apply(main, Fn::relu, {x});
  main.set_results({{"y", y}, {"again", y}, {"z", z}});
  CHECK((main.is_result(y) && main.is_result(z) && !main.is_result(x)));
  main.replace(y, z);
  CHECK((!main.is_result(y) && main.is_result(z)));
  for (const Result& result : main.results()) CHECK(result.value == z);
  main.replace(z, z);
  CHECK(main.is_result(z));
  main.replace(z, x);
  CHECK((main.is_result(x) && !main.is_result(z)));
  CHECK(main.results()[1].name == "again");
  main.set_results({{"y", y}});
  CHECK((main.is_result(y) && !main.is_result(x)));
}
