// SPDX-License-Identifier: Apache-2.0
// Sizes that a run computes, and control flow: programs in text form on the CPU and on the reference.
#include <doctest/doctest.h>
#include <unistd.h>

#include <thread>

#include "base/error.h"
#include "compile.h"
#include "errors.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "ops/registry.h"
#include "passes/inline_control.h"

using namespace weft;
using weft::test::code_of;

namespace {

using Inputs = std::vector<Tensor>;

Tensor vector_of(std::vector<double> values, DType type = DType::f32) {
  return make_tensor(type, {std::ssize(values)}, values);
}
Tensor scalar(DType type, double value) { return scalar_tensor(type, value); }

std::shared_ptr<Executable> compiled(const std::string& text, const std::string& device) {
  auto program = parse_program(text, make_op);
  verify(*program, "parsing");
  CHECK(print(*parse_program(print(*program), make_op)) == print(*program));
  return compile(std::move(program), {.device = device, .threads = 2});
}

/// Runs all cases twice on the CPU and on the reference; results must be equal. Returns the CPU's results.
std::vector<std::vector<Tensor>> run_everywhere(const std::string& text, const std::vector<Inputs>& cases) {
  auto cpu = compiled(text, "cpu"), ref = compiled(text, "ref");
  auto on_cpu = cpu->new_context(), on_ref = ref->new_context();
  std::vector<std::vector<Tensor>> all;
  for (int round = 0; round < 2; ++round) {
    for (const Inputs& inputs : cases) {
      auto got = on_cpu->run(inputs), wanted = on_ref->run(inputs);
      REQUIRE(got.size() == wanted.size());
      for (size_t i = 0; i < got.size(); ++i) {
        INFO(describe(got[i]), " where ", describe(wanted[i]));
        CHECK(got[i] == wanted[i]);
      }
      all.push_back(std::move(got));
    }
  }
  return all;
}

// Selects and squares the elements above 0. Their number, the size of the result, is known only in the run.
constexpr const char* positive = R"(program "positive"
symbol n min=0
symbol found min=0
module main {
  %x = parameter {name="x", type=f32[n]}
  %zero = constant {value=f32[]{0}}
  %zeros = broadcast %zero {dims=[n]}
  %is = greater %x, %zeros
  %one = convert %is {to=i64}
  %count = reduce %one {fn=sum, axes=[0], keep=true}
  %b = bind %count {symbols=[found], most=[n]}
  %up = scan %one {fn=sum, axis=0}
  %1 = constant {value=i64[]{1}}
  %ones = broadcast %1 {dims=[n]}
  %place = sub %up, %ones
  %last = sizes {dims=[found]}
  %lasts = broadcast %last {dims=[n]}
  %to = select %is, %place, %lasts
  %fill = broadcast %zero {dims=[found + 1]}
  %all = scatter_elements %fill, %to, %x {axis=0}
  %some = slice %all {starts=[0], sizes=[found], steps=[1]}
  %squared = mul %some, %some
  %both = concat %squared, %some {axis=0}
  %length = sizes {dims=[found, 2*found]}
  return "squared"=%squared, "both"=%both, "length"=%length
})";

}  // namespace

TEST_CASE("control: a size that depends on data") {
  const std::string text = positive;
  auto results = run_everywhere(
      text, {{vector_of({1, -2, 3})}, {vector_of({-1, -2})}, {vector_of({})}, {vector_of({4, 5, 6, 7, 8})}});
  CHECK(results[0][0] == vector_of({1, 9}));
  CHECK(results[0][1] == vector_of({1, 9, 1, 3}));
  CHECK(results[1][0] == vector_of({}));
  CHECK(results[3][2] == vector_of({5, 10}, DType::i64));
}

TEST_CASE("control: a result whose sizes are known only after it is computed") {
  constexpr const char* text = R"(program "late"
symbol n min=0
symbol m min=0
module main {
  %x = parameter {name="x", type=f32[6]}
  %s = parameter {name="s", type=i64[2]}
  %a = add %x, %x
  %b = bind %s {symbols=[n, m]}
  %y = reshape %a {dims=[n, m]}
  return "y"=%y
})";
  std::vector<Inputs> cases;
  for (double rows : {1, 2, 6})
    cases.push_back({vector_of({1, 2, 3, 4, 5, 6}), vector_of({rows, 6 / rows}, DType::i64)});
  auto results = run_everywhere(text, cases);
  CHECK(results[1][0].dims == std::vector<int64_t>{2, 3});
  CHECK(to_doubles(results[1][0]) == std::vector<double>{2, 4, 6, 8, 10, 12});
}

