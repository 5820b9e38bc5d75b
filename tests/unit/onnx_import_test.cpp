// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <filesystem>

#include "base/error.h"
#include "frontends/onnx/file/reader.h"
#include "frontends/onnx/import/import.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "onnx_writer.h"

namespace {

using namespace weft;
using namespace weft::test;

/// A program and the model whose file it points into.
struct Imported {
  onnx::Model model;
  std::unique_ptr<Program> program;
};

Imported import_graph(const Message& m, const onnx::ImportOptions& options = {}) {
  Imported imported{onnx::read_model(Bytes::copy(as_bytes(m.data))), nullptr};
  imported.program = onnx::import_model(imported.model, options);
  verify(*imported.program, "import");
  return imported;
}

std::string text_of(const Message& graph, int64_t opset = 18) {
  return print(*import_graph(model(graph, opset)).program);
}

ErrorInfo error_of(const Message& m, const onnx::ImportOptions& options = {}) {
  try {
    import_graph(m, options);
  } catch (const Error& error) {
    return error.info();
  }
  return {};
}
ErrorInfo error_in(const Message& graph, int64_t opset = 18) { return error_of(model(graph, opset)); }

bool has(const std::string& text, std::string_view part) { return text.find(part) != text.npos; }

Message ints(std::string_view name, const std::vector<int64_t>& values) {
  return Message().text(1, name).packed(8, values).number(20, 7);
}
Message integer(std::string_view name, int64_t value) { return Message().text(1, name).number(3, value).number(20, 2); }
Message i64_tensor(std::string_view name, const std::vector<int64_t>& values) {
  return tensor(name, 7, {static_cast<int64_t>(values.size())}).packed(7, values);
}

/// Makes a graph with input x (f32 of `dims`) and output y of any shape.
Message graph_of(const std::vector<std::string>& dims) {
  return Message().text(2, "g").message(11, value("x", 1, dims)).message(12, value("y", 1, {}));
}
Message one_node(const Message& n, const std::vector<std::string>& dims) { return graph_of(dims).message(1, n); }

TEST_CASE("onnx import: sources, symbols and broadcasts") {
  auto text = text_of(
      one_node(node("Add", {"x", "w"}, {"y"}, "sum"), {"batch", "3"}).message(5, float_tensor("w", {3}, {1, 2, 3})));
  CHECK(has(text, "symbol batch"));
  CHECK(has(text, "parameter {name=\"x\", type=f32[batch,3]}"));
  CHECK(has(text, "add %0, "));
  CHECK(has(text, "// from \"node 0 'sum' (Add)\""));
}

TEST_CASE("onnx import: shape arithmetic stays symbolic") {
  // y = reshape(x, [shape(x)[0], shape(x)[1] * 4, -1])
  Message graph = graph_of({"batch", "seq", "8"});
  graph.message(5, i64_tensor("zero", {0})).message(5, i64_tensor("one", {1})).message(5, i64_tensor("four", {4}));
  graph.message(1, node("Shape", {"x"}, {"s"}));
  graph.message(1, node("Gather", {"s", "zero"}, {"b"})).message(1, node("Gather", {"s", "one"}, {"n"}));
  graph.message(1, node("Mul", {"n", "four"}, {"m"}));
  graph.message(1, node("Concat", {"b", "m", "open"}, {"t"}).message(5, integer("axis", 0)))
      .message(5, i64_tensor("open", {-1}));
  graph.message(1, node("Reshape", {"x", "t"}, {"y"}));
  CHECK(has(text_of(graph), "reshape %0 {dims=[batch, 4*seq, 2]}"));
}

TEST_CASE("onnx import: slices clamp, count from the end and go backwards") {
  auto sliced = [](std::vector<int64_t> start, std::vector<int64_t> end, std::vector<int64_t> step,
                   const std::string& dim) {
    Message graph = graph_of({dim});
    graph.message(1, node("Slice", {"x", "s", "e", "", "t"}, {"y"}));
    graph.message(5, i64_tensor("s", start)).message(5, i64_tensor("e", end)).message(5, i64_tensor("t", step));
    return text_of(graph);
  };
  auto open = sliced({2}, {INT64_MAX}, {1}, "n");
  CAPTURE(open);
  CHECK(has(open, "starts=[min(2, n)], sizes=[max(0, n - 2)]"));
  CHECK(has(sliced({-3}, {INT32_MAX}, {1}, "10"), "starts=[7], sizes=[3]"));
  CHECK(has(sliced({-1}, {INT64_MIN}, {-2}, "9"), "starts=[8], sizes=[5], steps=[-2]"));
  CHECK(has(sliced({4}, {2}, {1}, "9"), "sizes=[0]"));
}

TEST_CASE("onnx import: opsets side by side") {
  Message squeeze_old = node("Squeeze", {"x"}, {"y"}).message(5, ints("axes", {-1}));
  CHECK(has(text_of(one_node(squeeze_old, {"2", "1"}), 11), "reshape %0 {dims=[2]}"));
  Message squeeze_new = one_node(node("Squeeze", {"x", "a"}, {"y"}), {"2", "1"}).message(5, i64_tensor("a", {1}));
  CHECK(has(text_of(squeeze_new, 13), "reshape %0 {dims=[2]}"));
  Message softmax = node("Softmax", {"x"}, {"y"});
  CHECK(has(text_of(one_node(softmax, {"2", "3", "4"}), 12), "reshape %0 {dims=[2, 12]}"));
  CHECK(has(text_of(one_node(softmax, {"2", "3", "4"}), 13), "softmax %0 {axis=2"));
}

TEST_CASE("onnx import: nodes out of order") {
  Message graph = graph_of({"2"}).message(1, node("Relu", {"a"}, {"y"})).message(1, node("Neg", {"x"}, {"a"}));
  auto text = text_of(graph);
  CHECK(text.find("neg") < text.find("relu"));
}

TEST_CASE("onnx import: faults of the graph") {
  auto relu = [](std::string_view in, std::string_view out) {
    return node("Relu", {std::string(in)}, {std::string(out)});
  };
  auto missing =
      error_in(graph_of({"2"}).message(1, node("FrobnicateNet", {"x"}, {"y"}, "n")).message(1, relu("x", "z")));
  CHECK(missing.code == "E120");
  CHECK(has(missing.where, "node 0 'n' (FrobnicateNet)"));
  CHECK(has(error_in(graph_of({"2"}).message(1, node("Reluu", {"x"}, {"y"}))).hint, "Relu"));
  CHECK(error_in(one_node(node("MyOp", {"x"}, {"y"}).text(7, "com.acme"), {"2"})).code == "E121");
  auto cycle =
      error_in(graph_of({"2"}).message(1, relu("b", "a")).message(1, relu("a", "b")).message(1, relu("a", "y")));
  CHECK(cycle.code == "E130");
  CHECK(has(cycle.what, "node 0 (Relu) -> node 1 (Relu) -> node 0 (Relu)"));
  CHECK(has(error_in(graph_of({"2"}).message(1, relu("x", "y")).message(1, relu("x", "y"))).what,
            "'y' is made by nodes 0 and 1"));
  auto dangling = error_in(graph_of({"2"}).message(1, relu("xx", "y")));
  CHECK(dangling.code == "E132");
  CHECK(has(dangling.hint, "did you mean x?"));
  CHECK(error_in(graph_of({"2"})).code == "E133");
}

TEST_CASE("onnx import: all problems at once") {
  Message graph = graph_of({"2", "3"});
  graph.message(1, node("Concat", {"x"}, {"a"}).message(5, integer("axis", 7)));
  graph.message(1, node("Relu", {"a"}, {"b"}));  // fails because of the first node, so it is not reported
  graph.message(1, node("Relu", {"x"}, {"y"}).message(5, integer("depth", 7)));
  auto error = error_in(graph);
  CHECK(error.code == "E143");
  CHECK(has(error.why, "and 1 more"));
  CHECK(has(error.why, "[E141]"));
}

TEST_CASE("onnx import: faults of single nodes") {
  CHECK(error_in(one_node(node("Conv", {"x"}, {"y"}), {"1", "3", "8", "8"})).code == "E140");
  CHECK(error_in(one_node(node("Concat", {"x"}, {"y"}).message(5, Message().text(1, "axis").text(4, "s").number(20, 3)),
                          {"2"}))
            .code == "E141");
  CHECK(error_in(one_node(node("Cast", {"x"}, {"y"}), {"2"})).code == "E142");
  CHECK(error_in(one_node(node("Softmax", {"x"}, {"y"}).message(5, integer("axis", 7)), {"2", "3"})).code == "E143");
  Message pool = node("MaxPool", {"x"}, {"y"}).message(5, ints("kernel_shape", {3})).message(5, ints("strides", {0}));
  CHECK(error_in(one_node(pool, {"1", "1", "9"})).code == "E145");
  Message twice = one_node(node("Reshape", {"x", "s"}, {"y"}), {"6"}).message(5, i64_tensor("s", {-1, -1}));
  CHECK(error_in(twice).code == "E151");
  CHECK(error_in(one_node(node("Reshape", {"x", "s"}, {"y"}), {"6"}).message(5, i64_tensor("s", {4, 4}))).code ==
        "E151");
}

Message function(std::string_view name, const Message& body) {
  return Message()
      .text(1, name)
      .text(10, "f")
      .text(4, "a")
      .text(5, "b")
      .message(9, Message().number(2, 18))
      .message(7, body);
}

TEST_CASE("onnx import: functions") {
  Message axis = Message().text(1, "axis").text(21, "where").number(20, 2);
  Message f = function("F", node("Softmax", {"a"}, {"b"}, "s").message(5, axis)).text(6, "where");
  Message call = node("F", {"x"}, {"y"}, "call").text(7, "f").message(5, integer("where", 0));
  auto text = print(*import_graph(model(one_node(call, {"2", "3"})).message(25, f)).program);
  CHECK(has(text, "softmax %0 {axis=0"));
  CHECK(has(text, "node 0 's' (Softmax) in function f:F of node 0 'call' (f:F)"));
  Message loop = function("F", node("F", {"a"}, {"b"}).text(7, "f"));
  CHECK(error_of(model(one_node(call, {"2"})).message(25, loop)).code == "E154");
  // F0 calls F1 twice, F1 calls F2 twice ...: 2^40 nodes.
  Message bomb = model(one_node(node("F0", {"x"}, {"y"}).text(7, "f"), {"2"}));
  for (int i = 0; i < 40; ++i) {
    std::string next = "F" + std::to_string(i + 1);
    Message twice = function("F" + std::to_string(i), node(next, {"a"}, {"c"}).text(7, "f"));
    bomb.message(25, twice.message(7, node(next, {"c"}, {"b"}).text(7, "f")));
  }
  bomb.message(25, function("F40", node("Relu", {"a"}, {"b"})));
  CHECK(error_of(bomb).code == "E153");
}

/// Returns the attribute "body" of a Loop that carries s; `inner`, a node of the body, computes the next value s2.
Message loop_of(const Message& inner) {
  Message body = Message().text(2, "body").message(1, node("Identity", {"go"}, {"on"})).message(1, inner);
  body.message(11, value("i", 7, {})).message(11, value("go", 9, {})).message(11, value("s", 1, {"2"}));
  body.message(12, value("on", 9, {})).message(12, value("s2", 1, {"2"}));
  return Message().text(1, "body").message(6, body).number(20, 5);
}

TEST_CASE("onnx import: branches and loops") {
  Message three = tensor("trips", 7, {}).packed(7, {3});
  Message loop = node("Loop", {"trips", "", "x"}, {"y"}).message(5, loop_of(node("Neg", {"s"}, {"s2"})));
  auto text = text_of(one_node(loop, {"2"}).message(5, three));
  CHECK(has(text, "= loop %0 [loop] {counter=trip, trips=3, count=3, conditional=false, carried=1, types=[f32[2]]"));
  // Three nested loops of 4000 trips each are imported as three bodies, not unrolled.
  Message many = tensor("trips", 7, {}).packed(7, {4000});
  Message inner = node("Neg", {"s"}, {"s2"});
  for (int level = 0; level < 3; ++level)
    inner = node("Loop", {"trips", "", level == 2 ? "x" : "s"}, {level == 2 ? "y" : "s2"}).message(5, loop_of(inner));
  auto nested = text_of(one_node(inner, {"2"}).message(5, many));
  CHECK(has(nested, "[loop_2]"));
  CHECK(has(nested, "trips=4000"));
  Message yes = tensor("c", 9, {}).packed(5, {1});
  auto branch = [](std::string_view name, std::string_view op) {
    Message body = Message().text(2, "b").message(1, node(op, {"x"}, {"r"})).message(12, value("r", 1, {}));
    return Message().text(1, name).message(6, body).number(20, 5);
  };
  Message choice =
      node("If", {"c"}, {"y"}).message(5, branch("then_branch", "Exp")).message(5, branch("else_branch", "Log"));
  auto taken = text_of(one_node(choice, {"2"}).message(5, yes));
  CHECK(has(taken, "exp %0"));
  CHECK(!has(taken, "log %0"));
  auto either = text_of(one_node(choice, {"2"}).message(11, value("c", 9, {})));
  CHECK(has(either, "[then_branch, else_branch]"));
  CHECK(has(either, "parameter {name=\"outer0\", type=f32[2]}"));
}

TEST_CASE("onnx import: constants are computed while translating") {
  Message graph = graph_of({"2", "3"}).message(5, float_tensor("w", {1}, {4}));
  graph.message(1, node("Sqrt", {"w"}, {"root"}))
      .message(1, node("Cast", {"root"}, {"whole"}).message(5, integer("to", 7)));
  graph.message(1, node("Expand", {"x", "s"}, {"y"}))
      .message(1, node("Concat", {"whole", "rest"}, {"s"}).message(5, integer("axis", 0)));
  graph.message(5, i64_tensor("rest", {2, 3}));
  CHECK(has(text_of(graph), "broadcast %0 {dims=[2, 2, 3]}"));
}

TEST_CASE("onnx import: sizes given by the caller") {
  Message m = model(one_node(node("Relu", {"x"}, {"y"}), {"batch", "3"}));
  auto fixed = print(*import_graph(m, {.shapes = {{"x", {8, 3}}}}).program);
  CHECK(has(fixed, "f32[8,3]"));
  auto bounded = print(*import_graph(m, {.symbols = {{"batch", {.name = "batch", .min = 1, .max = 16}}}}).program);
  CHECK(has(bounded, "max=16"));
}

TEST_CASE("onnx import: the graphs of bench/models") {
  for (const auto& entry : std::filesystem::directory_iterator(std::string(WEFT_SOURCE_DIR) + "/bench/models")) {
    if (entry.path().extension() != ".onnx") continue;
    CAPTURE(entry.path().string());
    auto m = onnx::read_model(entry.path());
    auto program = onnx::import_model(m);
    verify(*program, "import");
    CHECK(program->main().results().size() == m.graph.outputs.size());
  }
}

}  // namespace
