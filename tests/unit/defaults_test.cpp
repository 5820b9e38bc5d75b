// SPDX-License-Identifier: Apache-2.0
// Initializers that are also inputs: omitted, given or fixed by the caller.
#include <doctest/doctest.h>

#include <unistd.h>

#include <filesystem>

#include "base/error.h"
#include "compile.h"
#include "errors.h"
#include "onnx_writer.h"

namespace {

using namespace weft;
using namespace weft::test;

/// Returns a model of y = relu(conv(x, w, b)) + x @ m, where the caller may override w, b and m.
Bytes overridable_model(int64_t ir_version = 9) {
  Message graph;
  graph.text(2, "g")
      .message(11, value("x", 1, {"n", "1", "4", "4"}))
      .message(11, value("w", 1, {"1", "1", "3", "3"}))
      .message(11, value("m", 1, {"4", "4"}))
      .message(11, value("b", 1, {"1"}))
      .message(12, value("y", 1, {}));
  graph.message(5, float_tensor("w", {1, 1, 3, 3}, {0, 0, 0, 0, 1, 0, 0, 0, 0}))
      .message(5, float_tensor("m", {4, 4}, {2, 0, 0, 0, 0, 2, 0, 0, 0, 0, 2, 0, 0, 0, 0, 2}))
      .message(5, float_tensor("b", {1}, {0.5}));
  Message pads = Message().text(1, "pads").packed(8, {1, 1, 1, 1}).number(20, 7);
  graph.message(1, node("Conv", {"x", "w", "b"}, {"c"}).message(5, pads))
      .message(1, node("Relu", {"c"}, {"r"}))
      .message(1, node("MatMul", {"x", "m"}, {"p"}))
      .message(1, node("Add", {"r", "p"}, {"y"}));
  Message m = Message().number(1, ir_version).message(8, Message().text(1, "").number(2, 18)).message(7, graph);
  return Bytes::copy(as_bytes(m.data));
}

Tensor filled(std::vector<int64_t> dims, double value) {
  return make_tensor(DType::f32, dims, std::vector<double>(static_cast<size_t>(element_count(dims)), value));
}

std::vector<double> run(const Executable& model, const std::vector<Tensor>& inputs) {
  return to_doubles(model.new_context()->run(inputs)[0]);
}

}  // namespace

TEST_CASE("initializers that are inputs are used unless the caller gives others") {
  Tensor x = filled({2, 1, 4, 4}, 1), zero_kernel = filled({1, 1, 3, 3}, 0), ones = filled({4, 4}, 1);
  for (const char* device : {"ref", "cpu"}) {
    auto model = compile_bytes(overridable_model(), {.device = device, .threads = 1});
    REQUIRE(model->inputs().size() == 4);
    CHECK(!model->inputs()[0].default_value);
    CHECK(model->inputs()[1].default_value.has_value());
    CHECK(run(*model, {x}) == std::vector<double>(32, 3.5));                  // 1 + 0.5 + 2
    CHECK(run(*model, {x, zero_kernel}) == std::vector<double>(32, 2.5));     // 0 + 0.5 + 2
    CHECK(run(*model, {x, Tensor{}, ones}) == std::vector<double>(32, 5.5));  // 1 + 0.5 + 4
    CHECK(run(*model, {x, Tensor{}, Tensor{}, filled({1}, -9)}) == std::vector<double>(32, 2));
    CHECK(run(*model, {x}) == std::vector<double>(32, 3.5));
    CHECK(code_of([&] { run(*model, {x, filled({1, 1, 5, 5}, 0)}); }) == "E311");
  }
}

TEST_CASE("a saved program keeps its defaults") {
  auto path = std::filesystem::temp_directory_path() / cat("weft_defaults_", getpid(), ".weft");
  compile_bytes(overridable_model(), {.device = "cpu", .threads = 1})->save(path);
  auto model = compile_file(path);
  std::filesystem::remove(path);
  CHECK(run(*model, {filled({1, 1, 4, 4}, 1)}) == std::vector<double>(16, 3.5));
}

TEST_CASE("fixed defaults are folded; initializers of older files are never inputs") {
  auto fixed = compile_bytes(overridable_model(), {.device = "cpu", .threads = 1, .fixed_defaults = {"w", "?"}});
  CHECK(fixed->inputs().size() == 1);
  auto old = compile_bytes(overridable_model(3), {.device = "cpu", .threads = 1});
  CHECK(old->inputs().size() == 1);
  Tensor x = filled({1, 1, 4, 4}, 1);
  CHECK(run(*fixed, {x}) == run(*old, {x}));
}

TEST_CASE("an initializer must fit the input it belongs to") {
  Message graph;
  graph.text(2, "g").message(11, value("w", 1, {"3"})).message(12, value("y", 1, {}));
  graph.message(5, float_tensor("w", {2}, {1, 2})).message(1, node("Relu", {"w"}, {"y"}));
  CHECK(code_of([&] { compile_bytes(Bytes::copy(as_bytes(model(graph).data))); }) == "E151");
}
