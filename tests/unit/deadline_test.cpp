// SPDX-License-Identifier: Apache-2.0
// How soon work ends after a deadline or a cancellation. The tests measure the processor time that a thread uses
// between two checks of its deadline, because wall-clock times vary under load.
#include <doctest/doctest.h>
#include <time.h>
#include <unistd.h>

#include <cmath>
#include <map>
#include <mutex>
#include <thread>

#include "base/error.h"
#include "base/log.h"
#include "base/watch.h"
#include "compile.h"
#include "errors.h"
#include "ir/text.h"
#include "kernel_build/kernel_build.h"
#include "kernel_build/kernel_cache.h"
#include "ops/build.h"
#include "ops/registry.h"

using namespace weft;
using weft::test::code_of;

namespace {

using Clock = std::chrono::steady_clock;
using Inputs = std::vector<Tensor>;

constexpr double allowed_seconds = 0.1;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(NDEBUG)
constexpr double slowness = 20;  // factor for code that is instrumented or not optimised
#else
constexpr double slowness = 1;
#endif

double seconds_of_thread() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

/// Provides a `stop` callback that never stops; records the longest processor time of a thread between two calls.
class Looks {
 public:
  Looks() { last_[std::this_thread::get_id()] = seconds_of_thread(); }

  std::function<bool()> stop() {
    return [this] {
      std::scoped_lock lock(mutex_);
      double now = seconds_of_thread();
      auto [last, is_first] = last_.try_emplace(std::this_thread::get_id(), now);
      longest_ = std::max(longest_, now - std::exchange(last->second, now));
      ++count_;
      return false;
    };
  }
  /// Returns the longest time so far, including the time since the last call.
  double longest() {
    stop()();
    return longest_;
  }
  int count() const { return count_; }

 private:
  std::mutex mutex_;
  std::map<std::thread::id, double> last_;
  double longest_ = 0;
  int count_ = 0;
};

Clock::time_point soon() { return Clock::now() + std::chrono::milliseconds(20); }

Tensor numbers(std::vector<int64_t> dims) {
  int64_t count = 1;
  for (int64_t dim : dims) count *= dim;
  std::vector<double> values;
  for (int64_t i = 0; i < count; ++i) values.push_back(static_cast<double>((i * 37) % 101) / 101);
  return make_tensor(DType::f32, std::move(dims), values);
}

struct LongRun {
  const char* name;
  std::string text;
  Inputs ref, cpu;  // inputs for each device, large enough for a long run
};

LongRun unary(const char* name, const std::string& line, std::vector<int64_t> ref, std::vector<int64_t> cpu) {
  std::string dims;
  for (size_t i = 0; i < ref.size(); ++i) dims += cat(i ? "," : "", "n", i);
  std::string symbols;
  for (size_t i = 0; i < ref.size(); ++i) symbols += cat("symbol n", i, " min=1\n");
  return {name,
          cat(symbols, "module main {\n  %x = parameter {name=\"x\", type=f32[", dims, "]}\n  ", line,
              "\n  return \"y\"=%y\n}\n"),
          {numbers(std::move(ref))},
          {numbers(std::move(cpu))}};
}

std::vector<LongRun> long_runs() {
  std::vector<LongRun> runs;
  runs.push_back(unary("dot", "%y = dot %x, %x", {600, 600}, {2048, 2048}));
  runs.back().text = R"(
symbol n0 min=1
module main {
  %x = parameter {name="x", type=f32[n0,n0]}
  %y = dot %x, %x
  return "y"=%y
}
)";
  runs.push_back(unary("elementwise", "%y = pow %x, %x", {1500, 1000}, {4000, 4000}));
  runs.push_back(unary("softmax", "%y = softmax %x {axis=1}", {1000, 1000}, {4000, 4000}));
  runs.push_back(
      unary("sum over columns", "%y = reduce %x {fn=sum, axes=[0], keep=false}", {2000, 1000}, {6000, 4000}));
  runs.push_back(unary("transpose", "%y = transpose %x {permutation=[1, 0]}", {2000, 2000}, {6000, 4000}));
  runs.push_back(unary("sort", "%y = top_k %x {axis=1, k=100, largest=true}", {400, 1000}, {4000, 1000}));
  return runs;
}

}  // namespace

TEST_CASE("deadline: every operator of a run checks the clock often, on ref and on cpu") {
  for (LongRun& run : long_runs()) {
    for (const char* device : {"ref", "cpu"}) {
      INFO(run.name, " on ", device);
      auto context = compile(parse_program(run.text, make_op), {.device = device, .threads = 2})->new_context();
      const Inputs& inputs = device[0] == 'r' ? run.ref : run.cpu;
      auto expected = context->run(inputs);
      Looks looks;
      CHECK(context->run(inputs, {.stop = looks.stop()})[0] == expected[0]);
      CHECK(looks.longest() < allowed_seconds * slowness);
      CHECK(looks.count() > 1);
      CHECK(code_of([&] { context->run(inputs, {.deadline = Clock::now()}); }) == "E403");
      CHECK(context->run(inputs)[0] == expected[0]);  // the context can run again
    }
  }
}

