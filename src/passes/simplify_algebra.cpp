// SPDX-License-Identifier: Apache-2.0
#include "passes/simplify_algebra.h"

#include <algorithm>
#include <cfloat>
#include <cmath>

#include "ops/reduce.h"
#include "ops/wide.h"
#include "passes/match.h"
#include "passes/rules.h"

namespace weft {
namespace {

using namespace notation;

Term variable(int index) { return Term::of_variable(index, false); }
Term any_number(int index) { return Term::of_variable(index, true); }
const int x_index = 0, c_index = 2, d_index = 3;

bool is_real(const Bindings& bound) { return is_float(bound.values[x_index].dtype()); }

bool inverse_is_exact(const Bindings& bound) {
  int exponent = 0;
  double number = *splat_number(bound.values[c_index]);
  return is_real(bound) && std::fabs(std::frexp(number, &exponent)) == 0.5 && std::abs(exponent) < 14;
}

/// True if x's type has the sum or product of c and d: it is finite, and normal or no smaller than c or d. Terms of
/// opposite signs stay: x + c - c rounds x.
bool merge(const Bindings& bound, bool is_sum) {
  DType type = bound.values[x_index].dtype();
  double c = *splat_number(bound.values[c_index]), d = *splat_number(bound.values[d_index]);
  if (!is_real(bound) || (is_sum && std::signbit(c) != std::signbit(d))) return false;
  double normal = type == DType::f16 ? 0x1p-14 : type == DType::f64 ? DBL_MIN : FLT_MIN;
  double merged = round_to(type, is_sum ? c + d : c * d);
  return std::isfinite(merged) && std::fabs(merged) >= std::min({normal, std::fabs(c), std::fabs(d)});
}
bool factors_merge(const Bindings& bound) { return merge(bound, false); }
bool terms_merge(const Bindings& bound) { return merge(bound, true); }

/// True if all elements are known to be at least +0, or NaN.
bool is_never_negative(Value value, int depth = 8) {
  const Instruction& i = *value.def;
  if (auto number = splat_number(value)) return !std::signbit(*number);
  auto is_fine = [&](size_t at) { return depth > 0 && is_never_negative(i.inputs[at], depth - 1); };
  if (is_view(i) || i.is<Convert>() || as_fn(value, Fn::reciprocal)) return is_fine(0);
  if (const auto* op = i.as<Reduce>()) return (op->fn == ReduceFn::sum || op->fn == ReduceFn::mean) && is_fine(0);
  if (as_fn(value, Fn::max)) return splat_number(i.inputs[0]) > 0.0 || splat_number(i.inputs[1]) > 0.0;
  bool is_product = as_fn(value, Fn::mul);
  if (as_fn(value, Fn::abs) || (is_product && i.inputs[0] == i.inputs[1])) return true;
  return (is_product || as_fn(value, Fn::add) || as_fn(value, Fn::div)) && is_fine(0) && is_fine(1);
}
/// True for a root that needs no care for -infinity and -0.
bool is_plain_root(const Bindings& bound) { return is_never_negative(bound.values[x_index]); }

bool is_near(double number, double wanted) { return std::fabs(number - wanted) < 1e-3 * wanted; }
/// True if the number c is about 1 / sqrt(2); exporters write few digits.
bool scales_by_root_half(const Bindings& bound) {
  return is_real(bound) && is_near(*splat_number(bound.values[c_index]), M_SQRT1_2);
}
bool divides_by_root_2(const Bindings& bound) {
  return is_real(bound) && is_near(*splat_number(bound.values[c_index]), M_SQRT2);
}
bool is_cubic_of_gelu(const Bindings& bound) {
  return is_real(bound) && is_near(*splat_number(bound.values[c_index]), 0.044715) &&
         is_near(*splat_number(bound.values[d_index]), M_2_SQRTPI * M_SQRT1_2);
}

/// Adds a rule x / 2 * (1 + f) -> gelu for each position of the factor 1/2 in exported models.
void add_gelu(std::vector<Rule>& rules, const Term& f, const Term& gelu_of_x, bool (*guard)(const Bindings&)) {
  Term x = variable(x_index);
  rules.push_back({(x * 0.5) * (f + 1.0), gelu_of_x, guard});
  rules.push_back({x * ((f + 1.0) * 0.5), gelu_of_x, guard});
  rules.push_back({(x * (f + 1.0)) * 0.5, gelu_of_x, guard});
}

RuleSet algebra() {
  Term x = variable(0), y = variable(1), c = any_number(2), d = any_number(3), z = variable(4);
  std::vector<Rule> rules{
      // neutral elements and signs
      {x + 0.0, x},
      {x - 0.0, x},
      {x * 1.0, x},
      {x / 1.0, x},
      {x * -1.0, -x},
      {-(-x), x},
      {x + -y, x - y},
      {x - -y, x + y},
      // merge two constants; multiply instead of dividing
      {x * c * d, x * (c * d), factors_merge},
      {x + c + d, x + (c + d), terms_merge},
      {x / c, x * reciprocal(c), inverse_is_exact},
      // powers, roots and reciprocals
      {pow(x, 1.0), x},
      {pow(x, 2.0), x * x},
      {pow(x, 3.0), x * x * x},
      {pow(x, 0.5), sqrt(x), is_plain_root},
      {pow(x, 0.5), select(equal(x, -INFINITY), INFINITY, abs(sqrt(x)))},
      {pow(x, -0.5), rsqrt(x), is_plain_root},
      {pow(x, -0.5), select(equal(x, -INFINITY), 0.0, abs(rsqrt(x)))},
      {pow(x, -1.0), reciprocal(x)},
      {1.0 / x, reciprocal(x), is_real},
      {reciprocal(sqrt(x)), rsqrt(x)},
      {x / sqrt(y), x * rsqrt(y)},
      // relu and sigmoid
      {max(x, 0.0), relu(x)},
      {relu(relu(x)), relu(x)},
      {reciprocal(1.0 + exp(-x)), sigmoid(x)},
      // logic and select
      {logical_not(logical_not(x)), x},
      {logical_and(x, 1.0), x},
      {logical_or(x, 0.0), x},
      {logical_and(x, x), x},
      {logical_or(x, x), x},
      {select(1.0, x, y), x},
      {select(0.0, x, y), y},
      {select(z, x, x), x},
      {select(logical_not(z), x, y), select(z, y, x)},
  };
  add_gelu(rules, erf(x * c), gelu(x), scales_by_root_half);
  add_gelu(rules, erf(x / c), gelu(x), divides_by_root_2);
  add_gelu(rules, tanh((x + x * x * x * c) * d), tanh_gelu(x), is_cubic_of_gelu);
  return RuleSet(std::move(rules));
}

}  // namespace

bool simplify_algebra(Module& module) {
  static const RuleSet rules = algebra();
  bool changed = false;
  for (Instruction& i : module) {
    ReplaceScope scope(module, i);
    auto better = rules.apply(module, i);
    if (!better) continue;
    module.replace(i.result(), *better);
    changed = true;
  }
  return changed;
}

}  // namespace weft
