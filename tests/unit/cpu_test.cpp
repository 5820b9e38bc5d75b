// SPDX-License-Identifier: Apache-2.0
// Programs in text form, lowered, compiled and run on the CPU, against the reference meaning of each instruction.
#include <doctest/doctest.h>

#include <cmath>
#include <random>
#include <unordered_map>

#include "base/error.h"
#include "ir/core_ops.h"
#include "ir/text.h"
#include "lower/lower.h"
#include "ops/registry.h"
#include "ops/wide.h"
#include "plan/lifetimes.h"
#include "runtime/bind.h"
#include "runtime/cpu_executable.h"
#include "runtime/kernel_build.h"

using namespace weft;

namespace {

Tensor random_tensor(DType type, std::vector<int64_t> dims, std::mt19937& random) {
  std::vector<double> values(static_cast<size_t>(element_count(dims)));
  std::normal_distribution<double> normal;
  for (double& value : values) value = is_float(type) ? normal(random) : static_cast<double>(random() % 5);
  return make_tensor(type, std::move(dims), values);
}

std::vector<Tensor> evaluate(const Module& module, std::span<const Tensor> inputs, const SymbolValues& sizes) {
  std::unordered_map<const Instruction*, std::vector<Wide>> values;
  size_t next = 0;
  for (const Instruction& i : module) {
    if (i.is<Parameter>()) {
      values[&i] = {to_wide(inputs[next++])};
      continue;
    }
    std::vector<Wide> operands;
    for (const Value& input : i.inputs) operands.push_back(values.at(input.def).at(input.index));
    Op op = i.op.info().substitute(i.op, [&](const Symbol& symbol) { return Dim(sizes(symbol)); });
    values[&i] = op.info().evaluate(op, operands);
  }
  std::vector<Tensor> results;
  for (const Result& result : module.results())
    results.push_back(to_tensor(values.at(result.value.def).at(result.value.index)));
  return results;
}

std::shared_ptr<Executable> compile_text(const Program& program, int threads) {
  Plan plan = lower(program, host_chip());
  plan_lifetimes(plan);
  std::vector<KernelSource> sources;
  for (const PlanKernel& kernel : plan.kernels) sources.push_back({.name = kernel.name, .code = kernel.code});
  BuiltKernels built = build_kernels_or_throw(sources, host_chip());
  return make_cpu_executable(std::move(plan), built.image, threads, {});
}

void check_close(const Tensor& got, const Tensor& wanted, const std::string& what) {
  REQUIRE(got.dims == wanted.dims);
  REQUIRE(got.dtype == wanted.dtype);
  std::vector<double> a = to_doubles(got), b = to_doubles(wanted);
  double error = 0, norm = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(a[i]) && std::isnan(b[i])) continue;
    error += (a[i] - b[i]) * (a[i] - b[i]);
    norm += b[i] * b[i];
  }
  double bound = is_float(got.dtype) ? (bits(got.dtype) < 32 ? 4e-3 : 1e-5) : 0;
  INFO(what);
  CHECK(std::sqrt(error) <= bound * std::sqrt(norm) + 1e-30);
}

/// Runs the program with inputs of these sizes, on one and two threads.
void compare(const std::string& text, const std::vector<std::vector<std::vector<int64_t>>>& cases) {
  auto program = parse_program(text, make_op);
  for (int threads : {1, 2}) {
    auto executable = compile_text(*program, threads);
    auto context = executable->new_context();
    std::mt19937 random(7);
    for (const auto& sizes : cases) {
      std::vector<Tensor> inputs;
      for (size_t i = 0; i < sizes.size(); ++i)
        inputs.push_back(random_tensor(executable->inputs()[i].type.shape.dtype, sizes[i], random));
      auto wanted = evaluate(program->main(), inputs, bind_symbols(executable->inputs(), inputs));
      auto got = context->run(inputs);
      for (size_t i = 0; i < got.size(); ++i)
        check_close(got[i], wanted[i], cat(text, " at ", inputs[0].dims, " output ", i));
    }
  }
}

}  // namespace

