// SPDX-License-Identifier: Apache-2.0
// The C interface, called through weft.hpp or, where it must refuse, directly.
#include <doctest/doctest.h>

#include <array>
#include <cstdio>
#include <fstream>
#include <string>

#include "answers.h"
#include "base/log.h"
#include "onnx_writer.h"
#include "weft/weft.hpp"

using weft::test::code_of;

namespace {

/// Returns a program of y = x + x on the reference.
weft::Program doubler() {
  weft::Graph graph("double");
  graph.symbol("batch", 1, 8);
  weft_value x = graph.input("x", "f32[batch,2]");
  graph.output("y", graph.append("add", {x, x}));
  return graph.compile({.device = "ref"});
}

std::string take(weft_status* status) {
  std::string code = weft_status_code(status);
  weft_status_free(status);
  return code;
}

constexpr std::array<float, 4> numbers{1, 2, 3, 4};

template <class T>
concept GivesElements = requires(T&& tensor) { std::forward<T>(tensor).template as<float>(); };

}  // namespace

TEST_CASE("a program built by hand runs") {
  weft::Program program = doubler();
  REQUIRE(program.inputs().size() == 1);
  weft::Port port = program.inputs()[0];
  CHECK(std::string(port.name) == "x");
  CHECK(std::string(port.type) == "f32[batch,2]");
  CHECK(port.dims[0].value == -1);
  CHECK(port.dims[0].max == 8);
  CHECK(port.dims[1].value == 2);
  auto outputs = program.new_context().run({weft::view<float>(numbers, {2, 2})});
  auto y = outputs.at(0).as<float>();
  CHECK(std::vector<float>(y.begin(), y.end()) == std::vector<float>{2, 4, 6, 8});
  CHECK(program.report().find("\"weft.report.1\"") != std::string::npos);
}

TEST_CASE("a tensor that is gone gives no elements") {
  CHECK(GivesElements<weft::Tensor&>);
  CHECK(GivesElements<const weft::Tensor&>);
  CHECK(!GivesElements<weft::Tensor>);
  CHECK(!GivesElements<const weft::Tensor>);
}

TEST_CASE("results go to the caller's memory") {
  std::array<float, 4> memory{};
  weft::Context context = doubler().new_context();
  auto outputs = context.run({weft::view<float>(numbers, {2, 2})}, {.outputs = {{memory.data(), sizeof memory}}});
  CHECK(memory == std::array<float, 4>{2, 4, 6, 8});
  CHECK(outputs[0].bytes().data() == reinterpret_cast<const std::byte*>(memory.data()));
}

