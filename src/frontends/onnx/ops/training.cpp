// SPDX-License-Identifier: Apache-2.0
// Steps of optimisers (ai.onnx.preview.training). Inputs: the rate R, the number of updates T so far, then for n
// tensors all values, all gradients and the states; outputs: the new values, then the new states.
#include "frontends/onnx/import/expr.h"

namespace weft::onnx {
namespace {

struct Step {
  Expr rate, count;
  size_t tensors;

  /// Returns part `part` (0: value, 1: gradient, then the states) of tensor i.
  Expr at(Call& c, size_t part, size_t i) const { return arg(c, 2 + part * tensors + i); }
};

Step step_of(Call& c, size_t parts) {
  if (c.input_count() < 2 + parts || (c.input_count() - 2) % parts)
    c.fail("E140", cat("needs 2 + ", parts, "n inputs, has ", c.input_count()));
  return {reshape(arg(c, 0), {}), reshape(arg(c, 1), {}), (c.input_count() - 2) / parts};
}

/// Returns the gradient plus the gradient of the L2 penalty on x.
Expr regularised(Call& c, Expr x, Expr gradient) { return x * c.number("norm_coefficient", 0) + gradient; }

/// Imports Adagrad (Duchi et al., 2011).
Values adagrad(Call& c) {
  Step step = step_of(c, 3);
  Expr rate = step.rate / (convert(step.count, step.rate.dtype()) * c.number("decay_factor", 0) + 1.0);
  Values values, squares;
  for (size_t i = 0; i < step.tensors; ++i) {
    Expr x = step.at(c, 0, i), g = regularised(c, x, step.at(c, 1, i)), h = step.at(c, 2, i) + g * g;
    values.push_back(x - convert(rate, x.dtype()) * g / (sqrt(h) + c.number("epsilon", 1e-6)));
    squares.push_back(h);
  }
  values.insert(values.end(), squares.begin(), squares.end());
  return values;
}

/// Imports Adam (Kingma and Ba, 2014).
Values adam(Call& c) {
  Step step = step_of(c, 4);
  double alpha = c.number("alpha", 0.9), beta = c.number("beta", 0.999);
  DType type = step.rate.dtype();
  Expr count = convert(step.count, type);
  Expr corrected =
      step.rate * sqrt(1.0 - pow(number(c, type, beta), count)) / (1.0 - pow(number(c, type, alpha), count));
  Expr rate = select(step.count > 0, corrected, step.rate);
  Values values, means, squares;
  for (size_t i = 0; i < step.tensors; ++i) {
    Expr x = step.at(c, 0, i), g = regularised(c, x, step.at(c, 1, i));
    Expr v = step.at(c, 2, i) * alpha + g * (1 - alpha), h = step.at(c, 3, i) * beta + g * g * (1 - beta);
    Expr y = x - convert(rate, x.dtype()) * v / (sqrt(h) + c.number("epsilon", 1e-6));
    values.push_back(y * (1 - c.number("norm_coefficient_post", 0)));
    means.push_back(v), squares.push_back(h);
  }
  values.insert(values.end(), means.begin(), means.end());
  values.insert(values.end(), squares.begin(), squares.end());
  return values;
}

/// Imports Momentum: stochastic gradient descent with momentum, also Nesterov's.
Values momentum(Call& c) {
  Step step = step_of(c, 3);
  double alpha = c.number("alpha");
  std::string mode = c.text("mode");
  if (mode != "standard" && mode != "nesterov")
    c.fail("E145", cat("mode '", printable(mode), "' is not standard or nesterov"));
  Expr beta = select(step.count > 0, number(c, step.rate.dtype(), c.number("beta")), 1.0);
  Values values, means;
  for (size_t i = 0; i < step.tensors; ++i) {
    Expr x = step.at(c, 0, i), g = regularised(c, x, step.at(c, 1, i));
    Expr v = step.at(c, 2, i) * alpha + g * convert(beta, x.dtype());
    values.push_back(x - (mode == "standard" ? v : g + v * alpha) * convert(step.rate, x.dtype()));
    means.push_back(v);
  }
  values.insert(values.end(), means.begin(), means.end());
  return values;
}

constexpr Operator training_table[] = {
    {"ai.onnx.preview.training", "Adagrad", adagrad},
    {"ai.onnx.preview.training", "Adam", adam},
    {"ai.onnx.preview.training", "Momentum", momentum},
};

}  // namespace

std::span<const Operator> training_operators() { return training_table; }

}  // namespace weft::onnx