TEST_CASE("control: memory of run-time sizes is used again, by one context for itself") {
  const std::string text = positive;
  auto cpu = compiled(text, "cpu");
  auto context = cpu->new_context();
  std::vector<double> many(5000, 2);
  context->run(Inputs{vector_of(many)});
  int64_t peak = context->peak_memory_bytes();
  CHECK(peak >= 5000 * 4);
  for (int i = 0; i < 20; ++i) context->run(Inputs{vector_of(many)});
  CHECK(context->peak_memory_bytes() == peak);
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      auto own = cpu->new_context();
      for (int i = 0; i < 30; ++i) {
        std::vector<double> values(static_cast<size_t>(100 + 37 * t + i), 3);
        CHECK(own->run(Inputs{vector_of(values)})[0].dims[0] == std::ssize(values));
      }
    });
  }
  for (auto& thread : threads) thread.join();
}

TEST_CASE("control: a size outside its bounds and a guard on one are refused with the node") {
  constexpr const char* text = R"weft(program "g"
symbol k min=1 max=4
module main {
  %x = parameter {name="x", type=f32[3]}
  %n = parameter {name="n", type=i64[1]}
  %b = bind %n {symbols=[k]}  // from "node 1 'n' (Expand)"
  %z = constant {value=f32[]{1}}
  %y = broadcast %z {dims=[k]}
  %s = add %x, %y  // from "node 2 'sum' (Add)"
  return "s"=%s
})weft";
  for (const char* device : {"cpu", "ref"}) {
    auto program = compiled(text, device);
    auto run = [&](double n) {
      return program->new_context()->run(Inputs{vector_of({1, 2, 3}), vector_of({n}, DType::i64)});
    };
    CHECK(run(3)[0] == vector_of({2, 3, 4}));
    CHECK(code_of([&] { run(0); }) == "E314");
    CHECK(code_of([&] { run(5); }) == "E314");
    CHECK(code_of([&] { run(2); }) == "E312");
    try {
      run(2);
    } catch (const Error& error) {
      CHECK(error.info().where.find("'sum'") != std::string::npos);
    }
    CHECK(run(3)[0] == vector_of({2, 3, 4}));  // in a new context, after a failed run
  }
}

TEST_CASE("control: an if whose branches give equal sizes, and different ones") {
  constexpr const char* text = R"(program "if"
symbol n min=0
symbol m min=0
module main {
  %x = parameter {name="x", type=f32[n]}
  %c = parameter {name="c", type=bool[]}
  %i = if %c, %x, %x, %x [yes, no] {first=1, types=[f32[n], f32[m]], sets=[m]}
  %r = mul %i.1, %i.1
  %e = exp %i
  %s = sizes {dims=[m]}
  return "e"=%e, "r"=%r, "raw"=%i, "s"=%s
}
module yes {
  %a = parameter {name="a", type=f32[n]}
  %neg = neg %a
  %two = concat %a, %neg {axis=0}
  return "a"=%neg, "b"=%two
}
module no {
  %d = parameter {name="d", type=f32[n]}
  %unused = parameter {name="unused", type=f32[n]}
  %one = constant {value=f32[1]{7}}
  return "a"=%d, "b"=%one
})";
  auto yes = scalar(DType::boolean, 1), no = scalar(DType::boolean, 0);
  auto results = run_everywhere(
      text, {{vector_of({1, 2}), yes}, {vector_of({1, 2}), no}, {vector_of({}), yes}, {vector_of({}), no}});
  CHECK(results[0][1] == vector_of({1, 4, 1, 4}));
  CHECK(results[0][2] == vector_of({-1, -2}));
  CHECK(results[1][1] == vector_of({49}));
  CHECK(results[2][3] == vector_of({0}, DType::i64));
}

TEST_CASE("control: a guard of a branch is checked only when the branch is taken") {
  constexpr const char* text = R"(program "g"
symbol n min=0
symbol m min=0
module main {
  %x = parameter {name="x", type=f32[n]}
  %y = parameter {name="y", type=f32[m]}
  %c = parameter {name="c", type=bool[]}
  %i = if %c, %x, %y, %x [yes, no] {first=2, types=[f32[n]], sets=[]}
  return "i"=%i
}
module yes {
  %a = parameter {name="a", type=f32[n]}
  %b = parameter {name="b", type=f32[m]}
  %s = add %a, %b
  return "s"=%s
}
module no {
  %d = parameter {name="d", type=f32[n]}
  return "d"=%d
})";
  for (const char* device : {"cpu", "ref"}) {
    auto context = compiled(text, device)->new_context();
    auto run = [&](bool c) {
      return context->run(Inputs{vector_of({1, 2}), vector_of({5}), scalar(DType::boolean, c)});
    };
    CHECK(run(false)[0] == vector_of({1, 2}));
    CHECK(code_of([&] { run(true); }) == "E312");
    CHECK(run(false)[0] == vector_of({1, 2}));
  }
}

