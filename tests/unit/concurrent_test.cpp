// SPDX-License-Identifier: Apache-2.0
// Programs shared by threads: results have the same bits as with one thread, for any width of the pool, while the
// process compiles, loads and drops other programs. The build with TSan runs these tests too.
#include <doctest/doctest.h>

#include <atomic>
#include <thread>

#include "compile.h"
#include "counts.h"
#include "ir/text.h"
#include "ops/registry.h"

using namespace weft;

namespace {

constexpr const char* strings[] = {
    R"(program "pointwise"
symbol n
module main {
  %x = parameter {name="x", type=f32[n,300]}
  %e = exp %x
  %t = tanh %x
  %y = mul %e, %t
  return "y"=%y
})",
    R"(program "dot"
symbol n
module main {
  %x = parameter {name="x", type=f32[n,300]}
  %w = transpose %x {permutation=[1, 0]}
  %d = dot %x, %w
  %r = relu %d
  return "y"=%r
})",
    R"(program "rows"
symbol n
module main {
  %x = parameter {name="x", type=f32[n,300]}
  %s = softmax %x {axis=1}
  %l = normalize %x {axis=1, epsilon=1e-5}
  %y = add %s, %l
  return "y"=%y
})",
    R"(program "reduce"
symbol n
module main {
  %x = parameter {name="x", type=f32[n,300]}
  %a = reduce %x {fn=sum, axes=[0, 1], keep=false}
  %b = reduce %x {fn=mean, axes=[0], keep=false}
  %c = reduce %x {fn=max, axes=[1], keep=false}
  return "a"=%a, "b"=%b, "c"=%c
})",
    R"(program "convolution"
symbol n
module main {
  %x = parameter {name="x", type=f32[n,300]}
  %i = reshape %x {dims=[n, 10, 10, 3]}
  %w = constant {value=f32[4,3,1,1]{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}}
  %c = convolution %i, %w {strides=[1, 1], dilations=[1, 1], pads_begin=[0, 0], pads_end=[0, 0], layout=channels_last}
  %p = pool %c {fn=average, kernel=[3, 3], strides=[1, 1], dilations=[1, 1], pads_begin=[1, 1], pads_end=[1, 1], layout=channels_last}
  return "y"=%p
})"};

std::shared_ptr<Executable> compiled(const char* text, int threads) {
  return compile(parse_program(text, make_op), {.device = "cpu", .threads = threads});
}

std::vector<Tensor> input(int64_t rows) {
  std::vector<double> values;
  for (int64_t i = 0; i < rows * 300; ++i) values.push_back(static_cast<double>(i * 7919 % 2003) / 1000 - 1);
  return {make_tensor(DType::f32, {rows, 300}, values)};
}

/// A program, an input of one size, and the answer of a run on one thread.
struct Model {
  std::shared_ptr<Executable> program;
  std::vector<Tensor> input, answer;
};

bool is_same(const Model& model, Context& context) { return context.run(model.input) == model.answer; }

std::vector<Model> make_models(int threads) {
  std::vector<Model> models;
  for (const char* text : strings) {
    for (int64_t rows : {37, 200}) {
      auto in = input(rows);
      models.push_back({compiled(text, threads), in, compiled(text, 1)->new_context()->run(in)});
    }
  }
  return models;
}

}  // namespace

TEST_CASE("concurrent: the number of threads changes no bit") {
  for (int threads : {1, 2, 3, 4}) {
    for (const Model& model : make_models(threads)) CHECK(is_same(model, *model.program->new_context()));
  }
}

TEST_CASE("concurrent: threads that share programs, with compiles and unloads beside") {
  const std::vector<Model> models = make_models(2);
  const int runs = test::cases(20, 2000);
  std::atomic<int> wrong = 0, running = 8;
  auto use = [&](int number) {
    for (size_t m = 0; m < models.size(); ++m) {
      const Model& model = models[(m + static_cast<size_t>(number)) % models.size()];
      auto context = model.program->new_context();
      for (int run = 0; run < runs; ++run) wrong += !is_same(model, *context);
    }
    --running;
  };
  std::vector<std::thread> threads;
  for (int number = 0; number < 8; ++number) threads.emplace_back(use, number);
  for (size_t i = 0; running > 0; ++i) {
    const Model& model = models[i % models.size()];
    auto again = compiled(strings[i % models.size() / 2], 1 + static_cast<int>(i % 2));
    wrong += !is_same(model, *again->new_context());
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
}
