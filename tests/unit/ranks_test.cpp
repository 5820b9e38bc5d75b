// SPDX-License-Identifier: Apache-2.0
// Programs that compute a model together give the answers of one program, in the same bits every time, and a rank that
// fails ends the others. The build with TSan runs these tests too.
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <thread>

#include "base/error.h"
#include "base/text.h"
#include "compile.h"
#include "counts.h"
#include "errors.h"
#include "lower/lower.h"
#include "ops/build.h"
#include "ops/collective.h"
#include "ops/custom.h"
#include "ops/reduce.h"
#include "runtime/ranks.h"
#include "targets/gpu/communicators.h"

using namespace weft;
using weft::test::code_of;

namespace {

constexpr int64_t width = 64, inner = 128, layers = 3;
constexpr auto soon = std::chrono::seconds(5);

Tensor numbers(std::vector<int64_t> dims, int seed) {
  std::vector<double> values(static_cast<size_t>(element_count(dims)));
  for (size_t i = 0; i < values.size(); ++i) values[i] = std::sin(static_cast<double>(i) * 0.7 + seed);
  return make_tensor(DType::f32, std::move(dims), values);
}

/// Returns a program of residual layers: two products with relu and, unless null, `op` between them.
std::unique_ptr<Program> network(const CustomOperator* op = nullptr) {
  auto program = std::make_unique<Program>();
  Module& m = program->main();
  Dim rows = program->symbol({.name = "rows", .min = 1});
  Value x = m.parameter("x", Shape{DType::f32, {rows, width}});
  for (int i = 0; i < layers; ++i) {
    Value y = matmul(m, x, apply(m, Fn::mul, constant(m, numbers({width, inner}, i)), 0.1));
    y = apply(m, Fn::relu, {y});
    if (op) y = append_custom(m, *op, {}, {y})[0];
    x = apply(m, Fn::add, {x, matmul(m, y, apply(m, Fn::mul, constant(m, numbers({inner, width}, 2 * i)), 0.1))});
  }
  m.set_results({{"y", x}});
  return program;
}

std::string devices(int ranks) {
  std::string list = "cpu";
  for (int i = 1; i < ranks; ++i) list += ",cpu";
  return list;
}

using Outputs = std::vector<Tensor>;
const std::vector<Tensor>& inputs() {
  static const std::vector<Tensor> given{numbers({5, width}, 9)};
  return given;
}

/// Checks that a run with these options ends with the error in time, and that the next run is right.
void check_failure(Context& context, const Outputs& want, const RunOptions& options, const std::string& code) {
  auto begin = std::chrono::steady_clock::now();
  CHECK(code_of([&] { context.run(inputs(), options); }) == code);
  CHECK(std::chrono::steady_clock::now() - begin < soon);
  CHECK(context.run(inputs())[0] == want[0]);
}

/// Checks collectives on a single GPU: calls, types, counts and graph capture. With one rank, a sum equals its operand.
/// `connected`: Weft's own kernel computes small sums, NCCL large sums.
void check_alone(const std::shared_ptr<gpu::Device>& device, DType type, bool connected) {
  CAPTURE(name(type));
  CAPTURE(connected);
  auto program = std::make_unique<Program>();
  Module& m = program->main();
  Dim rows = program->symbol({.name = "rows", .min = 1});
  Value x = m.parameter("x", Shape{type, {rows, width}});
  Value sum = m.append(Collective{.fn = CollectiveFn::sum, .ranks = 1}, {apply(m, Fn::relu, {x})});
  Value all = m.append(Collective{.fn = CollectiveFn::gather, .ranks = 1}, {apply(m, Fn::neg, {sum})});
  m.set_results({{"y", reshape(m, apply(m, Fn::abs, {all}), {rows, width})}});
  auto part = compile(std::move(program), {.device = device->name(), .ranks = {.are_connected = connected}});
  auto model = make_ranked({.ranks = {part},
                            .split_inputs = {false},
                            .split_outputs = {false},
                            .devices = {device},
                            .are_connected = connected});
  auto context = model->new_context();
  for (int64_t count : {5, 1, 5, 4096, 8192}) {  // mailboxes hold 4096 rows in 16 bits, 2048 in f32
    std::vector<double> values = to_doubles(numbers({count, width}, 3));
    Tensor given = make_tensor(type, {count, width}, values);
    std::vector<double> want = to_doubles(given);
    for (double& v : want) v = v > 0 ? v : 0;
    for (int run = 0; run < 3; ++run) CHECK(to_doubles(context->run(std::vector<Tensor>{given})[0]) == want);
  }
}

/// Checks elementwise functions and a normalisation after an all-reduce of a small tensor; some are fused into its
/// kernel. Elementwise results are exact in every type.
void check_behind_sum(const std::shared_ptr<gpu::Device>& device, DType type) {
  CAPTURE(name(type));
  for (int64_t cols : {64, 66, 1}) {
    CAPTURE(cols);
    auto program = std::make_unique<Program>();
    Module& m = program->main();
    Value x = m.parameter("x", Shape{type, {5, cols}});
    std::vector<double> values, gains, first, second;
    for (int i = 0; i < 5 * cols; ++i) values.push_back(i % 7 - 3);
    for (int i = 0; i < cols; ++i) gains.push_back(i % 3 + 1);
    Value sum = m.append(Collective{.fn = CollectiveFn::sum, .ranks = 1}, {apply(m, Fn::relu, {x})});
    Value y = apply(m, Fn::add, {sum, x});
    Value gain = constant(m, make_tensor(type, {cols}, gains));
    Value norm = m.append(Normalize{.axis = 1, .epsilon = 1, .centred = false}, {y});
    m.set_results({{"y", y}, {"z", apply(m, Fn::neg, {apply(m, Fn::mul, {y, gain})})}, {"norm", norm}});
    for (size_t i = 0; i < values.size(); ++i) {
      first.push_back(std::max(values[i], 0.0) + values[i]);
      second.push_back(-first.back() * gains[i % gains.size()]);
    }
    auto part = compile(std::move(program), {.device = device->name(), .ranks = {.are_connected = true}});
    auto model = make_ranked({.ranks = {part},
                              .split_inputs = {false},
                              .split_outputs = {false, false, false},
                              .devices = {device},
                              .are_connected = true});
    auto context = model->new_context();
    for (int run = 0; run < 3; ++run) {
      Outputs got = context->run(std::vector<Tensor>{make_tensor(type, {5, cols}, values)});
      CHECK(to_doubles(got[0]) == first);
      CHECK(to_doubles(got[1]) == second);
      std::vector<double> norms = to_doubles(got[2]);
      for (size_t i = 0; i < norms.size(); ++i) {
        double squares = 0;
        auto row = first.begin() + static_cast<int64_t>(i) / cols * cols;
        for (int64_t k = 0; k < cols; ++k) squares += row[k] * row[k];
        CHECK(norms[i] == doctest::Approx(first[i] / std::sqrt(squares / static_cast<double>(cols) + 1)).epsilon(1e-2));
      }
    }
  }
}

}  // namespace

