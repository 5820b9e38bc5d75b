// SPDX-License-Identifier: Apache-2.0
#include "cpu_compare.h"

#include <doctest/doctest.h>

#include <cmath>
#include <random>
#include <unordered_map>

#include "base/error.h"
#include "ir/core_ops.h"
#include "ir/text.h"
#include "kernel_build/kernel_build.h"
#include "lower/lower.h"
#include "ops/registry.h"
#include "ops/wide.h"
#include "passes/passes.h"
#include "plan/lifetimes.h"
#include "runtime/bind.h"
#include "runtime/cpu_executable.h"

namespace weft {
namespace {

/// The range of an input's random integers; `few`: 0 to 4.
enum class Fill : uint8_t { few, any, lowest, highest };

int64_t integer(DType type, Fill fill, std::mt19937& random) {
  int64_t low = lowest_integer(type), high = highest_integer(type);
  if (fill == Fill::few) return random() % 5;
  return fill == Fill::any      ? low + static_cast<int64_t>(random()) % (high - low + 1)
         : fill == Fill::lowest ? low
                                : high;
}

Tensor random_tensor(DType type, std::vector<int64_t> dims, std::mt19937& random, Fill fill = Fill::few) {
  std::vector<double> values(static_cast<size_t>(element_count(dims)));
  std::normal_distribution<double> normal;
  for (double& value : values)
    value = is_float(type) ? normal(random) : static_cast<double>(integer(type, fill, random));
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

std::shared_ptr<Executable> compile_text(const Program& program, int threads, DType storage = DType::f32) {
  Plan plan = lower(program, host_chip(), {.storage = storage});
  plan_lifetimes(plan);
  std::vector<KernelSource> sources;
  for (const PlanKernel& kernel : plan.kernels) sources.push_back({.name = kernel.name, .code = kernel.code});
  BuiltKernels built = build_kernels_or_throw(sources, host_chip());
  return make_cpu_executable({std::move(plan), built.image}, {.threads = threads}, {}, {});
}

void check_close(const Tensor& got, const Tensor& wanted, const std::string& what) {
  REQUIRE(got.dims == wanted.dims);
  REQUIRE(got.dtype == wanted.dtype);
  std::vector<double> a = to_doubles(got), b = to_doubles(wanted);
  double error = 0, norm = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    bool is_special = std::isnan(b[i]) ? std::isnan(a[i]) : std::isinf(b[i]) && a[i] == b[i];
    if (is_special) continue;
    error += (a[i] - b[i]) * (a[i] - b[i]);
    norm += b[i] * b[i];
  }
  double bound = is_float(got.dtype) ? (bits(got.dtype) < 32 ? 4e-3 : 1e-5) : 0;
  INFO(what);
  CHECK(std::sqrt(error) <= bound * std::sqrt(norm) + 1e-30);
}

}  // namespace

void compare_on_cpu(const std::string& text, const InputSizes& cases, DType storage) {
  auto program = parse_program(text, make_op);
  for (int threads : {1, 2}) {
    auto executable = compile_text(*program, threads, storage);
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

/// Applies the passes for quantised programs on `chip`, runs the result on this processor, and compares with the
/// original program. `inputs_for` gets the executable and returns the inputs of each run.
template <class InputsFor>
static void compare_prepared_for(const char* chip, const std::string& text, const InputsFor& inputs_for) {
  auto program = parse_program(text, make_op), prepared = parse_program(text, make_op);
  PassContext context{.chip = chip_named(chip)};
  for (const char* pass : {"integer_products", "fold_scales", "expand_quantize", "channels_last", "guess_roundings"}) {
    find_pass(pass, context)(prepared->main());
    prepared->main().remove_dead();
  }
  auto executable = compile_text(*prepared, 2);
  auto run = executable->new_context();
  for (const std::vector<Tensor>& inputs : inputs_for(*executable)) {
    auto wanted = evaluate(program->main(), inputs, bind_symbols(executable->inputs(), inputs));
    auto got = run->run(inputs);
    for (size_t i = 0; i < got.size(); ++i) {
      INFO(chip, " of ", text, " with ", to_doubles(inputs[0]));
      CHECK(to_doubles(got[i]) == to_doubles(wanted[i]));
    }
  }
}

template <class InputsFor>
static void compare_prepared(const std::string& text, const InputsFor& inputs_for) {
  for (const char* chip : {"x86-64-v3", "x86-64-v4+avx512vnni", "x86-64-v4+avx512vnni+amx-int8"})
    compare_prepared_for(chip, text, inputs_for);
}

void compare_quantized_on_cpu(const std::string& text, const InputSizes& cases) {
  compare_prepared(text, [&](const Executable& executable) {
    std::mt19937 random(7);
    std::vector<std::vector<Tensor>> runs;
    for (const auto& sizes : cases) {
      for (Fill fill : {Fill::any, Fill::lowest, Fill::highest}) {
        std::vector<Tensor>& inputs = runs.emplace_back();
        for (size_t i = 0; i < sizes.size(); ++i)
          inputs.push_back(random_tensor(executable.inputs()[i].type.shape.dtype, sizes[i], random, fill));
      }
    }
    return runs;
  });
}

void compare_quantized_on_cpu(const std::string& text, const std::vector<Tensor>& inputs) {
  compare_prepared(text, [&](const Executable&) { return std::vector<std::vector<Tensor>>{inputs}; });
}

std::vector<Tensor> run_on_cpu(const std::string& text, const std::vector<Tensor>& inputs, DType storage) {
  auto executable = compile_text(*parse_program(text, make_op), 2, storage);
  return executable->new_context()->run(inputs);
}

}  // namespace weft
