// SPDX-License-Identifier: Apache-2.0
// Outputs in the memory of inputs: donated inputs, or the same memory given for both.
#include <doctest/doctest.h>

#include <numeric>
#include <string>

#include "answers.h"
#include "weft/weft.hpp"

namespace {

using namespace weft::test;
using Floats = std::vector<float>;

weft::Program compile(const std::string& body, const std::vector<std::string>& donations = {}) {
  return weft::Graph::parse(body).compile({.device = "cpu", .threads = 1, .donations = donations});
}

/// A program that sets cache[slot] = row and sums the updated cache.
const char* const slots = R"--(
module main {
  %cache = parameter {name="cache", type=f32[8,4]}
  %slot = parameter {name="slot", type=i64[1,1]}
  %row = parameter {name="row", type=f32[1,4]}
  %next = scatter_nd %cache, %slot, %row {fn=replace}
  %sum = reduce %next {axes=[0, 1], fn=sum}
  return "next"=%next, "sum"=%sum
}
)--";

/// A program that updates the cache, and afterwards reads the old cache.
const char* const needed = R"--(
module main {
  %cache = parameter {name="cache", type=f32[8,4]}
  %slot = parameter {name="slot", type=i64[1,1]}
  %row = parameter {name="row", type=f32[1,4]}
  %next = scatter_nd %cache, %slot, %row {fn=replace}
  %first = reduce %next {axes=[0, 1], fn=sum}
  %old = reduce %cache {axes=[0, 1], fn=max}
  %sum = sub %first, %old
  return "next"=%next, "sum"=%sum
}
)--";

/// A program with a cache that grows at its end.
const char* const growing = R"--(
symbol past min=0 max=64
module main {
  %cache = parameter {name="cache", type=f32[1,past,4]}
  %row = parameter {name="row", type=f32[1,1,4]}
  %next = concat %cache, %row {axis=1}
  %sum = reduce %next {axes=[0, 1, 2], fn=sum}
  return "next"=%next, "sum"=%sum
}
)--";

/// A program whose cache has room for further rows; the cache is extended only if it has fewer rows than `total`.
const char* const roomy = R"--(
symbol past min=1 max=64
symbol total min=1 max=64
module main {
  %cache = parameter {name="cache", type=f32[past,4]}
  %upto = parameter {name="upto", type=f32[total]}
  %slot = parameter {name="slot", type=i64[1,4]}
  %row = parameter {name="row", type=f32[1,4]}
  %zero = constant {value=f32[]{0}}
  %wide = pad %cache, %zero {before=[0, 0], after=[max(past, total) - past, 0], mode=constant}
  %next = scatter_elements %wide, %slot, %row {axis=0, fn=replace}
  %sum = reduce %upto {axes=[0], fn=sum}
  return "next"=%next, "sum"=%sum
}
)--";

struct Step {
  Floats cache = Floats(32), row{1, 2, 3, 4};
  int64_t slot = 3;
  Step() { std::iota(cache.begin(), cache.end(), 0.0f); }
  std::vector<weft::Tensor> inputs() {
    return {weft::view<float>(cache, {8, 4}), weft::view<int64_t>(std::span(&slot, 1), {1, 1}),
            weft::view<float>(row, {1, 4})};
  }
};

Floats updated(const Step& step) {
  Floats wanted = step.cache;
  std::ranges::copy(step.row, wanted.begin() + 12);
  return wanted;
}

}  // namespace

TEST_CASE("a donated cache is updated in place, and only its new part is written") {
  Step step;
  Floats wanted = updated(step);
  weft::Program program = compile(slots, {"cache=next"});
  CHECK(program.report().find("output 'next' is written in the place of input 'cache'") != std::string::npos);
  weft::Context context = program.new_context();
  auto outputs = context.run(step.inputs());
  CHECK(static_cast<const void*>(outputs[0].bytes().data()) == step.cache.data());
  CHECK(step.cache == wanted);
  CHECK(outputs[1].as<float>()[0] == std::accumulate(wanted.begin(), wanted.end(), 0.0f));
  step.slot = 5;  // runs again, on the result of the last run
  std::ranges::copy(step.row, wanted.begin() + 20);
  CHECK(values_of(context.run(step.inputs())[0]) == wanted);
}

