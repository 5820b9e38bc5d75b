// SPDX-License-Identifier: Apache-2.0
// Static inputs through the C interface: a program is compiled for their values. More tests are in
// tests/python/test_static_inputs.py.
#include <doctest/doctest.h>

#include <array>
#include <span>
#include <string>
#include <vector>

#include "answers.h"
#include "onnx_writer.h"
#include "weft/weft.hpp"

using weft::test::code_of;

namespace {

constexpr int f32 = 1, i64 = 7;
constexpr std::array<float, 6> numbers{1, 2, 3, 4, 5, 6};

/// Returns a model of y = the sum of x along `axes`; both are inputs.
std::string sum_model() {
  using namespace weft::test;
  return model(Message()
                   .message(1, node("ReduceSum", {"x", "axes"}, {"y"}, "sum"))
                   .text(2, "g")
                   .message(11, value("x", f32, {"n", "3"}))
                   .message(11, value("axes", i64, {"k"}))
                   .message(12, value("y", f32, {"a", "b"})))
      .data;
}

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

std::vector<float> run(weft::Context& context, const std::vector<int64_t>& axes) {
  std::array<int64_t, 1> dims{std::ssize(axes)};
  auto value = weft::Tensor::copy(WEFT_I64, std::as_bytes(std::span(axes)), dims);
  auto y = context.run({weft::view<float>(numbers, {2, 3}), value});
  return {y[0].as<float>().begin(), y[0].as<float>().end()};
}

}  // namespace

TEST_CASE("a static input has any value, and each context runs the programs of several") {
  for (const char* device : {"ref", "cpu"}) {
    std::string model = sum_model();
    weft::Program program = weft::compile(bytes_of(model), {.device = device});
    REQUIRE(program.inputs().size() == 2);
    CHECK(program.inputs()[0].is_static == 0);
    CHECK(program.inputs()[1].is_static == 1);
    CHECK(program.outputs()[0].rank == 2);
    weft::Context context = program.new_context(), other = program.new_context();
    for (weft::Context* one : {&context, &other, &context}) {
      CHECK(run(*one, {0}) == std::vector<float>{5, 7, 9});
      CHECK(run(*one, {1}) == std::vector<float>{6, 15});
      CHECK(run(*one, {0, 1}) == std::vector<float>{21});
    }
    CHECK(program.report().find("3 so far") != std::string::npos);
    CHECK(program.report().find("\"is_static\":true") != std::string::npos);
  }
}

TEST_CASE("only the inputs that are named may be static") {
  std::string model = sum_model();
  auto compiled = [&](std::vector<std::string> names) {
    return code_of([&] { weft::compile(bytes_of(model), {.device = "cpu", .static_inputs = names}); });
  };
  CHECK(compiled({"x"}) == "E159");
  CHECK(compiled({""}) == "E159");
  CHECK(compiled({"ax*"}) == "none");
}

TEST_CASE("a graph of a model with static inputs compiles, and takes no instructions") {
  std::string model = sum_model();
  weft::Graph graph = weft::Graph::read(bytes_of(model));
  REQUIRE(graph.inputs().size() == 2);
  CHECK(graph.inputs()[1].is_static == 1);
  CHECK(code_of([&] { graph.input("more", "f32[2]"); }) == "E502");
  weft::Context context = graph.compile({.device = "cpu"}).new_context();
  CHECK(run(context, {1}) == std::vector<float>{6, 15});
  CHECK(run(context, {0}) == std::vector<float>{5, 7, 9});
}