TEST_CASE("memory for results is requested once its size is known") {
  using namespace weft::test;
  for (const char* device : {"ref", "cpu"}) {
    CAPTURE(device);
    Message graph;
    graph.message(1, node("Add", {"x", "w"}, {"y"})).text(2, "g");
    graph.message(11, value("x", 1, {"n", "2"}))
        .message(11, value("w", 1, {"2"}))
        .message(12, value("y", 1, {"n", "2"}));
    std::string bytes = model(graph).data;

    // `w` is a constant in the caller's memory.
    const int64_t two[] = {2}, dims[] = {2, 2};
    const char* names[] = {"w", "v"};
    weft_tensor* weight = nullptr;
    REQUIRE(weft_tensor_wrap(WEFT_F32, two, 1, numbers.data(), 8, nullptr, nullptr, &weight) == nullptr);
    const weft_tensor* values[] = {weight, weight};
    weft_compile_options options WEFT_COMPILE_OPTIONS_INIT;
    options.device = device;
    options.constant_names = names, options.constants = values, options.constant_count = 2;
    weft_program* program = nullptr;
    CHECK(take(weft_compile_bytes(bytes.data(), bytes.size(), &options, &program)) == "E310");  // no input is named 'v'
    options.constant_count = 1;
    REQUIRE(weft_compile_bytes(bytes.data(), bytes.size(), &options, &program) == nullptr);
    weft_tensor_free(weight);
    REQUIRE(weft_input_count(program) == 1);

    std::array<float, 4> memory{};
    weft_context* context = nullptr;
    weft_tensor *x = nullptr, *y = nullptr;
    REQUIRE(weft_context_new(program, &context) == nullptr);
    REQUIRE(weft_tensor_wrap(WEFT_F32, dims, 2, numbers.data(), 16, nullptr, nullptr, &x) == nullptr);
    weft_run_options run WEFT_RUN_OPTIONS_INIT;
    run.allocate_user = &memory;
    run.allocate = [](void* user, size_t output, const int64_t* sizes, size_t rank, size_t size) -> void* {
      bool is_right = output == 0 && rank == 2 && sizes[0] == 2 && sizes[1] == 2 && size == 16;
      return is_right ? static_cast<std::array<float, 4>*>(user)->data() : nullptr;
    };
    REQUIRE(weft_run(context, &x, 1, &y, 1, &run) == nullptr);
    CHECK(memory == std::array<float, 4>{2, 4, 4, 6});
    CHECK(weft_tensor_data(y) == memory.data());
    weft_tensor_free(y);
    run.allocate = [](void*, size_t, const int64_t*, size_t, size_t) -> void* { return nullptr; };
    CHECK(take(weft_run(context, &x, 1, &y, 1, &run)) == "E400");
    weft_tensor_free(x);
    weft_context_free(context);
    weft_program_free(program);
  }
}

TEST_CASE("a program keeps no reference to the memory of its constants") {
  using namespace weft::test;
  Message graph;
  graph.message(1, node("MatMul", {"x", "w"}, {"h"})).message(1, node("Add", {"h", "b"}, {"y"})).text(2, "g");
  graph.message(11, value("x", 1, {"n", "2"})).message(11, value("w", 1, {"2", "2"})).message(11, value("b", 1, {"2"}));
  graph.message(12, value("y", 1, {"n", "2"}));
  std::string bytes = model(graph).data;
  std::vector<float> w = {1, 2, 3, 4}, b = {10, 20};
  weft::CompileOptions options{.device = "cpu"};
  options.constants = {{"w", weft::view<float>(w, {2, 2})}, {"b", weft::view<float>(b, {2})}};
  weft::Program program = weft::compile(std::as_bytes(std::span(bytes)), options);
  program.detach();
  w = b = {0, 0, 0, 0};  // the caller may overwrite the memory
  auto outputs = program.new_context().run({weft::view<float>(numbers, {2, 2})});
  auto y = outputs.at(0).as<float>();
  CHECK(std::vector<float>(y.begin(), y.end()) == std::vector<float>{17, 30, 25, 42});
  CHECK(code_of([&] { program.save("never.weft"); }) == "E406");
  CHECK(code_of([&] { doubler().detach(); }) == "E406");
}

