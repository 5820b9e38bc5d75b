// SPDX-License-Identifier: Apache-2.0
// Random operators (frontends/common/random.h). The key of the generator is the operator's seed, or the run's seed.
#include "frontends/common/random.h"

#include <bit>

#include "frontends/onnx/import/expr.h"
#include "frontends/onnx/import/importer.h"

namespace weft::onnx {
namespace {

using frontend::random_type;

frontend::RandomSource source(Call& c) {
  int64_t stream = c.importer().next_stream();
  if (!c.has("seed")) return frontend::random_source(c, stream);
  bool is_whole = c.node().op_type == "Dropout";
  auto seed = is_whole ? static_cast<uint64_t>(c.integer("seed"))
                       : std::bit_cast<uint32_t>(static_cast<float>(c.number("seed")));
  return frontend::random_source(c, stream, seed);
}

Expr uniform(Call& c, DType type, const Dims& dims) { return frontend::uniform(source(c), type, dims); }

DType float_type(Call& c, DType type) {
  if (!is_float(type) || bits(type) < 16) c.fail("E141", cat("gives floating-point numbers, not ", type));
  return type;
}

Expr random_uniform(Call& c, DType type, const Dims& dims) {
  double least = c.number("low", 0), most = c.number("high", 1);
  return convert(uniform(c, float_type(c, type), dims) * (most - least) + least, type);
}

Expr random_normal(Call& c, DType type, const Dims& dims) {
  double mean = c.number("mean", 0), scale = c.number("scale", 1);
  return convert(frontend::normal(source(c), float_type(c, type), dims) * scale + mean, type);
}

Dims shape_attribute(Call& c) {
  Dims dims;
  for (int64_t size : c.integers("shape")) {
    if (size < 0) c.fail("E150", cat("has size ", size, " in its shape"));
    dims.push_back(size);
  }
  if (!c.has("shape")) c.fail("E142", "needs attribute 'shape'");
  return dims;
}

/// Returns the type in attribute `dtype`; without it, the input's type if that is a float, else f32.
DType type_like(Call& c) {
  DType own = is_float(c.dtype(0)) ? c.dtype(0) : DType::f32;
  return c.element("dtype", own);
}

Values bernoulli(Call& c) {
  Expr p = arg(c, 0);
  DType type = c.element("dtype", p.dtype());
  return {convert(uniform(c, p.dtype(), p.dims()) < convert(p, random_type(p.dtype())), type)};
}

Values multinomial(Call& c) {
  Expr x = arg(c, 0);
  if (x.rank() != 2) c.fail("E140", cat("needs x[batch, classes], has ", x.value.type()));
  DType type = c.element("dtype", DType::i32);
  Expr shares{&c, c.emit(Softmax{.axis = 1}, {convert(x, random_type(x.dtype()))})};
  return {convert(frontend::drawn(source(c), shares, c.integer("sample_size", 1)), type)};
}

Expr dropout_ratio(Call& c, DType type) {
  if (!c.has_input(1)) return number(c, type, c.opset() < 12 ? c.number("ratio", 0.5) : 0.5);
  return convert(reshape(arg(c, 1), {}), type);
}

/// In training, sets some elements to 0 and scales the others up to keep the mean; otherwise returns the input.
Values dropout(Call& c) {
  Expr x = arg(c, 0);
  DType mask_type = c.opset() < 10 ? x.dtype() : DType::boolean;
  auto trains = c.has_input(2) ? known_contents(c.input(2)) : std::optional(Dims{0});
  if (trains && trains->at(0).is_constant() && trains->at(0).value() == 0) {
    c.ignore("ratio"), c.ignore("seed"), c.ignore("is_test");
    return {x, full(c, mask_type, x.dims(), 1)};
  }
  DType type = random_type(x.dtype());
  Expr ratio = dropout_ratio(c, type);
  Expr kept = uniform(c, x.dtype(), x.dims()) >= ratio;
  if (!trains) kept = kept | !reshape(arg(c, 2), {});
  Expr scale = reciprocal(1.0 - ratio);
  if (!trains) scale = select(reshape(arg(c, 2), {}), scale, 1);
  Expr y = convert(select(kept, convert(x, type) * scale, 0), x.dtype());
  return {y, convert(kept, mask_type)};
}

constexpr Operator random_table[] = {
    {"", "Bernoulli", bernoulli},
    {"", "Dropout", dropout},
    {"", "Multinomial", multinomial},
    {"", "RandomNormal",
     [](Call& c) -> Values { return {random_normal(c, c.element("dtype", DType::f32), shape_attribute(c))}; }},
    {"", "RandomNormalLike", [](Call& c) -> Values { return {random_normal(c, type_like(c), c.input(0).dims())}; }},
    {"", "RandomUniform",
     [](Call& c) -> Values { return {random_uniform(c, c.element("dtype", DType::f32), shape_attribute(c))}; }},
    {"", "RandomUniformLike", [](Call& c) -> Values { return {random_uniform(c, type_like(c), c.input(0).dims())}; }},
};

}  // namespace

std::span<const Operator> random_operators() { return random_table; }

}  // namespace weft::onnx
