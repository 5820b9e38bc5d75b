// SPDX-License-Identifier: Apache-2.0
// Operators that the embedding program defines: source in the kernel language, and functions of the host.
#include <doctest/doctest.h>

#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <numeric>
#include <string>

#include "answers.h"
#include "onnx_writer.h"
#include "weft/weft.hpp"

namespace {

using namespace weft::test;
using Floats = std::vector<float>;

weft_operator pointwise_operator() {
  weft_operator op WEFT_OPERATOR_INIT;
  op.name = "mine:Squash";
  op.rule = "f32[...] -> f32[...]; f16[...] -> f16[...]";
  op.source = "template <class V> WEFT_INLINE V squash(V x) { return x / (V(f32(limit)) + absolute(x)); }";
  op.function = "squash";
  op.is_pointwise = 1;
  return op;
}

/// Returns an operator y[i] = sum over k of x[i, k] * w[k]; each task computes one row.
weft_operator whole_operator() {
  weft_operator op WEFT_OPERATOR_INIT;
  op.name = "mine:RowDot";
  op.rule = "f32[n,k], f32[k] -> f32[n]";
  op.source = R"--(
template <class L> WEFT_INLINE void row_dot(const L& launch, const f32* x, const f32* w, f32* y, i64 n, i64 k) {
  for (i64 i = launch.begin; i < launch.end; i++) {
    f32 sum = 0;
    for (i64 j = 0; j < k; j++) sum += x[i * k + j] * w[j];
    y[i] = sum;
  }
})--";
  op.function = "row_dot";
  op.tasks = "n";
  return op;
}

int32_t reverse(void* user, const char* attributes, void* const* buffers, const int64_t* sizes) {
  ++*static_cast<int*>(user);
  if (std::strcmp(attributes, "mode=\"fail\"") == 0) return 7;
  const auto* x = static_cast<const float*>(buffers[0]);
  auto* y = static_cast<float*>(buffers[1]);
  for (int64_t i = 0; i < sizes[0]; ++i) y[i] = x[sizes[0] - 1 - i];
  return 0;
}

weft_operator host_operator(int& calls) {
  weft_operator op WEFT_OPERATOR_INIT;
  op.name = "mine:Reverse";
  op.rule = "f32[n] -> f32[n]";
  op.call = reverse;
  op.user = &calls;
  return op;
}

std::string model_of(const Message& n, const std::vector<std::string>& dims) {
  Message graph = Message().text(2, "g").message(11, value("x", 1, dims)).message(12, value("y", 1, {}));
  graph.message(5, float_tensor("w", {3}, {1, 10, 100})).message(1, n);
  Message m = Message().number(1, 9).message(8, Message().text(1, "").number(2, 18));
  return m.message(8, Message().text(1, "mine").number(2, 1)).message(7, graph).data;
}
Message mine(const char* op, const std::vector<std::string>& inputs) {
  return node(op, inputs, {"y"}, "here").text(7, "mine");
}

weft::Program compile(const std::string& model, const weft_operator& op) {
  return weft::compile(std::as_bytes(std::span(model)), {.device = "cpu", .threads = 2, .operators = {op}});
}

weft::Error error_of(const auto& call) {
  try {
    call();
  } catch (const weft::Error& error) {
    return error;
  }
  return {WEFT_OK, "none", "nothing was thrown"};
}

}  // namespace

TEST_CASE("a pointwise operator in the kernel language, with an attribute, at any size") {
  Message limit = Message().text(1, "limit").float32(2, 3.0f).number(20, 1);
  weft::Program program = compile(model_of(mine("Squash", {"x"}).message(5, limit), {"n", "7"}), pointwise_operator());
  weft::Context context = program.new_context();
  for (int64_t n : {1, 5}) {
    Floats x(static_cast<size_t>(n) * 7);
    std::iota(x.begin(), x.end(), -3.0f);
    auto y = values_of(context.run({weft::view<float>(x, {n, 7})})[0]);
    for (size_t i = 0; i < x.size(); ++i) CHECK(y[i] == doctest::Approx(x[i] / (3 + std::abs(x[i]))));
  }
}

TEST_CASE("an operator over whole tensors is saved with the program") {
  auto path = std::filesystem::temp_directory_path() / ("weft_custom_" + std::to_string(getpid()) + ".weft");
  compile(model_of(mine("RowDot", {"x", "w"}), {"n", "3"}), whole_operator()).save(path.string());
  weft::Program program = weft::load(path.string());
  std::filesystem::remove(path);
  Floats x{1, 2, 3, 4, 5, 6};
  CHECK(values_of(program.new_context().run({weft::view<float>(x, {2, 3})})[0]) == Floats{321, 654});
}

TEST_CASE("a function of the host is called, and its failure names the node") {
  int calls = 0;
  weft_operator op = host_operator(calls);
  weft::Program program = compile(model_of(mine("Reverse", {"x"}), {"n"}), op);
  Floats x{1, 2, 3};
  CHECK(values_of(program.new_context().run({weft::view<float>(x, {3})})[0]) == Floats{3, 2, 1});
  CHECK(calls == 1);
  CHECK(error_of([&] { program.save("never.weft"); }).code() == "E406");
  Message mode = Message().text(1, "mode").text(4, "fail").number(20, 3);
  weft::Program failing = compile(model_of(mine("Reverse", {"x"}).message(5, mode), {"n"}), op);
  weft::Error error = error_of([&] { failing.new_context().run({weft::view<float>(x, {3})}); });
  CHECK(error.code() == "E302");
  CHECK(error.where() == "node 0 'here' (mine:Reverse)");
}

TEST_CASE("custom operators whose operands do not fit are refused with the node") {
  int calls = 0;
  std::string model = model_of(mine("RowDot", {"x", "w"}), {"n", "4"});
  CHECK(error_of([&] { compile(model, host_operator(calls)); }).code() == "E121");  // an operator of another name
  weft::Error error = error_of([&] { compile(model, whole_operator()); });
  CHECK(error.code() == "E151");  // 4 columns of x, 3 elements of w
  CHECK(error.where() == "node 0 'here' (mine:RowDot)");
  weft_operator broken = whole_operator();
  broken.source = "this is no C++";
  error = error_of([&] { compile(model_of(mine("RowDot", {"x", "w"}), {"n", "3"}), broken); });
  CHECK(error.code() == "E217");
  CHECK(error.where() == "node 0 'here' (mine:RowDot)");
  broken.source = nullptr;
  CHECK(error_of([&] { compile(model_of(mine("RowDot", {"x", "w"}), {"n", "3"}), broken); }).code() == "E217");
  broken = whole_operator();
  broken.rule = "f32[n,k], f32[k] -> f32[m]";
  CHECK(error_of([&] { compile(model_of(mine("RowDot", {"x", "w"}), {"n", "3"}), broken); }).code() == "E191");
}

TEST_CASE("a graph accepts custom operators") {
  weft::Graph graph;
  graph.add_operator(pointwise_operator());
  weft_value x = graph.input("x", "f32[n]");
  graph.output("y", graph.append("mine:Squash {limit=1.0}", {x}));
  Floats values{-1, 0, 1, 3};
  auto y = graph.compile({.device = "cpu"}).new_context().run({weft::view<float>(values, {4})})[0];
  CHECK(values_of(y) == Floats{-0.5f, 0, 0.5f, 0.75f});
}