TEST_CASE("a program keeps the parts of a mapped file that it reads") {
  using namespace weft::test;
  Message graph;
  graph.message(1, node("Gather", {"w", "x"}, {"y"})).text(2, "g");
  graph.message(11, value("x", 7, {"n"})).message(11, value("w", 1, {"3", "2"}));
  graph.message(12, value("y", 1, {"n", "2"}));
  std::string bytes = model(graph).data, path = "c_api_test_weights.bin";
  const std::array<float, 8> stored = {9, 9, 1, 2, 3, 4, 5, 6};
  std::ofstream(path, std::ios::binary).write(reinterpret_cast<const char*>(stored.data()), sizeof stored);
  const int64_t dims[] = {3, 2};
  CHECK(code_of([&] { weft::Tensor::map(WEFT_F32, path, 12, dims); }) == "E161");
  CHECK(code_of([&] { weft::Tensor::map(WEFT_F32, path, SIZE_MAX, dims); }) == "E161");
  CHECK(code_of([&] { weft::Tensor::map(WEFT_F32, path + "-", 0, dims); }) == "E106");
  weft::CompileOptions options{.device = "cpu", .constants = {{"w", weft::Tensor::map(WEFT_F32, path, 8, dims)}}};
  weft::Program program = weft::compile(std::as_bytes(std::span(bytes)), options);
  std::ofstream(path, std::ios::binary | std::ios::app).put('?');
  CHECK(code_of([&] { weft::compile(std::as_bytes(std::span(bytes)), options); }) == "E106");
  options.constants.clear();
  std::remove(path.c_str());
  program.detach();
  weft::Context context = program.new_context();
  const std::array<int64_t, 2> rows = {2, 0};
  auto outputs = context.run({weft::view<int64_t>(rows, {2})});
  auto y = outputs.at(0).as<float>();
  CHECK(std::vector<float>(y.begin(), y.end()) == std::vector<float>{5, 6, 1, 2});
  CHECK(context.memory().constants == 24);
}

TEST_CASE("constants that are only packed do not count as constants that runs read") {
  std::vector<float> weights(64 * 64, 0.5f), rows(3 * 64, 1.0f);
  std::string path = "c_api_test_packed.bin";
  std::ofstream(path, std::ios::binary).write(reinterpret_cast<const char*>(weights.data()), 64 * 64 * 4);
  const int64_t dims[] = {64, 64};
  for (bool is_mapped : {true, false}) {
    weft::Graph graph("packed");
    weft_value x = graph.input("x", "f32[n,64]");
    weft::Tensor w = is_mapped ? weft::Tensor::map(WEFT_F32, path, 0, dims) : weft::view<float>(weights, {64, 64});
    graph.output("y", graph.append("dot", {x, graph.constant(w)}));
    weft::Context context = graph.compile({.device = "cpu"}).new_context();
    context.run({weft::view<float>(rows, {3, 64})});
    CHECK(context.memory().weights >= 64 * 64 * 4);
    CHECK(context.memory().constants == 0);
  }
  std::remove(path.c_str());
}

TEST_CASE("a mapped tensor may begin anywhere in its file") {
  const std::array<float, 2> stored = {1, 2};
  std::ofstream file("c_api_test_odd.bin", std::ios::binary);
  file.put('?').write(reinterpret_cast<const char*>(stored.data()), sizeof stored);
  file.close();
  weft::Tensor tensor = weft::Tensor::map(WEFT_F32, "c_api_test_odd.bin", 1, std::array<int64_t, 1>{2});
  CHECK(tensor.as<float>()[1] == 2);
  CHECK(reinterpret_cast<uintptr_t>(tensor.bytes().data()) % sizeof(float) == 0);
  std::remove("c_api_test_odd.bin");
}

TEST_CASE("environment variables come through the library") {
  char* path = weft_environment("PATH");
  CHECK(path != nullptr);
  weft_text_free(path);
  CHECK(weft_environment("A_VARIABLE_THAT_IS_NOT_SET") == nullptr);
  CHECK(weft_environment(nullptr) == nullptr);
}

TEST_CASE("inputs that do not fit are refused") {
  weft::Context context = doubler().new_context();
  CHECK(code_of([&] { context.run(std::span<const weft::Tensor>()); }) == "E310");
  CHECK(code_of([&] { context.run({weft::Tensor()}); }) == "E310");
  CHECK(code_of([&] { context.run({weft::view<float>(numbers, {4})}); }) == "E310");
  CHECK(code_of([&] { context.run({weft::view<float>(numbers, {1, 4})}); }) == "E311");
  std::array<float, 18> many{};
  CHECK(code_of([&] { context.run({weft::view<float>(many, {9, 2})}); }) == "E311");
  CHECK(code_of([&] { context.run({weft::view<float>(numbers, {2, 2})}, {.deadline_seconds = -1}); }) == "E210");
  CHECK(code_of([&] { context.run({weft::view<float>(numbers, {2, 2})}, {.deadline_seconds = 1e-9}); }) == "E403");
}