TEST_CASE("deadline: a loop of many trips ends, and its context runs again") {
  // Adds 1 to v while trips remain and v is below the limit.
  const std::string text = R"(
symbol t min=0
symbol made min=0
module main {
  %x = parameter {name="x", type=f32[3]}
  %limit = parameter {name="limit", type=f32[]}
  %yes = constant {value=bool[]{1}}
  %y = loop %yes, %x, %limit [body] {counter=t, trips=4611686018427387904, count=made, conditional=true, carried=1, types=[f32[3]], sets=[made]}
  return "y"=%y
}
module body {
  %bv = parameter {name="v", type=f32[3]}
  %most = parameter {name="limit", type=f32[]}
  %one = constant {value=f32[]{1}}
  %ones = broadcast %one {dims=[3]}
  %next = add %bv, %ones
  %s = slice %next {starts=[0], sizes=[1], steps=[1]}
  %first = reshape %s {dims=[]}
  %c = less %first, %most
  return "c"=%c, "v"=%next
}
)";
  for (const char* device : {"ref", "cpu"}) {
    INFO(device);
    auto context = compile(parse_program(text, make_op), {.device = device, .threads = 1})->new_context();
    auto run = [&](double limit, const RunOptions& options) {
      return context->run(Inputs{numbers({3}), scalar_tensor(DType::f32, limit)}, options);
    };
    auto expected = run(5, {});
    CHECK(code_of([&] { run(INFINITY, {.deadline = soon()}); }) == "E403");
    int asked = 0;
    CHECK(code_of([&] { run(INFINITY, {.stop = [&] { return ++asked > 1000; }}); }) == "E404");
    CHECK(asked == 1001);
    CHECK(run(5, {})[0] == expected[0]);
  }
}

namespace {

/// Returns a chain of `length` softmaxes, each after two elementwise functions; needs at least `length` kernels.
std::string chain(int length) {
  std::string text = "module main {\n  %v0 = parameter {name=\"x\", type=f32[40,30]}\n";
  const char* functions[] = {"exp", "tanh", "neg", "abs", "sqrt", "sin"};
  for (int i = 0; i < length; ++i) {
    text += cat("  %a", i, " = ", functions[i % 6], " %v", i, "\n");
    text += cat("  %b", i, " = ", functions[(i / 6) % 6], " %a", i, "\n");
    text += cat("  %v", i + 1, " = softmax %b", i, " {axis=1}\n");
  }
  return cat(text, "  return \"y\"=%v", length, "\n}\n");
}

/// Returns a program of functions of a constant that the reference folds slowly.
std::unique_ptr<Program> constant_functions() {
  auto program = std::make_unique<Program>();
  Module& main = program->main();
  Value x = main.parameter("x", Shape{DType::f32, {700, 700}}), c = constant(main, numbers({700, 700}));
  for (int i = 0; i < 30; ++i) c = apply(main, i % 2 ? Fn::erf : Fn::sin, {c});
  main.set_results({{"y", apply(main, Fn::add, {x, c})}});
  return program;
}

}  // namespace

TEST_CASE("deadline: a compile checks the clock often, ends, and can be tried again") {
  struct Work {
    std::function<std::unique_ptr<Program>()> program;
    bool use_cache;
  };
  auto parsed = [](int length) { return [length] { return parse_program(chain(length), make_op); }; };
  for (const Work& work : {Work{parsed(24), false}, Work{parsed(3000), true}, Work{constant_functions, true}}) {
    CompileOptions options{.device = "cpu", .threads = 1, .cache = work.use_cache};
    CompileOptions late = options;
    late.deadline = Clock::now();
    CHECK(code_of([&] { compile(work.program(), late); }) == "E403");
    late.deadline = soon();
    CHECK(code_of([&] { compile(work.program(), late); }) == "E403");
    auto program = work.program();
    Looks looks;
    options.stop = looks.stop();
    auto executable = compile(std::move(program), options);
    CHECK(looks.longest() < allowed_seconds * slowness);
    CHECK(looks.count() > 10);
    auto dims = executable->inputs()[0].type.shape.dims;
    Inputs inputs{numbers({dims[0].value(), dims[1].value()})};
    CHECK(executable->new_context()->run(inputs)[0].dims == inputs[0].dims);
  }
}

TEST_CASE("deadline: kernels that were compiled by then are in the cache") {
  auto folder = std::filesystem::temp_directory_path() / cat("weft-deadline-", ::getpid());
  static KernelCache cache(folder, int64_t{64} << 20);
  std::vector<KernelSource> sources;
  for (int i = 0; i < 6; ++i) {
    std::string name = cat("late", i);
    sources.push_back({.name = name, .code = cat("extern \"C\" int ", name, "() { return ", i, "; }")});
  }
  std::atomic<int> built = 0;
  BuildOptions options{.threads = 1, .cache = &cache, .progress = [&](int done, int) { built = done; }};
  {
    std::function<bool()> stop = [&] { return built >= 2; };
    Watch watch({}, stop);
    WatchScope scope(&watch);
    CHECK(code_of([&] { build_kernels(sources, host_chip(), options); }) == "E404");
  }
  BuildCounts before = build_counts();
  CHECK(build_kernels(sources, host_chip(), options).failures.empty());
  CHECK(build_counts().compiles - before.compiles <= 4);
  CHECK(built == 6);
  std::filesystem::remove_all(folder);
}