TEST_CASE("ranks give the answer of one device, with equal bits in each run") {
  auto one = compile(network(), {.device = "cpu", .threads = 1});
  auto want = to_doubles(one->new_context()->run(inputs())[0]);
  for (int ranks : {2, 3, 4, 8}) {
    CAPTURE(ranks);
    auto model = compile(network(), {.device = devices(ranks), .threads = ranks});
    auto context = model->new_context();
    Tensor first = context->run(inputs())[0];
    auto got = to_doubles(first);
    for (size_t i = 0; i < want.size(); ++i) CHECK(got[i] == doctest::Approx(want[i]).epsilon(1e-4));
    for (int i = 0; i < 20; ++i) CHECK(context->run(inputs())[0] == first);
    CHECK(context->memory().arena > 0);
    CHECK(model->device().starts_with(devices(ranks) + " ("));
  }
}

TEST_CASE("contexts of a split program run at once") {
  auto model = compile(network(), {.device = devices(3), .threads = 3});
  Tensor want = model->new_context()->run(inputs())[0];
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      auto context = model->new_context();
      for (int i = 0; i < test::cases(20, 2000); ++i) wrong += context->run(inputs())[0] != want;
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
}

TEST_CASE("a rank that is stopped ends the others, wherever that happens") {
  auto model = compile(network(), {.device = devices(4), .threads = 4});
  auto context = model->new_context();
  Outputs want = context->run(inputs());
  int ended = 0;
  for (int at = 0; at < test::cases(40, 400); ++at) {
    CAPTURE(at);
    std::atomic<int> asked = 0;  // calls by all ranks; one call returns true
    RunOptions options{.stop = [&] { return asked++ == at; }};
    std::string code = code_of([&] { context->run(inputs(), options); });
    CHECK((code == "E404" || (code == "none" && asked <= at)));
    ended += code == "E404";
    CHECK(context->run(inputs())[0] == want[0]);
  }
  CHECK(ended > 10);
}