TEST_CASE("a compile ends when its caller cancels it") {
  auto code_with = [](const weft::CompileOptions& options) {
    weft::Graph graph;  // a compile consumes the graph even if it fails
    weft_value x = graph.input("x", "f32[2]");
    graph.output("y", graph.append("add", {x, x}));
    return code_of([&] { graph.compile(options); });
  };
  for (const char* device : {"ref", "cpu"}) {
    CHECK(code_with({.device = device, .deadline_seconds = 1e-9}) == "E403");
    CHECK(code_with({.device = device, .deadline_seconds = -1}) == "E210");
    CHECK(code_with({.device = device, .stop = [] { return true; }}) == "E404");
    CHECK(code_with({.device = device, .deadline_seconds = 1e9, .stop = [] { return false; }}) == "none");
  }
}

TEST_CASE("calls for a GPU are refused without one") {
  weft::Context context = doubler().new_context();
  auto run = [&](int32_t on_device) {
    return code_of([&] { context.run({weft::view<float>(numbers, {2, 2})}, {.on_device = on_device}); });
  };
  CHECK(run(1) == "E502");
  CHECK(run(3) == "E210");
  void* data = nullptr;
  CHECK(take(weft_gpu_allocate("nvidia:1000", 4, &data)) == "E501");
  CHECK(take(weft_gpu_allocate(nullptr, 4, &data)) == "E210");
  CHECK(take(weft_gpu_wait("amd:1000", nullptr)) == "E501");
  CHECK((weft_gpu(0) == nullptr) == (weft_gpu_chip(0) == nullptr));
  CHECK(weft_gpu(1000) == nullptr);
}

TEST_CASE("a graph refuses unknown values and invalid instructions") {
  weft::Graph graph;
  weft_value x = graph.input("x", "f32[2]");
  CHECK(graph.type(x) == "f32[2]");
  CHECK(code_of([&] { graph.append("add", {x, weft_value{7, 0}}); }) == "E211");
  CHECK(code_of([&] { graph.append("add", {x, weft_value{x.instruction, 1}}); }) == "E211");
  CHECK(code_of([&] { graph.append("parameter {name=\"y\", type=f32[2]}", {}); }) == "E211");
  CHECK(code_of([&] { graph.append("softmax {axis=-1", {x}); }) == "E191");
  CHECK(code_of([&] { graph.append("softmax {axis=5}", {x}); }) == "E143");
  CHECK(code_of([&] { graph.append("frobnicate", {x}); }) == "E120");
  graph.source("line 3");
  try {
    graph.append("softmax {axis=5}", {x});
    FAIL("an axis outside the rank was taken");
  } catch (const weft::Error& error) {
    CHECK(error.where() == "line 3");
    CHECK(error.kind() == WEFT_MODEL);
    CHECK(std::string(error.what()).starts_with("error[E143]: "));
  }
}

TEST_CASE("a tensor in memory of a program is filled in place and run") {
  weft::Program program = doubler();
  void* data = nullptr;
  weft::Tensor x = program.tensor(WEFT_F32, std::array<int64_t, 2>{2, 2}, &data);
  std::fill_n(static_cast<float*>(data), x.elements(), 3.0f);
  CHECK(program.new_context().run({x})[0].as<float>()[3] == 6);
  weft_tensor* plain = nullptr;
  const int64_t dims[] = {4};
  REQUIRE(weft_tensor_new(nullptr, WEFT_F32, dims, 1, &plain, &data) == nullptr);
  CHECK(weft_tensor_data(plain) == data);
  weft_tensor_free(plain);
  CHECK(take(weft_tensor_new(program.get(), WEFT_STRING, dims, 1, &plain, &data)) == "E210");
  CHECK(take(weft_tensor_new(program.get(), WEFT_F32, dims, 1, &plain, nullptr)) == "E210");
}

