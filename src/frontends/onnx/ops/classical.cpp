// SPDX-License-Identifier: Apache-2.0
// Imports ai.onnx.ml's operators for classical machine learning on numbers.
#include <algorithm>
#include <cmath>

#include "frontends/common/control.h"
#include "frontends/common/indexing.h"
#include "frontends/common/selection.h"
#include "frontends/onnx/import/expr.h"
#include "frontends/onnx/import/importer.h"
#include "frontends/onnx/ops/scores.h"
#include "ops/host.h"
#include "ops/reduce.h"

namespace weft::onnx {
namespace {

/// Returns a constant of `type` from an attribute's numbers.
Expr list_of(Call& c, DType type, std::vector<int64_t> dims, const std::vector<double>& numbers) {
  int64_t want = 1;
  for (int64_t d : dims) want *= d;
  if (std::ssize(numbers) != want) c.fail("E151", cat("has ", numbers.size(), " numbers where ", want, " are needed"));
  return {&c, constant(c.module(), make_tensor(type, std::move(dims), std::span<const double>(numbers)))};
}

/// Returns input 0 as f32[rows, features].
Expr table_input(Call& c) {
  Expr x = convert(arg(c, 0), DType::f32);
  if (x.rank() == 1) return reshape(x, {1, x.dims()[0]});
  if (x.rank() != 2) c.fail("E140", cat("needs x[rows, features], has ", x.value.shape()));
  return x;
}

Values array_feature_extractor(Call& c) {
  Expr x = arg(c, 0), index = along(arg(c, 1), 0, 1);
  if (x.rank() == 0) c.fail("E140", "needs rank 1 or more, has a scalar");
  Expr y = gather(x, index, x.rank() - 1);
  return {x.rank() == 1 ? with_rank(y, 2) : y};
}

Values binarizer(Call& c) {
  Expr x = arg(c, 0);
  return {convert(x > c.number("threshold", 0), x.dtype())};
}

/// Returns `numbers` as a constant vector: one number for each feature (last axis of x), or one for all features.
Expr per_feature(Call& c, Expr x, const auto& numbers, std::string_view name) {
  auto count = std::ssize(numbers);
  if (count != 1 && !known_equal(x.dims().back(), count))
    c.fail("E151", cat("has ", count, " numbers in ", name, " for ", x.value.shape()));
  return {&c, constant(c.module(), make_tensor(x.dtype(), {count}, std::span(numbers)))};
}

Values scaler(Call& c) {
  Expr x = convert(arg(c, 0), DType::f32);
  auto offset = c.floats("offset"), scale = c.floats("scale");
  if (!offset.empty()) x = x - per_feature(c, x, offset, "offset");
  return {scale.empty() ? x : x * per_feature(c, x, scale, "scale")};
}

/// Imports Imputer: replaces one value, which may be NaN, by a number for each feature or by one number for all.
Values imputer(Call& c) {
  Expr x = arg(c, 0);
  auto imputed = [&](const auto& numbers, Expr missing) {
    if (numbers.empty()) c.fail("E142", cat("needs imputed values for ", x.dtype()));
    return Values{select(missing, per_feature(c, x, numbers, "imputed values"), x)};
  };
  auto floats = c.floats("imputed_value_floats");
  auto integers = c.integers("imputed_value_int64s");
  int64_t replaced_integer = c.integer("replaced_value_int64", 0);
  double replaced = c.number("replaced_value_float", 0);
  if (!is_integer(x.dtype())) return imputed(floats, std::isnan(replaced) ? is_nan(x) : equal(x, replaced));
  return imputed(integers, equal(x, {&c, constant(c.module(), integer_scalar(x.dtype(), replaced_integer))}));
}

Values normalizer(Call& c) {
  Expr x = convert(arg(c, 0), DType::f32);
  std::string norm = c.text("norm", "MAX");
  int64_t axis = x.rank() - 1;
  auto over = [&](ReduceFn fn, Expr v) { return reduce(fn, v, {axis}); };
  Expr size = x;
  if (norm == "MAX") {
    size = over(ReduceFn::max, x);
  } else if (norm == "L1") {
    size = over(ReduceFn::sum, abs(x));
  } else if (norm == "L2") {
    size = sqrt(over(ReduceFn::sum, x * x));
  } else {
    c.fail("E145", cat("norm '", printable(norm), "' is not MAX, L1 or L2"));
  }
  return {select(equal(size, 0), x, x / size)};
}

/// Imports OneHotEncoder: a column for each category. Unknown categories give zeros, or E301 if `zeros` is 0.
Values one_hot_encoder(Call& c) {
  auto strings = c.strings("cats_strings");
  auto numbers = c.integers("cats_int64s");
  Expr x = arg(c, 0);
  bool is_text = x.dtype() == DType::string;
  if (is_text ? strings.empty() : numbers.empty()) c.fail("E142", cat("needs categories for ", x.dtype()));
  Tensor categories = is_text ? make_string_tensor({std::ssize(strings)}, strings) : make_i64_tensor(numbers);
  if (!is_text) x = convert(x, DType::i64);
  Expr found = equal(with_last_axis(x), {&c, constant(c.module(), categories)});
  if (c.flag("zeros", true)) return {convert(found, DType::f32)};
  int64_t count = categories.elements();
  Expr number = convert(found, DType::i64) * iota(c, count);
  Expr is_known = reduce(ReduceFn::max, convert(found, DType::i64), {x.rank()}, false) > 0;
  Expr column = select(is_known, reduce(ReduceFn::sum, number, {x.rank()}, false), static_cast<double>(count));
  Expr rows = convert(equal(along(iota(c, count), 0, 2), along(iota(c, count), 1, 2)), DType::f32);
  return {c.emit(Gather{.axis = 0}, {rows, column})};
}

/// Concatenates the inputs' features as f32. E151 unless inputdimensions has each input's number of features.
Values feature_vectorizer(Call& c) {
  auto sizes = c.integers("inputdimensions");
  if (sizes.size() != c.input_count())
    c.fail("E140", cat("has ", sizes.size(), " inputdimensions for ", c.input_count(), " inputs"));
  Values parts;
  for (size_t i = 0; i < sizes.size(); ++i) {
    Expr x = convert(arg(c, i), DType::f32);
    if (x.rank() == 1) x = reshape(x, {x.dims()[0], 1});
    if (x.rank() != 2 || !known_equal(x.dims()[1], sizes[i]))
      c.fail("E151", cat("has inputdimensions ", sizes[i], " for ", x.value.shape()));
    parts.push_back(x);
  }
  return {concat(c, parts, 1)};
}

/// Returns the keys or values of a LabelEncoder, from the attribute that holds them.
Tensor labels(Call& c, std::string_view which) {
  for (auto kind : {"strings", "int64s", "floats", "tensor"}) {
    std::string name = cat(which, "_", kind);
    if (!c.has(name)) continue;
    if (std::string_view(kind) == "int64s") return make_i64_tensor(c.integers(name));
    if (std::string_view(kind) == "floats") {
      auto numbers = c.floats(name);
      return make_tensor(DType::f32, {std::ssize(numbers)}, std::span<const double>(numbers));
    }
    if (std::string_view(kind) == "tensor") return c.tensor(name);
    auto strings = c.strings(name);
    return make_string_tensor({std::ssize(strings)}, strings);
  }
  c.fail("E142", cat("needs ", which));
}

/// Returns a LabelEncoder's result for elements that are not keys: a scalar of the values' type.
Tensor label_default(Call& c, DType type) {
  for (auto name : {"default_string", "default_int64", "default_float"}) c.ignore(name);
  if (c.has("default_tensor")) {
    Tensor tensor = c.tensor("default_tensor");
    if (tensor.elements() != 1 || tensor.dtype != type)
      c.fail("E141", cat("has values of ", type, " and a default ", tensor.shape()));
    tensor.dims.clear();
    return tensor;
  }
  if (type == DType::string) return make_string_tensor({}, {c.text("default_string", "_Unused")});
  if (is_float(type)) return scalar_tensor(type, c.number("default_float", 0));
  return integer_scalar(type, c.integer("default_int64", -1));
}

Values label_encoder(Call& c) {
  Tensor keys = labels(c, "keys"), values = labels(c, "values");
  if (keys.elements() != values.elements() || keys.elements() == 0)
    c.fail("E140", cat("has ", keys.elements(), " keys and ", values.elements(), " values"));
  Expr x = arg(c, 0);
  if ((x.dtype() == DType::string) != (keys.dtype == DType::string))
    c.fail("E141", cat("has keys of ", keys.dtype, " for ", x.value.type()));
  return {looked_up(x, keys, values, {&c, constant(c.module(), label_default(c, values.dtype))})};
}

/// Replaces each number by its string, or each string by its number.
Values category_mapper(Call& c) {
  auto strings = c.strings("cats_strings");
  Tensor names = make_string_tensor({std::ssize(strings)}, strings),
         numbers = make_i64_tensor(c.integers("cats_int64s"));
  if (names.elements() != numbers.elements() || strings.empty())
    c.fail("E140", cat("has ", names.elements(), " strings and ", numbers.elements(), " numbers"));
  Expr x = arg(c, 0);
  bool from_text = x.dtype() == DType::string;
  Tensor other = from_text ? integer_scalar(DType::i64, c.integer("default_int64", -1))
                           : make_string_tensor({}, {c.text("default_string", "_Unused")});
  c.ignore("default_int64"), c.ignore("default_string");
  Expr unknown{&c, constant(c.module(), other)};
  return {from_text ? looked_up(x, names, numbers, unknown) : looked_up(x, numbers, names, unknown)};
}

/// Multiplies x by the transposed coefficients [targets, features] and adds intercepts.
Expr linear_scores(Call& c, int64_t targets) {
  Expr x = table_input(c);
  auto coefficients = c.floats("coefficients"), intercepts = c.floats("intercepts");
  if (targets < 1 || coefficients.size() % targets)
    c.fail("E151", cat("cannot share ", coefficients.size(), " coefficients among ", targets, " targets"));
  int64_t features = std::ssize(coefficients) / targets;
  Expr y = matmul(x, transpose(list_of(c, DType::f32, {targets, features}, coefficients), {1, 0}));
  return intercepts.empty() ? y : y + list_of(c, DType::f32, {targets}, intercepts);
}

Values linear_regressor(Call& c) {
  Expr y = linear_scores(c, c.integer("targets", 1));
  return {transformed(c, y, post_transform(c))};
}

Values linear_classifier(Call& c) {
  ClassLabels labels = class_labels(c, "classlabels_ints");
  c.ignore("multi_class");
  auto intercepts = c.floats("intercepts");
  int64_t targets = intercepts.empty() ? labels.count() : std::ssize(intercepts);
  Expr scores = linear_scores(c, targets);
  if (targets == 1 && labels.count() == 2) return classified_by_one(c, labels, scores, true, 0);
  if (targets != labels.count()) c.fail("E151", cat("has ", targets, " intercepts for ", labels.count(), " labels"));
  return classified(c, labels, scores);
}

/// Returns a support vector machine's kernel of x[rows, features] and supports[supports, features]: [rows, supports].
Expr kernel_of(Call& c, Expr x, Expr supports) {
  std::string kind = c.text("kernel_type", "LINEAR");
  auto p = c.floats("kernel_params");
  p.resize(3);
  double gamma = p[0], offset = p[1], degree = p[2];
  if (kind == "RBF") {
    const Dims d = x.dims();
    Expr apart = reshape(x, {d[0], 1, d[1]}) - supports;
    return exp(reduce(ReduceFn::sum, apart * apart, {2}, false) * -gamma);
  }
  Expr product = matmul(x, transpose(supports, {1, 0}));
  if (kind == "LINEAR") return product;
  if (kind == "POLY") return pow(product * gamma + offset, degree);
  if (kind == "SIGMOID") return tanh(product * gamma + offset);
  c.fail("E145", cat("kernel_type '", printable(kind), "' is not LINEAR, POLY, RBF or SIGMOID"));
}

Values svm_regressor(Call& c) {
  Expr x = table_input(c);
  int64_t supports = c.integer("n_supports", 0);
  auto coefficients = c.floats("coefficients"), vectors = c.floats("support_vectors"), rho = c.floats("rho");
  if (rho.empty()) c.fail("E142", "needs rho");
  Expr y = x;
  if (supports < 0 || supports > std::ssize(vectors))
    c.fail("E151", cat("cannot cut support_vectors of ", vectors.size(), " numbers into ", supports));
  if (supports > 0) {
    int64_t features = std::ssize(vectors) / supports;
    Expr near = kernel_of(c, x, list_of(c, DType::f32, {supports, features}, vectors));
    y = matmul(near, list_of(c, DType::f32, {supports, 1}, coefficients));
  } else {
    y = kernel_of(c, x, list_of(c, DType::f32, {1, std::ssize(coefficients)}, coefficients));
  }
  y = y + rho[0];
  if (c.flag("one_class")) return {select(y > 0, number(c, DType::f32, 1), number(c, DType::f32, -1))};
  return {transformed(c, y, post_transform(c))};
}

/// Computes one-vs-one decision values, [rows, pairs], from kernel values near[rows, supports]. Coefficients are
/// libsvm's (Chang and Lin 2011, section 7): pair (i, j) uses row j - 1 for supports of class i, row i for class j.
Expr pair_decisions(Call& c, Expr near, const std::vector<int64_t>& supports_of,
                    const std::vector<double>& coefficients, const std::vector<double>& rho) {
  auto classes = std::ssize(supports_of);
  int64_t supports = 0;
  std::vector<int64_t> first;
  for (int64_t n : supports_of) first.push_back(supports), supports += n;
  int64_t pairs = classes * (classes - 1) / 2;
  if (std::ssize(rho) != pairs || std::ssize(coefficients) != (classes - 1) * supports)
    c.fail("E151", cat("has ", rho.size(), " rho and ", coefficients.size(), " coefficients for ", classes,
                       " classes with ", supports, " supports"));
  std::vector<double> weights(supports * pairs, 0);
  auto take = [&](int64_t pair, int64_t owner, int64_t row) {
    for (int64_t s = first[owner], n = supports_of[owner]; n > 0; ++s, --n)
      weights[s * pairs + pair] = coefficients[row * supports + s];
  };
  for (int64_t i = 0, pair = 0; i < classes; ++i) {
    for (int64_t j = i + 1; j < classes; ++j, ++pair) take(pair, i, j - 1), take(pair, j, i);
  }
  return matmul(near, list_of(c, DType::f32, {supports, pairs}, weights)) + list_of(c, DType::f32, {pairs}, rho);
}

/// Counts the pairs won by each class: [rows, classes].
Expr votes(Call& c, Expr decisions, int64_t classes) {
  int64_t pairs = classes * (classes - 1) / 2;
  std::vector<double> won(pairs * classes, 0), lost = won;
  for (int64_t i = 0, pair = 0; i < classes; ++i) {
    for (int64_t j = i + 1; j < classes; ++j, ++pair) {
      won[pair * classes + i] = 1, lost[pair * classes + j] = 1;
    }
  }
  Expr first = convert(decisions > 0, DType::f32);
  return matmul(first, list_of(c, DType::f32, {pairs, classes}, won)) +
         matmul(1.0 - first, list_of(c, DType::f32, {pairs, classes}, lost));
}

// --- class probabilities from pair probabilities (Wu, Lin and Weng 2004, second method, with libsvm's iteration) -----

/// Computes the probability r[rows, i, j] of class i against j from decisions[rows, pairs]; 0 for i = j (Platt 2000).
Expr pair_probabilities(Call& c, Expr decisions, int64_t classes) {
  auto a = c.floats("prob_a"), b = c.floats("prob_b");
  int64_t pairs = classes * (classes - 1) / 2;
  Expr p = sigmoid(-(decisions * list_of(c, DType::f32, {pairs}, a) + list_of(c, DType::f32, {pairs}, b)));
  p = min(max(p, 1e-7), 1 - 1e-7);
  Expr all = concat(c, {p, 1.0 - p, full(c, DType::f32, {p.dims()[0], 1}, 0)}, 1);
  std::vector<int64_t> from(classes * classes, 2 * pairs);
  for (int64_t i = 0, pair = 0; i < classes; ++i) {
    for (int64_t j = i + 1; j < classes; ++j, ++pair) {
      from[i * classes + j] = pair;
      from[j * classes + i] = pairs + pair;
    }
  }
  Expr r{&c, c.emit(Gather{.axis = 1}, {all, constant(c.module(), make_i64_tensor(from))})};
  return reshape(r, {p.dims()[0], classes, classes});
}

/// Runs one sweep of coordinate descent over p[rows, classes]; converged rows stay unchanged. Returns true if a row had
/// not converged, and the new p.
Values improve_shares(const Builder& c, Expr p, Expr q, int64_t classes) {
  auto of = [](Expr x, int64_t axis, int64_t t) { return slice(x, axis, t, 1); };
  Dim rows = p.dims()[0];
  Expr before = p;
  Expr qp = reduce(ReduceFn::sum, q * reshape(p, {rows, 1, classes}), {2}, false);
  Expr pqp = reduce(ReduceFn::sum, p * qp, {1});
  Expr is_open = reduce(ReduceFn::max, abs(qp - pqp), {1}) >= 0.005 / static_cast<double>(classes);
  for (int64_t t = 0; t < classes; ++t) {
    Expr row = reshape(of(q, 1, t), {rows, classes}), own = of(row, 1, t), at = of(qp, 1, t);
    Expr step = (pqp - at) / own, scale = step + 1.0;
    Expr here = equal(iota(c, classes), static_cast<double>(t));
    pqp = (pqp + step * (step * own + at * 2.0)) / scale / scale;
    qp = (qp + step * row) / scale;
    p = (p + select(broadcast(here, p.dims()), broadcast(step, p.dims()), 0)) / scale;
  }
  Expr open_rows = reduce(ReduceFn::sum, convert(reshape(is_open, {rows}), DType::i32), {0}, false);
  return {open_rows > 0, select(broadcast(is_open, p.dims()), p, before)};
}

/// Computes class probabilities from r[rows, classes, classes] by pairwise coupling, as in libsvm.
Expr class_probabilities(Call& c, Expr r, int64_t classes) {
  Expr same = equal(along(iota(c, classes), 0, 2), along(iota(c, classes), 1, 2));
  Expr diagonal = reduce(ReduceFn::sum, r * r, {1});
  Expr q = select(broadcast(same, r.dims()), broadcast(diagonal, r.dims()), -(r * transpose(r, {0, 2, 1})));
  Expr start = full(c, DType::f32, {r.dims()[0], classes}, 1.0 / static_cast<double>(classes));
  int64_t most = std::max<int64_t>(100, classes);
  auto body = [&](const Builder& b, const Dim&, const Values& now) {
    return improve_shares(b, {&b, now[0]}, inside(b, q), classes);
  };
  return {&c, loop_while(c, most, {start}, 0, body)[0]};
}

Values svm_classifier(Call& c) {
  bool gives_shares = !c.floats("prob_a").empty();
  if (c.floats("prob_a").size() != c.floats("prob_b").size())
    c.fail("E151", cat("has ", c.floats("prob_a").size(), " prob_a and ", c.floats("prob_b").size(), " prob_b"));
  ClassLabels labels = class_labels(c, "classlabels_ints");
  auto supports_of = c.integers("vectors_per_class");
  auto coefficients = c.floats("coefficients"), vectors = c.floats("support_vectors"), rho = c.floats("rho");
  if (std::ssize(supports_of) != labels.count() || labels.count() < 2)
    c.unsupported(cat("with supports for ", supports_of.size(), " of ", labels.count(), " classes is not supported"));
  constexpr int64_t max_classes = 256;  // tables of pairs grow with the cube of the number of classes
  if (labels.count() > max_classes)
    c.unsupported(cat("of ", labels.count(), " classes is not supported, ", max_classes, " are the most"));
  int64_t supports = 0;
  for (int64_t n : supports_of) {
    if (n < 0 || n > std::ssize(vectors)) c.fail("E145", cat("has ", n, " in vectors_per_class"));
    supports += n;
  }
  if (supports < 1 || std::ssize(vectors) % supports)
    c.fail("E151", cat("cannot cut support_vectors of ", vectors.size(), " numbers into ", supports));
  Expr x = table_input(c);
  Expr near = kernel_of(c, x, list_of(c, DType::f32, {supports, std::ssize(vectors) / supports}, vectors));
  Expr decisions = pair_decisions(c, near, supports_of, coefficients, rho);
  Expr label{&c, classified(c, labels, votes(c, decisions, labels.count()))[0]};
  if (gives_shares) {
    Expr r = pair_probabilities(c, decisions, labels.count());
    return {label, transformed(c, class_probabilities(c, r, labels.count()), post_transform(c))};
  }
  if (labels.count() == 2) decisions = concat(c, {-decisions, decisions}, 1);
  return {label, transformed(c, decisions, post_transform(c))};
}

// --- maps ------------------------------------------------------------------------------------------------------------

Value map_input(Call& c) {
  Value map = c.input(0);
  if (map.type().kind != Type::Kind::map) c.fail("E141", cat("needs a map, has ", map.type()));
  return map;
}

/// Returns a map from labels to scores for each row.
Values zip_map(Call& c) {
  Expr scores = convert(arg(c, 0), DType::f32);
  auto strings = c.strings("classlabels_strings");
  auto numbers = c.integers("classlabels_int64s");
  if (strings.empty() && numbers.empty()) c.fail("E142", "needs classlabels_int64s or classlabels_strings");
  Type map = Type::map(strings.empty() ? DType::i64 : DType::string, Shape{DType::f32, {}});
  return {host(c.module(),
               {.fn = HostFn::zip_map, .numbers = numbers, .strings = strings, .types = {Type::sequence(map)}},
               {scores})};
}

/// Returns the values of a map with integer keys, as one row.
Values cast_map(Call& c) {
  Value map = map_input(c);
  std::string to = c.text("cast_to", "TO_FLOAT"), form = c.text("map_form", "DENSE");
  if (map.type().key != DType::i64) c.fail("E141", cat("needs keys of i64, has ", map.type()));
  if (form != "DENSE" && form != "SPARSE")
    c.fail("E145", cat("map_form '", printable(form), "' is not DENSE or SPARSE"));
  int64_t length = form == "SPARSE" ? c.integer("max_map", 1) : 0;
  constexpr int64_t max_keys = 1 << 22;
  if (length > max_keys) c.fail("E401", cat("has max_map ", length, ", ", max_keys, " is the most"));
  c.ignore("max_map");
  DType type = to == "TO_FLOAT" ? DType::f32 : to == "TO_INT64" ? DType::i64 : DType::string;
  if (type == DType::string && to != "TO_STRING")
    c.fail("E145", cat("cast_to '", printable(to), "' is not TO_FLOAT, TO_INT64 or TO_STRING"));
  Type row = Shape{type, {1, placeholder(any_size)}};
  return {item_of(
      c.module(),
      host(c.module(),
           {.fn = HostFn::map_values, .numbers = {static_cast<int64_t>(type), length}, .types = {Type::optional(row)}},
           {map}),
      0)};
}

/// Returns the values of a map in the order of a vocabulary; 0 or "" for keys that the map lacks.
Values dict_vectorizer(Call& c) {
  Value map = map_input(c);
  auto strings = c.strings("string_vocabulary");
  auto numbers = c.integers("int64_vocabulary");
  if ((map.type().key == DType::string ? strings.empty() : numbers.empty()))
    c.fail("E142", cat("needs a vocabulary for ", map.type()));
  int64_t columns = strings.empty() ? std::ssize(numbers) : std::ssize(strings);
  Type row = Shape{map.type().element->shape.dtype, {1, columns}};
  return {host(c.module(), {.fn = HostFn::map_vector, .numbers = numbers, .strings = strings, .types = {row}}, {map})};
}

constexpr Operator classical_table[] = {
#include "frontends/onnx/ops/classical.def"
};

}  // namespace

std::span<const Operator> classical_operators() { return classical_table; }

}  // namespace weft::onnx