namespace {

struct Failing {
  std::atomic<int> calls = 0;
  int at = -1;  ///< the call that fails
};

int32_t call(void* user, const char*, void* const* buffers, const int64_t* sizes) {
  auto& failing = *static_cast<Failing*>(user);
  if (failing.calls++ == failing.at) return 1;
  const auto* x = static_cast<const float*>(buffers[0]);
  std::copy(x, x + sizes[0] * sizes[1], static_cast<float*>(buffers[1]));
  return 0;
}

}  // namespace

TEST_CASE("an operator of the embedder that fails in one rank ends the others") {
  Failing failing;
  CustomOperator op;
  op.name = "mine:same", op.rule = "f32[n,k] -> f32[n,k]", op.call = call, op.user = &failing;
  auto model = compile(network(&op), {.device = devices(4), .threads = 4});
  auto context = model->new_context();
  Outputs want = context->run(inputs());
  int calls = failing.calls;
  CHECK(calls == 4 * layers);
  for (int at = 0; at < calls; ++at) {
    CAPTURE(at);
    failing.at = at, failing.calls = 0;
    check_failure(*context, want, {}, "E302");
  }
}

namespace {

struct Memory {
  std::atomic<int> left = 1 << 30;
};

void* take(void* user, size_t bytes, size_t alignment) {
  if (static_cast<Memory*>(user)->left-- <= 0) return nullptr;
  return std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
}
void give_back(void*, void* data, size_t, size_t) { std::free(data); }

}  // namespace

TEST_CASE("a rank without memory ends the others") {
  Memory memory;
  auto model = compile(network(), {.device = devices(4), .threads = 4, .allocator = {take, give_back, &memory}});
  Outputs want = model->new_context()->run(inputs());
  int failed = 0;
  for (int left = 0; left < 24; ++left) {
    CAPTURE(left);
    memory.left = left;
    auto context = model->new_context();
    auto begin = std::chrono::steady_clock::now();
    std::string code = code_of([&] { context->run(inputs()); });
    CHECK(std::chrono::steady_clock::now() - begin < soon);
    CHECK((code == "E401" || code == "none"));
    failed += code == "E401";
    memory.left = 1 << 30;
    CHECK(context->run(inputs())[0] == want[0]);
  }
  CHECK(failed >= 4);
}

TEST_CASE("a GPU alone makes the collectives of one rank") {
  if (gpu::devices().empty()) return;
  auto device = gpu::devices()[0];
  if (code_of([&] { gpu::need_collectives(*device); }) == "E501") return;
  for (DType type : {DType::f32, DType::f16, DType::bf16}) {
    check_alone(device, type, false);
    if (device->info().chip.kind != ChipKind::nvidia) continue;
    check_alone(device, type, true);
    check_behind_sum(device, type);
  }
}

TEST_CASE("a small sum over connected GPUs takes the elementwise functions that alone read it") {
  auto steps_of = [](DType type, bool connected, bool is_fixed) {
    auto program = std::make_unique<Program>();
    Module& m = program->main();
    Dim rows = is_fixed ? Dim(1) : program->symbol({.name = "rows", .min = 1});
    Value x = m.parameter("x", Shape{type, {rows, width}});
    Value product =
        matmul(m, x, constant(m, make_tensor(type, {width, width}, to_doubles(numbers({width, width}, 1)))));
    Value sum = m.append(Collective{.fn = CollectiveFn::sum, .ranks = 2}, {product});
    Value y = apply(m, Fn::add, {x, sum});
    Value norm = m.append(Normalize{.axis = 1, .centred = false}, {y});
    Value gain = constant(m, make_tensor(type, {width}, to_doubles(numbers({width}, 2))));
    Value second = matmul(m, apply(m, Fn::mul, {norm, gain}),
                          constant(m, make_tensor(type, {width, width}, to_doubles(numbers({width, width}, 3)))));
    m.set_results({{"y", y}, {"z", second}});
    Plan plan = lower(*program, chip_named("sm_90a"), {.are_connected = connected});
    std::string names;
    for (const PlanStep& step : plan.steps) {
      std::string whole = step_name(plan, step);
      names += whole.substr(0, step.is<LaunchStep>() ? whole.rfind('_') : whole.size()) + " ";
    }
    return names;
  };
  CHECK(steps_of(DType::f16, true, true) == "dot_f16 all_reduce_add dot_f16_rms_norm ");
  CHECK(steps_of(DType::f16, true, false) == "dot_f16 ranks_sum all_reduce rms_norm_add_mul dot_f16 ");
  CHECK(steps_of(DType::f16, false, true) == "dot_f16 ranks_sum rms_norm_add_mul dot_f16 ");
}