TEST_CASE("control: loops with fixed, symbolic and open ends, carried values that change places, rows") {
  constexpr const char* text = R"(program "loop"
symbol n min=0
symbol t min=0
symbol made min=0
symbol u min=0
module main {
  %x = parameter {name="x", type=f32[n,2]}
  %limit = parameter {name="limit", type=f32[]}
  %a0 = constant {value=f32[2]{0, 1}}
  %b0 = constant {value=f32[2]{1, 1}}
  %l = loop %a0, %b0, %x [body] {counter=t, trips=n, count=n, carried=2, types=[f32[2], f32[2], f32[n,2]]}
  %yes = constant {value=bool[]{1}}
  %w = loop %yes, %a0, %limit [while] {counter=u, count=made, conditional=true, carried=1, types=[f32[2], f32[made,2]], sets=[made]}
  %s = sizes {dims=[made]}
  %sum = add %l, %w
  return "a"=%l, "b"=%l.1, "rows"=%l.2, "w"=%w, "steps"=%w.1, "made"=%s, "sum"=%sum
}
module body {
  %a = parameter {name="a", type=f32[2]}
  %b = parameter {name="b", type=f32[2]}
  %all = parameter {name="all", type=f32[n,2]}
  %row = slice %all {starts=[t, 0], sizes=[1, 2], steps=[1, 1]}
  %flat = reshape %row {dims=[2]}
  %next = add %a, %flat
  return "a"=%b, "b"=%next, "row"=%next
}
module while {
  %v = parameter {name="v", type=f32[2]}
  %most = parameter {name="most", type=f32[]}
  %one = constant {value=f32[2]{1, 1}}
  %more = add %v, %one
  %total = reduce %more {fn=sum, axes=[0], keep=false}
  %on = less %total, %most
  return "on"=%on, "v"=%more, "row"=%v
})";
  auto rows = [](int64_t n) {
    std::vector<double> values;
    for (int64_t i = 0; i < 2 * n; ++i) values.push_back(static_cast<double>(i % 7));
    return make_tensor(DType::f32, {n, 2}, values);
  };
  auto results = run_everywhere(text, {{rows(3), scalar(DType::f32, 8)},
                                       {rows(0), scalar(DType::f32, -1)},
                                       {rows(1), scalar(DType::f32, 100)},
                                       {rows(40), scalar(DType::f32, 300)}});
  CHECK(results[0][0] == vector_of({3, 4}));
  CHECK(results[0][5] == vector_of({4}, DType::i64));
  CHECK(results[1][0] == vector_of({0, 1}));
  CHECK(results[1][2].dims == std::vector<int64_t>{0, 2});
  CHECK(results[1][5] == vector_of({1}, DType::i64));
}

TEST_CASE("control: a carried value that grows, in a loop in a loop, and rows that only the body knows") {
  constexpr const char* text = R"(program "grow"
symbol n min=0
symbol t min=0
symbol u min=0
symbol c min=0
symbol d min=0
symbol r min=0
symbol s min=0
symbol k min=0
symbol q min=0
module main {
  %x = parameter {name="x", type=f32[n]}
  %start = constant {value=f32[1]{5}}
  %l = loop %start, %x [outer] {counter=t, trips=n, count=n, carried=1, types=[f32[r], f32[n,q]], carries=[c], sets=[r, q]}
  %e = mul %l, %l
  return "l"=%l, "e"=%e, "rows"=%l.1
}
module outer {
  %v = parameter {name="v", type=f32[c]}
  %x1 = parameter {name="x", type=f32[n]}
  %m = loop %v, %x1 [inner] {counter=u, trips=t + 1, count=t + 1, carried=1, types=[f32[s]], carries=[d], sets=[s]}
  %n2 = sizes {dims=[n - 1]}
  %b = bind %n2 {symbols=[k]}
  %some = slice %x1 {starts=[0], sizes=[k], steps=[1]}
  %twice = add %some, %some
  return "v"=%m, "row"=%twice
}
module inner {
  %w = parameter {name="w", type=f32[d]}
  %x2 = parameter {name="x", type=f32[n]}
  %one = slice %x2 {starts=[u], sizes=[1], steps=[1]}
  %longer = concat %w, %one {axis=0}
  return "w"=%longer
})";
  auto results = run_everywhere(
      text, {{vector_of({1, 2, 3})}, {vector_of({})}, {vector_of({4})}, {vector_of({1, 2, 3, 4, 5, 6, 7, 8, 9})}});
  CHECK(results[0][0] == vector_of({5, 1, 1, 2, 1, 2, 3}));
  CHECK(results[0][2] == make_tensor(DType::f32, {3, 2}, std::vector<double>{2, 4, 2, 4, 2, 4}));
  CHECK(results[1][0] == vector_of({5}));
  CHECK(results[1][2].dims == std::vector<int64_t>{0, 0});
  CHECK(results[2][0] == vector_of({5, 4}));
}