TEST_CASE(
    "without a donation, one memory for input and output is updated in place; other memory leaves the input "
    "unchanged") {
  for (const char* text : {slots, needed}) {
    Step step, untouched;
    Floats wanted = updated(step), elsewhere(32);
    weft::Context context = compile(text).new_context();
    auto expected = context.run(step.inputs());
    CHECK(step.cache == untouched.cache);
    CHECK(values_of(expected[0]) == wanted);
    context.run(step.inputs(), {.outputs = {{elsewhere.data(), 128}, {}}});
    CHECK(step.cache == untouched.cache);
    CHECK(elsewhere == wanted);
    auto outputs = context.run(step.inputs(), {.outputs = {{step.cache.data(), 128}, {}}});
    CHECK(step.cache == wanted);
    CHECK(values_of(outputs[1]) == values_of(expected[1]));  // `needed` reads a copy of the old cache
  }
}

TEST_CASE("an index out of range writes nothing into the caller's memory") {
  for (const char* op :
       {"%next = scatter_nd %cache, %slot, %row {fn=replace}", "%next = scatter_nd %cache, %slot, %row {fn=add}",
        "%four = broadcast %slot {dims=[1, 4]}\n  %next = scatter_elements %cache, %four, %row {axis=0, fn=replace}"}) {
    std::string text(slots);
    size_t line = text.find("%next"), end = text.find('\n', line);
    weft::Context context = compile(text.replace(line, end - line, op), {"cache=next"}).new_context();
    for (int64_t slot : {8, -9}) {
      Step step, untouched;
      step.slot = slot;
      CHECK(code_of([&] { context.run(step.inputs()); }) == "E301");
      CHECK(step.cache == untouched.cache);
    }
    Step step;
    step.slot = -1;
    CHECK(static_cast<const void*>(context.run(step.inputs())[0].bytes().data()) == step.cache.data());
    CHECK(step.cache[28] != 28);
  }
}

TEST_CASE("other overlaps of the caller's memory are copied or refused") {
  Step step;
  Floats room(64), wanted = updated(step);
  std::ranges::copy(step.cache, room.begin() + 4);
  weft::Context context = compile(slots).new_context();
  auto inputs = step.inputs();
  inputs[0] = weft::view<float>(std::span(room).subspan(4, 32), {8, 4});
  context.run(inputs, {.outputs = {{room.data(), 128}, {}}});
  CHECK(Floats(room.begin(), room.begin() + 32) == wanted);
  CHECK(code_of([&] { context.run(step.inputs(), {.outputs = {{room.data(), 128}, {room.data() + 31, 4}}}); }) ==
        "E313");
}

TEST_CASE("a donation that cannot be granted says why, and the answer is right") {
  Step step;
  Floats wanted = updated(step), before = step.cache;
  weft::Program program = compile(needed, {"cache=next"});
  CHECK(program.report().find("cannot take the place of input 'cache': ") != std::string::npos);
  CHECK(values_of(program.new_context().run(step.inputs())[0]) == wanted);
  CHECK(step.cache == before);
  CHECK(code_of([&] { compile(slots, {"cash=next"}); }) == "E310");
  CHECK(code_of([&] { compile(slots, {"cache=text"}); }) == "E310");
  CHECK(code_of([&] { compile(slots, {"cache=next", "row=next"}); }) == "E310");
  CHECK(code_of([&] { compile(slots, {"cache"}); }) == "E203");
}

TEST_CASE("a cache with room at its end grows without being copied") {
  Floats room(4 * 16, -1);
  Floats row{1, 2, 3, 4};
  weft::Program program = compile(growing);
  weft::Context context = program.new_context();
  float sum = 0;
  for (int64_t past = 0; past < 16; ++past) {
    auto outputs = context.run({weft::view<float>(std::span(room).first(static_cast<size_t>(past) * 4), {1, past, 4}),
                                weft::view<float>(row, {1, 1, 4})},
                               {.outputs = {{room.data(), room.size() * 4}, {}}});
    sum += 10;
    CHECK(outputs[1].as<float>()[0] == sum);
    CHECK(room[static_cast<size_t>(past) * 4 + 3] == 4);
  }
  CHECK(std::accumulate(room.begin(), room.end(), 0.0f) == sum);
}

