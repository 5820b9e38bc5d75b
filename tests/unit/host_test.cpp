// SPDX-License-Identifier: Apache-2.0
// Parts that the embedding program may provide: allocators, executors, memory for results, callbacks that stop a run.
#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <numeric>
#include <string>
#include <thread>

#include "answers.h"
#include "onnx_writer.h"
#include "weft/weft.hpp"

namespace {

using namespace weft::test;

constexpr int64_t rows = 300;  // rows of x: enough work for several tasks on every chip

/// Makes a program of y = softmax((x @ w) @ w) and z = transpose(x @ w); the number of rows is open.
weft::Program two_outputs(weft::CompileOptions options = {}) {
  weft::Graph graph = weft::Graph::parse(R"--(
symbol n min=1 max=512
module main {
  %x = parameter {name="x", type=f32[n,64]}
  %w = parameter {name="w", type=f32[64,64]}
  %a = dot  %x, %w
  %b = dot  %a, %w
  %y = softmax %b {axis=1}
  %z = transpose %a {permutation=[1, 0]}
  return "y"=%y, "z"=%z
}
)--");
  options.device = "cpu";
  return graph.compile(options);
}

std::vector<float> numbers(size_t count) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = static_cast<float>(i % 17) / 17 - 0.4f;
  return values;
}

struct Request {
  std::vector<float> x = numbers(rows * 64), w = numbers(64 * 64);
  std::vector<weft::Tensor> inputs{weft::view<float>(x, {rows, 64}), weft::view<float>(w, {64, 64})};
};

/// An allocator that counts the bytes it holds, and refuses to exceed a limit.
struct Ledger {
  std::mutex mutex;
  std::map<void*, size_t> held;
  size_t limit = size_t{1} << 30, count = 0;

  size_t total() const {
    return std::accumulate(held.begin(), held.end(), size_t{0}, [](size_t sum, auto& e) { return sum + e.second; });
  }
  weft_allocator allocator() {
    auto allocate = [](void* user, size_t bytes, size_t alignment) -> void* {
      auto& ledger = *static_cast<Ledger*>(user);
      std::scoped_lock lock(ledger.mutex);
      if (ledger.total() + bytes > ledger.limit) return nullptr;
      void* data = std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
      ledger.held[data] = bytes, ++ledger.count;
      return data;
    };
    auto release = [](void* user, void* data, size_t bytes, size_t) {
      auto& ledger = *static_cast<Ledger*>(user);
      std::scoped_lock lock(ledger.mutex);
      CHECK(ledger.held.at(data) == bytes);
      ledger.held.erase(data);
      std::free(data);
    };
    return {allocate, release, this};
  }
};

/// An executor that runs the calls of the body one after another or, if `are_parallel`, on a thread each; counts the
/// calls.
struct Threads {
  std::atomic<int64_t> strands{0}, calls{0};
  bool are_parallel = false;

  weft_executor executor(int32_t width) {
    auto run = [](void* user, int64_t count, void (*body)(void*, int64_t), void* context) {
      auto& self = *static_cast<Threads*>(user);
      self.strands += count, ++self.calls;
      std::vector<std::thread> threads;
      for (int64_t i = count; i-- > 0;) {
        if (self.are_parallel) threads.emplace_back(body, context, i);
        else body(context, i);
      }
      for (std::thread& thread : threads) thread.join();
    };
    return {width, run, this};
  }
};

}  // namespace

TEST_CASE("the caller's allocator holds weights, working memory and results") {
  Ledger ledger;
  weft_allocator allocator = ledger.allocator();
  Request request;
  std::vector<weft::Tensor> kept;
  {
    weft::Program program = two_outputs({.threads = 1, .allocator = &allocator});
    allocator = {};  // the program keeps a copy
    weft::Context context = program.new_context();
    kept = context.run(request.inputs);
    weft_memory use = context.memory();
    CHECK(use.arena > 0);
    CHECK(use.peak >= use.arena + use.scratch);
    CHECK(ledger.total() == use.arena + use.scratch + use.weights + 2 * rows * 64 * sizeof(float));
    ledger.limit = ledger.total();
    CHECK(code_of([&] { program.new_context().run(request.inputs); }) == "E401");
  }
  CHECK(ledger.held.size() == 2);  // results outlive their program
  CHECK(values_of(kept[0]) == values_of(two_outputs({.threads = 1}).new_context().run(request.inputs)[0]));
  kept.clear();
  CHECK(ledger.held.empty());
}

TEST_CASE("the caller's executor runs the kernels, in a row or side by side, with equal answers") {
  Request request;
  auto expected = values_of(two_outputs({.threads = 1}).new_context().run(request.inputs)[0]);
  for (bool parallel : {false, true}) {
    Threads threads{.are_parallel = parallel};
    weft_executor executor = threads.executor(3);
    weft::Program program = two_outputs({.executor = &executor});
    CHECK(program.device().find("3 threads of the caller's") != std::string::npos);
    CHECK(values_of(program.new_context().run(request.inputs)[0]) == expected);
    CHECK(threads.calls > 0);
    CHECK(threads.strands <= threads.calls * 3);
  }
  Threads threads;
  weft_executor wide = threads.executor(7);  // for one run, wider than the program's own threads
  weft::Context context = two_outputs({.threads = 1}).new_context();
  CHECK(values_of(context.run(request.inputs, {.executor = &wide})[0]) == expected);
  CHECK(threads.calls > 0);
  CHECK(values_of(context.run(request.inputs)[0]) == expected);
  weft_executor none{};
  CHECK(code_of([&] { context.run(request.inputs, {.executor = &none}); }) == "E210");
  CHECK(code_of([&] { two_outputs({.executor = &none}); }) == "E210");
}