TEST_CASE("control: rows of a loop that differ in size are refused") {
  constexpr const char* text = R"(program "rows"
symbol t min=0
symbol q min=0
symbol z min=0
module main {
  %x = parameter {name="x", type=f32[4]}
  %l = loop %x [body] {counter=t, trips=3, count=3, types=[f32[3,q]], sets=[q]}
  return "l"=%l
}
module body {
  %v = parameter {name="v", type=f32[4]}
  %n = sizes {dims=[t + 1]}
  %b = bind %n {symbols=[z]}
  %s = slice %v {starts=[0], sizes=[z], steps=[1]}
  %e = exp %s
  return "s"=%e
})";
  for (const char* device : {"cpu", "ref"}) {
    auto program = compiled(text, device);
    CHECK(code_of([&] { program->new_context()->run(Inputs{vector_of({1, 2, 3, 4})}); }) == "E312");
  }
}

TEST_CASE("control: a branch or loop that is decided while compiling is removed") {
  auto program = parse_program(R"(program "p"
symbol t min=0
symbol m min=0
symbol c min=0
module main {
  %x = parameter {name="x", type=f32[2]}
  %yes = constant {value=bool[]{1}}
  %i = if %yes, %x [a, b] {first=1, types=[f32[m]], sets=[m]}
  %l = loop %i [body] {counter=t, trips=3, count=3, carried=1, types=[f32[c]], carries=[c], sets=[c]}
  %e = exp %l
  return "e"=%e
}
module a {
  %p = parameter {name="p", type=f32[2]}
  %n = neg %p
  return "n"=%n
}
module b {
  %one = constant {value=f32[1]{7}}
  return "one"=%one
}
module body {
  %v = parameter {name="v", type=f32[c]}
  %w = concat %v, %v {axis=0}
  return "w"=%w
})",
                               make_op);
  CHECK(inline_control(program->main()));
  program->main().remove_dead();
  program->remove_unused_modules();
  verify(*program, "inlining");
  std::string text = print(*program);
  INFO(text);
  CHECK(program->modules().size() == 1);
  CHECK(program->main().results()[0].value.dims() == Dims{16});
  CHECK(text.find("= neg") != std::string::npos);
}

TEST_CASE("control: bodies nested too deep, in themselves or shared are refused") {
  auto wrap = [](const std::string& body) {
    return cat("module main {\n  %c = parameter {name=\"c\", type=bool[]}\n", body, "}\n");
  };
  CHECK(code_of([&] { parse_program(wrap("  %i = if %c [main, main] {types=[]}\n"), make_op); }) == "E158");
  std::string deep = wrap("  %i = loop [m1] {counter=t, trips=1, count=1}\n");
  for (int i = 1; i < 80; ++i)
    deep +=
        cat("module m", i, " {\n  %i", i, " = loop [m", i + 1, "] {counter=t", i, ", trips=1, count=1}\n  return\n}\n");
  CHECK(code_of([&] { parse_program(deep + "module m80 {\n  return\n}\n", make_op); }) == "E152");
}

TEST_CASE("control: saved programs keep control flow") {
  const std::string text = positive;
  auto path = std::filesystem::temp_directory_path() / cat("weft-control-", ::getpid(), ".weft");
  auto fresh = compiled(text, "cpu");
  fresh->save(path);
  auto loaded = compile_file(path);
  std::filesystem::remove(path);
  Inputs inputs{vector_of({3, -1, 2})};
  CHECK(loaded->new_context()->run(inputs)[1] == fresh->new_context()->run(inputs)[1]);
}
