// SPDX-License-Identifier: Apache-2.0
// Imports random operators. Results have torch's distributions but not torch's values; each run draws new ones.
#include "frontends/common/random.h"
#include "frontends/torch/importer.h"
#include "frontends/torch/promote.h"

namespace weft::torch {
namespace {

frontend::RandomSource source(Call& c) {
  if (!c.importer().may_draw())
    c.unsupported("draws from torch's generator; archives may draw, outside of branches and loops");
  return frontend::random_source(c, c.importer().next_stream());
}

/// Returns the result's sizes: `size`, else those of `self`.
Dims random_dims(Call& c) { return c.has("size") ? c.sizes("size") : c.tensor("self").dims(); }
DType random_type(Call& c, DType other = DType::f32) {
  c.ignore({"device", "layout", "pin_memory", "memory_format", "generator"});
  return c.element("dtype").value_or(c.has("self") ? c.tensor("self").dtype() : other);
}

Values uniform(Call& c) {
  DType type = random_type(c);
  double from = c.number("from", 0), to = c.number("to", 1);
  return one(convert(frontend::uniform(source(c), type, random_dims(c)) * (to - from) + from, type));
}

Values exponential_numbers(Call& c) {
  DType type = random_type(c);
  return one(convert(frontend::exponential(source(c), type, random_dims(c)) * (1 / c.number("lambd", 1)), type));
}

Values integers(Call& c) {
  DType type = random_type(c, DType::i64);
  Dim low = c.size("low", 0), high = c.size("high");
  Expr place =
      floor(frontend::uniform(source(c), DType::f64, random_dims(c)) * frontend::scalar(c, high - low, DType::f64));
  return one(convert(convert(place, DType::i64) + frontend::scalar(c, low), type));
}

/// Imports normal. `mean` and `std` are numbers, or tensors, which then give the sizes.
Values normal(Call& c) {
  auto given = [&](std::string_view name, double number) {
    return c.has(name) ? c.operand(name) : Operand{.kind = Operand::Kind::number, .number = number};
  };
  std::array<Operand, 2> of{given("mean", 0), given("std", 1)};
  bool has_tensors = of[0].tensor || of[1].tensor;
  DType type = random_type(c, has_tensors ? result_type(c, of) : DType::f32), wide = frontend::random_type(type);
  Expr mean = of[0].as(c, wide), scale = of[1].as(c, wide);
  Dims dims = has_tensors ? (mean + scale).dims() : random_dims(c);
  return one(convert(frontend::normal(source(c), type, dims) * scale + mean, type));
}

/// Returns 1 with probability `p` (a number or a tensor; by default `self`), else 0.
Values bernoulli(Call& c) {
  DType type = random_type(c), wide = frontend::random_type(type);
  Expr share = c.operand(c.has("p") ? "p" : "self").as(c, wide);
  return one(convert(frontend::uniform(source(c), wide, random_dims(c)) < share, type));
}

Values multinomial(Call& c) {
  Expr x = c.tensor("self"), weights = frontend::with_rank(convert(x, frontend::random_type(random_type(c))), 2);
  Dims dims = x.dims();
  dims.back() = c.size("num_samples");
  Expr shares = weights / reduce(ReduceFn::sum, weights, {1});
  return one(
      reshape((c.flag("replacement") ? frontend::drawn : frontend::drawn_once)(source(c), shares, dims.back()), dims));
}

/// Imports dropout: the result, and a mask of the kept elements. Outside of training, or with p = 0, keeps all.
Values dropout(Call& c, bool by_feature, bool as_selu, bool trains) {
  Expr x = c.tensor(c.has("self") ? "self" : "input");  // "self" in the in-place form
  double share = c.number("p", 0.5);
  if (!c.flag("train", trains) || share == 0) return {x.value, frontend::full(c, DType::boolean, x.dims(), 1)};
  Dims dims = x.dims();
  if (by_feature && dims.size() < 2) c.fail("E140", cat("needs features, has ", x.value.type()));
  for (size_t a = by_feature ? 2 : dims.size(); a < dims.size(); ++a) dims[a] = 1;
  auto [y, kept] = frontend::dropped(source(c), x, share, dims, as_selu);
  return {y, kept};
}

template <bool by_feature, bool as_selu>
Values dropout(Call& c) {
  return one(dropout(c, by_feature, as_selu, false)[0]);
}

constexpr Operator random_rows[] = {
    {"aten.rand.default", uniform},
    {"aten.rand_like.default", uniform},
    {"aten.uniform.default", uniform},
    {"aten.exponential.default", exponential_numbers},
    {"aten.randn.default", normal},
    {"aten.randn_like.default", normal},
    {"aten.normal.default", normal},
    {"aten.normal_functional.default", normal},
    {"aten.normal.float_float", normal},
    {"aten.normal.Tensor_float", normal},
    {"aten.normal.float_Tensor", normal},
    {"aten.normal.Tensor_Tensor", normal},
    {"aten.randint.default", integers},
    {"aten.randint.low", integers},
    {"aten.randint_like.default", integers},
    {"aten.randint_like.low_dtype", integers},
    {"aten.bernoulli.default", bernoulli},
    {"aten.bernoulli.p", bernoulli},
    {"aten.bernoulli.float", bernoulli},
    {"aten.bernoulli.Tensor", bernoulli},
    {"aten.multinomial.default", multinomial},
    {"aten.dropout.default", dropout<false, false>},
    {"aten.native_dropout.default", [](Call& c) { return dropout(c, false, false, true); }},
    {"aten.feature_dropout.default", dropout<true, false>},
    {"aten.alpha_dropout.default", dropout<false, true>},
    {"aten.feature_alpha_dropout.default", dropout<true, true>},
};

}  // namespace

bool drops_values(const Call& c) {
  return c.node().target.find("dropout") != std::string::npos && c.flag("train") && c.number("p", 0.5) != 0;
}

std::span<const Operator> random_operators() { return random_rows; }

}  // namespace weft::torch