TEST_CASE("elementwise operators work in place, unless they read other places too") {
  const char* same = R"--(
symbol n min=1 max=64
module main {
  %x = parameter {name="x", type=f32[n,4]}
  %y = exp %x
  %z = add %y, %x
  return "z"=%z
}
)--";
  const char* turned = R"--(
module main {
  %x = parameter {name="x", type=f32[4,4]}
  %t = transpose %x {permutation=[1, 0]}
  %z = add %t, %x
  return "z"=%z
}
)--";
  for (const char* text : {same, turned}) {
    Floats x(16);
    std::iota(x.begin(), x.end(), -3.0f);
    weft::Context context = compile(text, {"x=z"}).new_context();
    auto wanted = values_of(compile(text).new_context().run({weft::view<float>(x, {4, 4})})[0]);
    Floats old = x;
    CHECK(values_of(context.run({weft::view<float>(x, {4, 4})})[0]) == wanted);
    CHECK(x == (text == same ? wanted : old));
  }
}

TEST_CASE("a cache with room for the next row is updated in place, one without is extended") {
  weft::Context context = compile(roomy, {"cache=next"}).new_context();
  for (auto [past, total] : {std::pair{8, 5}, {8, 8}, {3, 5}}) {
    Floats memory(64, -1), upto(static_cast<size_t>(total), 1), row{7, 8, 9, 10};
    std::iota(memory.begin(), memory.begin() + past * 4, 0.0f);
    std::vector<int64_t> slot(4, total - 1);
    Floats wanted(memory.begin(), memory.begin() + past * 4);
    wanted.resize(static_cast<size_t>(std::max(past, total)) * 4);
    std::ranges::copy(row, wanted.begin() + (total - 1) * 4);
    auto outputs = context.run(
        {weft::view<float>(std::span(memory).first(static_cast<size_t>(past) * 4), {past, 4}),
         weft::view<float>(upto, {total}), weft::view<int64_t>(slot, {1, 4}), weft::view<float>(row, {1, 4})},
        {.outputs = {{memory.data(), wanted.size() * 4}, {}}});
    CHECK(values_of(outputs[0]) == wanted);
    CHECK(Floats(memory.begin(), memory.begin() + std::ssize(wanted)) == wanted);
  }
}

TEST_CASE("working memory: a result takes the place of an operand that is read for the last time") {
  // h2 = h1 w + h0: the product reads h1. Its epilogue reads h0 at exactly the elements that it writes.
  const std::string text = R"--(
symbol n min=1 max=1000
module main {
  %x = parameter {name="x", type=f32[n,16]}
  %w = parameter {name="w", type=f32[16,16]}
  %h0 = dot %x, %w
  %h1 = dot %h0, %w
  %p = dot %h1, %w
  %h2 = add %p, %h0
  %y = dot %h2, %w
  return "y"=%y
}
)--";
  // The same program, but with h0 read again by the last step.
  const std::string last = "%y = dot %h2, %w";
  const std::string kept =
      std::string(text).replace(text.find(last), last.size(), "%q = dot %h2, %w\n  %y = add %q, %h0");
  constexpr int64_t rows = 100, bytes = rows * 16 * 4;
  Floats x(rows * 16), w(16 * 16);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 7) - 3;
  for (size_t i = 0; i < w.size(); ++i) w[i] = static_cast<float>(i % 5) * 0.1f - 0.2f;
  std::vector<weft::Tensor> inputs{weft::view<float>(x, {rows, 16}), weft::view<float>(w, {16, 16})};
  for (const std::string& body : {text, kept}) {
    auto reference = weft::Graph::parse(body).compile({.device = "ref"});
    auto program = compile(body);
    auto context = program.new_context();
    Floats got = values_of(context.run(inputs)[0]), wanted = values_of(reference.new_context().run(inputs)[0]);
    for (size_t i = 0; i < got.size(); ++i) CHECK(got[i] == doctest::Approx(wanted[i]).epsilon(1e-4));
    weft_memory memory = context.memory();
    INFO(memory.arena);
    // The arena holds two values at a time, three if h0 is read again; and the packed w, because w is an input.
    CHECK(memory.arena >= 2 * bytes);
    CHECK((memory.arena < 3 * bytes) == (body == text));
  }
}