TEST_CASE("cpu: pointwise with broadcasts, views and two results") {
  compare(R"(program "p"
symbol n min=0
module main {
  %x = parameter {name="x", type=f32[n,3,5]}
  %b = parameter {name="b", type=f32[5]}
  %bb = broadcast %b {dims=[n, 3, 5]}
  %y = add %x, %bb
  %t = transpose %y {permutation=[1, 0, 2]}
  %z = exp %y
  %c = constant {value=f32[]{2}}
  %cc = broadcast %c {dims=[n, 3, 5]}
  %m = greater %z, %cc
  %s = select %m, %z, %y
  return "s"=%s, "t"=%t, "m"=%m
})",
          {{{2, 3, 5}, {5}}, {{0, 3, 5}, {5}}, {{1, 3, 5}, {5}}, {{7, 3, 5}, {5}}});
}

TEST_CASE("cpu: dot with constant and dynamic right side, batches, epilogue") {
  compare(R"(program "d"
symbol n min=0
symbol k
module main {
  %a = parameter {name="a", type=f32[n,4,k]}
  %b = parameter {name="b", type=f32[n,k,7]}
  %d = dot %a, %b
  %r = relu %d
  %bt = transpose %b {permutation=[0, 2, 1]}
  %at = transpose %a {permutation=[0, 2, 1]}
  %e = dot %bt, %at
  return "r"=%r, "e"=%e
})",
          {{{2, 4, 3}, {2, 3, 7}},
           {{1, 4, 1}, {1, 1, 7}},
           {{3, 4, 70}, {3, 70, 7}},
           {{2, 4, 0}, {2, 0, 7}},
           {{0, 4, 3}, {0, 3, 7}}});
}

TEST_CASE("cpu: softmax, norms and reductions") {
  compare(R"(program "r"
symbol n min=0
module main {
  %x = parameter {name="x", type=f32[n,6,37]}
  %y = parameter {name="y", type=f32[n,6,37]}
  %a = add %x, %y
  %s = softmax %a {axis=2}
  %l = normalize %a {axis=2, epsilon=1e-5}
  %q = mul %l, %y
  %m = reduce %a {fn=mean, axes=[2], keep=true}
  %c = reduce %x {fn=max, axes=[1], keep=false}
  %t = reduce %x {fn=sum, axes=[0, 1, 2], keep=false}
  return "s"=%s, "q"=%q, "m"=%m, "c"=%c, "t"=%t
})",
          {{{2, 6, 37}, {2, 6, 37}}, {{1, 6, 37}, {1, 6, 37}}, {{5, 6, 37}, {5, 6, 37}}});
}

TEST_CASE("cpu: convolution and pooling, channels last") {
  compare(R"(program "c"
symbol n
symbol h min=3
module main {
  %x = parameter {name="x", type=f32[n,h,9,5]}
  %w = parameter {name="w", type=f32[12,5,3,3]}
  %v = parameter {name="v", type=f32[5,1,3,3]}
  %b = parameter {name="b", type=f32[12]}
  %c = convolution %x, %w {strides=[2, 1], dilations=[1, 1], pads_begin=[1, 1], pads_end=[1, 1], layout=channels_last}
  %bb = broadcast %b {dims=[n, floordiv(h - 1, 2) + 1, 9, 12]}
  %d = add %c, %bb
  %r = relu %d
  %e = convolution %x, %v {strides=[1, 1], dilations=[1, 1], pads_begin=[1, 1], pads_end=[1, 1], groups=5, layout=channels_last}
  %p = pool %r {fn=max, kernel=[2, 2], strides=[2, 2], dilations=[1, 1], pads_begin=[0, 0], pads_end=[0, 0], layout=channels_last}
  %q = pool %e {fn=average, kernel=[3, 3], strides=[1, 1], dilations=[1, 1], pads_begin=[1, 1], pads_end=[1, 1], layout=channels_last}
  return "p"=%p, "q"=%q
})",
          {{{2, 8, 9, 5}, {12, 5, 3, 3}, {5, 1, 3, 3}, {12}}, {{1, 3, 9, 5}, {12, 5, 3, 3}, {5, 1, 3, 3}, {12}}});
}