TEST_CASE("tensors check what they are given") {
  weft_tensor* tensor = nullptr;
  const int64_t dims[] = {2, 2}, negative[] = {-1}, huge[] = {int64_t{1} << 62, 8};
  int released = 0;
  auto release = [](void* user) { ++*static_cast<int*>(user); };
  CHECK(take(weft_tensor_wrap(WEFT_F32, dims, 2, numbers.data(), 15, release, &released, &tensor)) == "E210");
  CHECK(released == 1);  // also when the call fails
  CHECK(take(weft_tensor_copy(WEFT_F32, negative, 1, nullptr, 0, &tensor)) == "E210");
  CHECK(take(weft_tensor_copy(WEFT_F32, huge, 2, nullptr, 0, &tensor)) == "E146");
  CHECK(take(weft_tensor_copy(static_cast<weft_dtype>(99), dims, 2, numbers.data(), 16, &tensor)) == "E210");
  CHECK(take(weft_tensor_copy(WEFT_F32, dims, 2, nullptr, 16, &tensor)) == "E210");
  CHECK(take(weft_tensor_copy(WEFT_F32, dims, 2, numbers.data(), 16, nullptr)) == "E210");

  REQUIRE(weft_tensor_wrap(WEFT_F32, dims, 2, numbers.data(), 16, release, &released, &tensor) == nullptr);
  weft_tensor* shared = nullptr;
  REQUIRE(weft_tensor_share(tensor, &shared) == nullptr);
  weft_tensor_free(tensor);
  CHECK(released == 1);
  CHECK(weft_tensor_data(shared) == numbers.data());
  weft_tensor_free(shared);
  CHECK(released == 2);

  const char* strings[] = {"a", "bc"};
  const int64_t two[] = {2};
  REQUIRE(weft_tensor_strings(two, 1, strings, nullptr, &tensor) == nullptr);
  size_t length = 0;
  CHECK(std::string(weft_tensor_string(tensor, 1, &length)) == "bc");
  CHECK(length == 2);
  CHECK(weft_tensor_string(tensor, 2, &length) == nullptr);
  weft_tensor_free(tensor);
}

TEST_CASE("containers are put together and taken apart") {
  const float numbers[] = {1, 2};
  const int64_t two[] = {2};
  weft_tensor *x = nullptr, *list = nullptr, *item = nullptr, *none = nullptr, *outer = nullptr;
  REQUIRE(weft_tensor_copy(WEFT_F32, two, 1, numbers, sizeof numbers, &x) == nullptr);
  const weft_tensor* items[] = {x, x};
  REQUIRE(weft_tensor_collect(WEFT_SEQUENCE, items, 2, &list) == nullptr);
  CHECK(weft_tensor_kind(list) == WEFT_SEQUENCE);
  CHECK(weft_tensor_elements(list) == 2);
  CHECK(weft_tensor_data(list) == nullptr);
  REQUIRE(weft_tensor_item(list, 1, &item) == nullptr);
  CHECK(static_cast<const float*>(weft_tensor_data(item))[1] == 2);
  CHECK(take(weft_tensor_item(list, 2, &outer)) == "E210");
  CHECK(take(weft_tensor_item(x, 0, &outer)) == "E210");
  REQUIRE(weft_tensor_collect(WEFT_OPTIONAL, nullptr, 0, &none) == nullptr);
  CHECK(weft_tensor_elements(none) == 0);
  CHECK(take(weft_tensor_collect(WEFT_OPTIONAL, items, 2, &outer)) == "E210");
  CHECK(take(weft_tensor_collect(WEFT_TENSOR, items, 1, &outer)) == "E210");
  items[1] = list;
  CHECK(take(weft_tensor_collect(WEFT_MAP, items, 2, &outer)) == "E210");
  for (weft_tensor* tensor : {x, list, item, none}) weft_tensor_free(tensor);
}

