// SPDX-License-Identifier: Apache-2.0
#include "passes/quantize_products.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "ir/core_ops.h"
#include "ops/build.h"
#include "ops/quantize.h"
#include "ops/wide.h"

namespace weft {
namespace {

/// An operand of a product. Operands made of constants only have the axis of their channels, others -1.
struct Factor {
  Instruction* product;
  size_t operand;
  int64_t channels = -1;

  Value value() const { return product->inputs[operand]; }
};

/// For each instruction by id: whether it depends on a value that the caller gives.
std::vector<bool> find_variables(const Module& module) {
  std::vector<bool> varies(module.id_limit());
  for (Instruction& i : module) {
    auto is_variable = [&](Value v) { return v.def->parent != &module || varies[v.def->id]; };
    varies[i.id] = i.is<Parameter>() || !i.modules.empty() || std::ranges::any_of(i.inputs, is_variable);
  }
  return varies;
}

/// The axis of the weights that becomes an axis of the result.
int64_t channel_axis(const Instruction& product, size_t operand) {
  const auto* convolution = product.as<Convolution>();
  if (convolution) return operand == 1 && !convolution->transposed ? 0 : -1;
  return operand == 1 ? product.inputs[1].rank() - 1 : -1;
}

bool is_wanted(const Instruction& i, ProductKinds kinds) {
  bool is_kind = (i.is<Dot>() && kinds.dots) || (i.is<Convolution>() && kinds.convolutions);
  auto is_float = [](Value v) { return v.dtype() == DType::f32; };
  return is_kind && i.types[0].shape.dtype == DType::f32 && std::ranges::all_of(i.inputs, is_float);
}

/// Finds products by weights. Products of two computed values (attention) stay as they are.
std::vector<Factor> find_factors(const Module& module, ProductKinds kinds) {
  std::vector<bool> varies = find_variables(module);
  std::vector<Factor> factors;
  for (Instruction& i : module) {
    if (!is_wanted(i, kinds) || varies[i.inputs[0].def->id] == varies[i.inputs[1].def->id]) continue;
    for (size_t k = 0; k < 2; ++k) factors.push_back({&i, k, varies[i.inputs[k].def->id] ? -1 : channel_axis(i, k)});
  }
  return factors;
}

Value magnitude(Module& module, const Factor& factor) {
  Value x = apply(module, Fn::abs, {factor.value()});
  std::vector<int64_t> axes(static_cast<size_t>(x.rank()));
  std::iota(axes.begin(), axes.end(), 0);
  if (factor.channels >= 0) axes.erase(axes.begin() + factor.channels);
  return reduce(module, ReduceFn::max, x, axes, false);
}

/// The value of one quantisation step. A value that is always 0 has steps of 1.
Tensor step_of(const Tensor& magnitudes, DType to) {
  double greatest = to == DType::i8 ? 127 : 448;
  Wide wide = to_wide(magnitudes);
  std::vector<double> steps;
  for (double most : wide.as<double>()) steps.push_back(most > 0 ? most / greatest : 1);
  return to_tensor(make_wide(DType::f32, wide.dims, std::move(steps)));
}

}  // namespace

size_t observe_products(Program& program, ProductKinds kinds) {
  Module& main = program.main();
  std::vector<Result> results;
  for (const Factor& factor : find_factors(main, kinds))
    results.push_back({cat("magnitude_", results.size()), magnitude(main, factor)});
  main.set_results(results);
  main.remove_dead();
  return results.size();
}

void quantize_products(Program& program, ProductKinds kinds, std::span<const Tensor> magnitudes) {
  Module& main = program.main();
  std::vector<Factor> factors = find_factors(main, kinds);
  if (factors.size() != magnitudes.size())
    throw Error({.kind = ErrorKind::usage,
                 .code = "E210",
                 .what = cat("the products have ", factors.size(), " operands, magnitudes of ", magnitudes.size(),
                             " are given")});
  for (size_t i = 0; i < factors.size(); ++i) {
    const Factor& factor = factors[i];
    ReplaceScope scope(main, *factor.product);
    Value scale = constant(main, step_of(magnitudes[i], kinds.to));
    int64_t axis = std::max<int64_t>(factor.channels, 0);
    Value q = main.append(Quantize{.to = kinds.to, .axis = axis}, {factor.value(), scale});
    main.set_input(*factor.product, factor.operand, main.append(Dequantize{.axis = axis}, {q, scale}));
  }
}

}  // namespace weft