TEST_CASE("a run stops when its caller cancels it") {
  Request request;
  for (int threads : {1, 2}) {
    weft::Context context = two_outputs({.threads = threads}).new_context();
    auto expected = values_of(context.run(request.inputs)[0]);
    std::atomic<int> asked = 0;
    context.run(request.inputs, {.stop = [&] { return ++asked, false; }});
    int questions = asked;
    CHECK(questions > 4);  // asked several times in a run
    for (int at = 1; at <= questions; at += 3) {
      asked = 0;
      std::string code = code_of([&] { context.run(request.inputs, {.stop = [&] { return ++asked >= at; }}); });
      CHECK((code == "E404" || at > 4));  // the number of calls varies between runs, but is at least 4
    }
    CHECK(values_of(context.run(request.inputs)[0]) == expected);  // the context still works
  }
  weft::Graph graph;
  weft_value x = graph.input("x", "f32[2]");
  graph.output("y", graph.append("add", {x, x}));
  std::array<float, 2> two{1, 2};
  weft::Context reference = graph.compile({.device = "ref"}).new_context();
  CHECK(code_of([&] { reference.run({weft::view<float>(two, {2})}, {.stop = [] { return true; }}); }) == "E404");
}

TEST_CASE("results of known size are written to the caller's memory") {
  Request request;
  weft::Program program = two_outputs({.threads = 1});
  weft::Context context = program.new_context();
  auto expected = context.run(request.inputs);
  std::vector<float> memory(2 * 64 * rows);
  struct Place {
    std::vector<float>& memory;
    std::vector<int64_t> seen;
    static void* give(void* user, size_t index, const int64_t* dims, size_t rank, size_t) {
      auto& self = *static_cast<Place*>(user);
      if (index == 0) return self.memory.data() + 64 * rows;
      self.seen.assign(dims, dims + rank);
      return self.memory.data();
    }
  } place{memory, {}};
  auto got = context.run(request.inputs, {.allocate = Place::give, .allocate_user = &place});
  CHECK(place.seen == std::vector<int64_t>{64, rows});
  CHECK(std::vector<float>(memory.begin(), memory.begin() + 64 * rows) == values_of(expected[1]));
  CHECK(got[1].bytes().data() == reinterpret_cast<const std::byte*>(memory.data()));
  CHECK(values_of(got[0]) == values_of(expected[0]));

  int64_t dims[2];
  size_t bytes = 0;
  std::vector<const weft_tensor*> inputs{request.inputs[0].get(), request.inputs[1].get()};
  weft::check(weft_output_sizes(program.get(), inputs.data(), 2, 1, dims, 2, &bytes));
  CHECK(dims[0] == 64);
  CHECK(dims[1] == rows);
  CHECK(bytes == 64 * rows * sizeof(float));
  CHECK(code_of([&] { weft::check(weft_output_sizes(program.get(), inputs.data(), 2, 2, dims, 2, &bytes)); }) ==
        "E210");
  CHECK(code_of([&] { weft::check(weft_output_sizes(program.get(), inputs.data(), 2, 1, dims, 1, &bytes)); }) ==
        "E210");

  std::vector<std::byte> odd(64 * rows * sizeof(float) + 1);
  std::vector<weft_buffer> misaligned{{nullptr, 0}, {odd.data() + 1, odd.size() - 1}};
  CHECK(code_of([&] { context.run(request.inputs, {.outputs = misaligned}); }) == "E313");
}

TEST_CASE("a model in memory may be borrowed") {
  std::vector<float> w(256 * 256, 2), x(256, 1);
  w.back() = 1;  // otherwise all elements of w would be equal, and the kernel would contain that number instead of
                 // reading w
  Message graph = Message().text(2, "g").message(11, value("x", 1, {"256", "1"})).message(12, value("y", 1, {}));
  graph.message(5, float_tensor("w", {256, 256}, w)).message(1, node("Mul", {"x", "w"}, {"y"}));
  std::string bytes = model(graph).data;
  for (bool borrow : {false, true}) {
    std::string mine = bytes;
    weft::Program program =
        weft::compile(std::as_bytes(std::span(mine)), {.device = "cpu", .threads = 1, .borrow = borrow});
    float three = 3;
    std::memcpy(mine.data() + mine.find(float_bytes(w)), &three, sizeof three);
    float first = program.new_context().run({weft::view<float>(x, {256, 1})})[0].as<float>()[0];
    CHECK(first == (borrow ? 3 : 2));
  }
}