TEST_CASE("an older caller's shorter options are understood") {
  weft_compile_options options WEFT_COMPILE_OPTIONS_INIT;
  options.device = "nowhere";
  options.struct_size = sizeof(size_t);  // as in a caller whose options have no other member
  weft_program* program = nullptr;
  CHECK(take(weft_compile("missing.onnx", &options, &program)) == "E106");  // the device was ignored
  options.struct_size = 0;
  CHECK(take(weft_compile("missing.onnx", &options, &program)) == "E210");
  CHECK(take(weft_compile(nullptr, nullptr, &program)) == "E210");
  CHECK(take(weft_compile("missing.onnx", nullptr, nullptr)) == "E210");
}

TEST_CASE("longer options of a newer caller are accepted if their new members are 0") {
  struct Newer {
    weft_compile_options known WEFT_COMPILE_OPTIONS_INIT;
    const char* added = nullptr;
  } options;
  options.known.struct_size = sizeof options;
  weft_program* program = nullptr;
  CHECK(take(weft_compile("missing.onnx", &options.known, &program)) == "E106");
  options.added = "x";
  CHECK(take(weft_compile("missing.onnx", &options.known, &program)) == "E210");
}

TEST_CASE("an array of operators is read with the struct size of the caller") {
  struct Newer {
    weft_operator known WEFT_OPERATOR_INIT;
    void* added = nullptr;
  } operators[2];
  weft_compile_options options WEFT_COMPILE_OPTIONS_INIT;
  options.operators = &operators[0].known, options.operator_count = 2;
  weft_program* program = nullptr;
  for (Newer& op : operators) {
    op.known.struct_size = sizeof op;
    op.known.name = "mine:Same", op.known.rule = "f32[n] -> f32[n]";
  }
  CHECK(take(weft_compile("missing.onnx", &options, &program)) == "E106");  // both operators were read
  operators[1].known.name = nullptr;
  CHECK(take(weft_compile("missing.onnx", &options, &program)) == "E210");
}

TEST_CASE("numbers of threads out of range are refused") {
  using namespace weft::test;
  Message graph;
  graph.message(1, node("Neg", {"x"}, {"y"})).text(2, "g");
  graph.message(11, value("x", 1, {"2"})).message(12, value("y", 1, {"2"}));
  std::string bytes = model(graph).data;
  weft_compile_options options WEFT_COMPILE_OPTIONS_INIT;
  options.device = "cpu";
  weft_program* program = nullptr;
  for (int32_t threads : {-1, INT32_MIN, 4097, INT32_MAX}) {
    options.threads = threads;
    CHECK(take(weft_compile_bytes(bytes.data(), bytes.size(), &options, &program)) == "E203");
  }
  options.threads = 0;
  weft_executor executor{.width = 5000, .parallel_for = [](auto...) {}, .user = nullptr};
  options.executor = &executor;
  CHECK(take(weft_compile_bytes(bytes.data(), bytes.size(), &options, &program)) == "E210");
}

TEST_CASE("every call takes NULL for every handle, string and result") {
  weft_port port WEFT_PORT_INIT;
  weft_memory memory WEFT_MEMORY_INIT;
  weft_value value{};
  const int64_t dims[] = {1};
  weft_tensor *x = nullptr, *y = nullptr;
  weft_graph* graph = nullptr;
  REQUIRE(weft_tensor_wrap(WEFT_F32, dims, 1, numbers.data(), 4, nullptr, nullptr, &x) == nullptr);
  REQUIRE(weft_graph_new(nullptr, &graph) == nullptr);
  weft_program* program = nullptr;
  weft_context* context = nullptr;
  char* text = nullptr;
  weft_status* refused[] = {
      weft_tensor_wrap(WEFT_F32, nullptr, 1, numbers.data(), 4, nullptr, nullptr, &y),
      weft_tensor_wrap(WEFT_F32, dims, 1, nullptr, 4, nullptr, nullptr, &y),
      weft_tensor_wrap(WEFT_F32, dims, 1, numbers.data(), 4, nullptr, nullptr, nullptr),
      weft_tensor_wrap(WEFT_F32, dims, SIZE_MAX, numbers.data(), 4, nullptr, nullptr, &y),
      weft_tensor_copy(WEFT_F32, nullptr, 1, numbers.data(), 4, &y),
      weft_tensor_strings(nullptr, 1, nullptr, nullptr, &y),
      weft_tensor_strings(dims, 1, nullptr, nullptr, &y),
      weft_tensor_strings(dims, 1, std::array<const char*, 1>{nullptr}.data(), nullptr, &y),
      weft_tensor_collect(WEFT_SEQUENCE, nullptr, 1, &y),
      weft_tensor_collect(WEFT_SEQUENCE, std::array<const weft_tensor*, 1>{nullptr}.data(), 1, &y),
      weft_tensor_collect(static_cast<weft_kind>(9), &x, 1, &y),
      weft_tensor_collect(WEFT_SEQUENCE, &x, 1, nullptr),
      weft_tensor_item(nullptr, 0, &y),
      weft_tensor_share(nullptr, &y),
      weft_tensor_share(x, nullptr),
      weft_tensor_map(WEFT_F32, nullptr, 0, nullptr, 0, &y),
      weft_tensor_map(WEFT_F32, nullptr, 0, "missing.bin", 0, nullptr),
      weft_compile(nullptr, nullptr, &program),
      weft_compile("missing.onnx", nullptr, nullptr),
      weft_compile_bytes(nullptr, 5, nullptr, &program),
      weft_compile_bytes("x", 1, nullptr, nullptr),
      weft_load(nullptr, nullptr, &program),
      weft_load("missing.weft", nullptr, nullptr),
      weft_save(nullptr, "p.weft"),
      weft_save_for(nullptr, "p.weft", nullptr, 0),
      weft_program_detach(nullptr),
      weft_support(nullptr, nullptr, &text),
      weft_print(nullptr, nullptr, nullptr, &text),
      weft_print("missing.onnx", nullptr, nullptr, nullptr),
      weft_input(nullptr, 0, &port),
      weft_output(nullptr, 0, &port),
      weft_program_report(nullptr, &text),
      weft_context_new(nullptr, &context),
      weft_context_memory_use(nullptr, &memory),
      weft_output_sizes(nullptr, nullptr, 0, 0, nullptr, 0, nullptr),
      weft_run(nullptr, nullptr, 0, nullptr, 0, nullptr),
      weft_graph_new("g", nullptr),
      weft_graph_parse(nullptr, &graph),
      weft_graph_read(nullptr, nullptr, &graph),
      weft_graph_read_bytes(nullptr, 1, nullptr, &graph),
      weft_graph_input_port(nullptr, 0, &port),
      weft_graph_output_port(nullptr, 0, &port),
      weft_graph_input_port(graph, 0, nullptr),
      weft_graph_symbol(nullptr, "n", 0, 1),
      weft_graph_symbol(graph, nullptr, 0, 1),
      weft_graph_input(nullptr, "x", "f32[]", &value),
      weft_graph_input(graph, nullptr, "f32[]", &value),
      weft_graph_input(graph, "x", nullptr, &value),
      weft_graph_input(graph, "x", "f32[]", nullptr),
      weft_graph_constant(nullptr, x, &value),
      weft_graph_constant(graph, nullptr, &value),
      weft_graph_append(nullptr, "neg", &value, 1, &value),
      weft_graph_append(graph, nullptr, &value, 0, &value),
      weft_graph_append(graph, "neg", nullptr, 1, &value),
      weft_graph_append(graph, "neg", &value, 1, nullptr),
      weft_graph_operator(graph, nullptr),
      weft_graph_source(nullptr, "s"),
      weft_graph_output(nullptr, "y", value),
      weft_graph_output(graph, nullptr, value),
      weft_graph_export(nullptr, &y),
      weft_graph_export(graph, nullptr),
      weft_quantize_bytes(nullptr, 1, nullptr, &y, nullptr),
      weft_quantize_bytes("model", 5, nullptr, nullptr, nullptr),
      weft_quantize(nullptr, "out.onnx", nullptr, nullptr),
      weft_quantize("model.onnx", nullptr, nullptr, nullptr),
      weft_graph_type(graph, value, &text),
      weft_graph_print(graph, nullptr),
      weft_graph_compile(nullptr, nullptr, &program),
      weft_graph_compile(graph, nullptr, nullptr),
  };
  for (size_t i = 0; i < std::size(refused); ++i) {
    INFO("call ", i);
    REQUIRE(refused[i] != nullptr);
    CHECK(weft_status_kind(refused[i]) == WEFT_USAGE);
    weft_status_free(refused[i]);
  }
  port.struct_size = 0;  // as if the caller had not initialised it
  CHECK(take(weft_graph_input_port(graph, 0, &port)) == "E210");

  CHECK(weft_tensor_kind(nullptr) == WEFT_TENSOR);
  CHECK(weft_tensor_dtype(nullptr) == WEFT_DTYPE_UNKNOWN);
  CHECK(weft_tensor_rank(nullptr) == 0);
  CHECK(weft_tensor_dims(nullptr) == nullptr);
  CHECK(weft_tensor_elements(nullptr) == 0);
  CHECK(weft_tensor_data(nullptr) == nullptr);
  CHECK(weft_tensor_bytes(nullptr) == 0);
  CHECK(weft_tensor_is_shared(nullptr) == 0);
  CHECK(weft_tensor_string(nullptr, 0, nullptr) == nullptr);
  CHECK(weft_input_count(nullptr) == 0);
  CHECK(weft_output_count(nullptr) == 0);
  CHECK(std::string(weft_program_device(nullptr)).empty());
  CHECK(weft_program_metadata(nullptr, "k") == nullptr);
  CHECK(weft_graph_input_count(nullptr) == 0);
  CHECK(weft_graph_output_count(nullptr) == 0);
  CHECK(std::string(weft_dtype_name(static_cast<weft_dtype>(-1))).empty());
  CHECK(std::string(weft_status_what(nullptr)).empty());
  weft_tensor_free(nullptr), weft_program_free(nullptr), weft_context_free(nullptr), weft_graph_free(nullptr);
  weft_status_free(nullptr), weft_text_free(nullptr);
  weft_graph_free(graph);
  weft_tensor_free(x);
}

TEST_CASE("a status of the caller's own has all parts") {
  weft_status* status = weft_status_new(WEFT_USAGE, "E210", "it is wrong", "here", nullptr);
  CHECK(weft_status_kind(status) == WEFT_USAGE);
  CHECK(std::string(weft_status_text(status)) == "error[E210]: it is wrong\n --> here");
  CHECK(std::string(weft_status_hint(status)).empty());
  weft_status_free(status);
  CHECK(weft_status_kind(nullptr) == WEFT_OK);
}

TEST_CASE("messages go to the logger") {
  std::string seen;
  auto logger = [](void* user, weft_log_level, const char* text) { *static_cast<std::string*>(user) += text; };
  REQUIRE(weft_set_logger(logger, &seen) == nullptr);
  weft::log(weft::LogLevel::info, "below the level");
  weft_set_log_level(WEFT_LOG_INFO);
  weft::log(weft::LogLevel::info, "x = ", 1);
  weft_set_log_level(WEFT_LOG_WARNING);
  REQUIRE(weft_set_logger(nullptr, nullptr) == nullptr);
  CHECK(seen == "x = 1");
}
