// SPDX-License-Identifier: Apache-2.0
// Imports losses and distances.
#include <cmath>

#include "frontends/common/indexing.h"
#include "frontends/torch/distance.h"
#include "frontends/torch/promote.h"
#include "ops/reduce.h"

namespace weft::torch {
namespace {

using frontend::gather, frontend::gather_elements;

Expr total(Expr x) { return reduce(ReduceFn::sum, x, frontend::axes_from(0, x.rank()), false); }

/// Reduces losses by argument `reduction`: 0 keeps them, 1 returns their mean, 2 their sum.
Values reduced_loss(Call& c, Expr loss, int64_t fallback = 1) {
  int64_t how = c.integer("reduction", fallback);
  if (how < 0 || how > 2) c.fail("E145", cat("reduction must be 0-2, is ", how));
  if (how == 0) return one(loss);
  return one(how == 2 ? total(loss) : reduce(ReduceFn::mean, loss, frontend::axes_from(0, loss.rank()), false));
}

/// Computes the loss `f` of prediction and target in their common type, then reduces it.
template <class F>
Values of_pair(Call& c, const F& f) {
  auto [x, y] = in_common_type(c, "self", "target");
  return reduced_loss(c, f(x, y));
}

Values smooth_l1(Call& c) {
  double beta = c.number("beta", 1);
  return of_pair(c, [&](Expr x, Expr y) {
    Expr d = abs(x - y);
    return beta == 0 ? d : select(d < beta, d * d * (0.5 / beta), d - 0.5 * beta);
  });
}

Values huber(Call& c) {
  double delta = c.number("delta", 1);
  return of_pair(c, [&](Expr x, Expr y) {
    Expr d = abs(x - y);
    return select(d <= delta, d * d * 0.5, (d - 0.5 * delta) * delta);
  });
}

Expr weighted(Call& c, Expr loss) {
  auto weight = c.optional("weight");
  return weight ? loss * *weight : loss;
}

Values binary_cross_entropy(Call& c) {
  Expr x = c.tensor("self"), y = c.tensor("target");
  auto bounded = [](Expr logarithm) { return max(logarithm, -100); };
  return reduced_loss(c, weighted(c, -(y * bounded(log(x)) + (1.0 - y) * bounded(log1p(-x)))));
}

Values binary_cross_entropy_with_logits(Call& c) {
  auto [x, y] = in_common_type(c, "self", "target");
  Expr logarithm = log1p(exp(-abs(x))) + max(-x, 0);
  if (auto positive = c.optional("pos_weight")) logarithm = ((*positive - 1) * y + 1) * logarithm;
  return reduced_loss(c, weighted(c, (1.0 - y) * x + logarithm));
}

Values kl_divergence(Call& c) {
  bool is_log = c.flag("log_target");
  return of_pair(c, [&](Expr x, Expr y) {
    if (is_log) return exp(y) * (y - x);
    return select(equal(y, 0), 0, y * log(y)) - y * x;
  });
}

Values poisson(Call& c) {
  auto [x, y] = in_common_type(c, "input", "target");
  double epsilon = c.number("eps", 1e-8);
  Expr loss = c.flag("log_input", true) ? exp(x) - y * x : x - y * log(x + epsilon);
  if (c.flag("full")) {
    Expr stirling = y * log(y) - y + log(y * (2 * M_PI)) * 0.5;
    loss = loss + select(y <= 1, 0, stirling);
  }
  return reduced_loss(c, loss);
}

Values margin_ranking(Call& c) {
  Expr apart = c.tensor("input1") - c.tensor("input2");
  Expr against = -c.tensor("target") * apart;
  return reduced_loss(c, max(convert(against, float_of(against.dtype())) + c.number("margin", 0), 0));
}

Values hinge_embedding(Call& c) {
  double margin = c.number("margin", 1);
  return of_pair(
      c, [&](Expr x, Expr y) { return select(equal(y, 1), 0, max(margin - x, 0)) + select(equal(y, -1), 0, x); });
}

Values cosine_embedding(Call& c) {
  constexpr double epsilon = 1e-12;
  Expr a = c.tensor("input1"), b = c.tensor("input2"), y = c.tensor("target");
  double margin = c.number("margin", 0);
  auto sum = [](Expr x) { return reduce(ReduceFn::sum, x, {x.rank() - 1}, false); };
  Expr similarity = sum(a * b) / sqrt((sum(a * a) + epsilon) * (sum(b * b) + epsilon));
  Expr apart = select(equal(y, -1), max(similarity - margin, 0), 0 * similarity);
  return reduced_loss(c, select(equal(y, 1), 1.0 - similarity, apart));
}

Values multi_margin(Call& c) {
  Expr x = c.tensor("self"), target = c.tensor("target");
  double p = c.number("p", 1), margin = c.number("margin", 1);
  bool is_single = x.rank() < 2;
  if (is_single) x = with_rank(x, 2), target = reshape(target, {1});
  Expr column = reshape(target, {target.dims()[0], 1}), own = gather_elements(x, column, 1);
  Expr apart = max(margin - own + x, 0);
  if (p == 2) apart = apart * apart;
  if (auto weight = c.optional("weight")) apart = apart * reshape(gather(*weight, target), column.dims());
  Expr is_own = equal(column, reshape(iota(c, x.dims()[1], target.dtype()), {1, x.dims()[1]}));
  Expr loss = reduce(ReduceFn::mean, select(is_own, 0, apart), {1}, false);
  return reduced_loss(c, is_single ? reshape(loss, {}) : loss);
}

/// Losses -weight[target] * x[target] along the axis of classes, and the weights; 0 where the target is ignore_index.
struct Picked {
  Expr loss, weight;
};
Picked picked(Call& c, Expr x, Expr target) {
  int64_t axis = x.rank() == 1 ? 0 : 1;
  Expr counts = !equal(target, static_cast<double>(c.integer("ignore_index", -100)));
  Expr place = select(counts, target, frontend::like(target, 0));
  Dims dims = target.dims();
  dims.insert(dims.begin() + axis, 1);
  if (x.rank() == 1) dims = {1};
  Expr loss = -reshape(gather_elements(x, reshape(place, dims), axis), target.dims());
  Expr weight = broadcast(frontend::like(x, 1), target.dims());
  if (auto given = c.optional("weight")) weight = gather(convert(*given, x.dtype()), place);
  weight = select(counts, weight, 0);
  return {select(counts, loss * weight, 0), weight};
}

/// Returns the loss, reduced by argument `reduction`, and the sum of the weights (0 without a reduction).
Values class_loss(Call& c) {
  Picked p = picked(c, c.tensor("self"), c.tensor("target"));
  Expr weight = total(p.weight);
  int64_t how = c.integer("reduction", 1);
  if (how == 0) return {p.loss, weight * 0};
  return {how == 1 ? total(p.loss) / weight : total(p.loss), weight};
}
Values only_class_loss(Call& c) { return one(class_loss(c)[0]); }

/// Imports cross_entropy. Targets are class indices, or the probability of each class.
Values cross_entropy(Call& c) {
  Expr x = c.tensor("self"), target = c.tensor("target");
  int64_t axis = x.rank() == 1 ? 0 : 1, how = c.integer("reduction", 1);
  double smoothing = c.number("label_smoothing", 0);
  Dim classes = x.dims()[axis];
  Expr logs = c.make(Softmax{.axis = axis, .logarithm = true}, {x}), of_all = logs;
  auto weight = c.optional("weight");
  if (weight) of_all = logs * along(*weight, axis, x.rank());
  auto over_classes = [&](Expr v) { return -reduce(ReduceFn::sum, v, {axis}, false); };
  if (is_float(target.dtype())) {
    c.ignore({"ignore_index"});
    if (smoothing > 0) target = target * (1 - smoothing) + smoothing / convert(frontend::scalar(c, classes), x.dtype());
    Expr loss = over_classes(of_all * target);
    if (how != 1) return reduced_loss(c, loss);
    Dim count = loss.value.shape().elements();
    return one(total(loss) / convert(frontend::scalar(c, count), x.dtype()));
  }
  Picked p = picked(c, logs, target);
  Expr loss = p.loss;
  if (smoothing > 0) {
    Expr counts = !equal(target, static_cast<double>(c.integer("ignore_index", -100)));
    Expr smooth = select(counts, over_classes(of_all), 0) * smoothing;
    loss = loss * (1 - smoothing) + smooth / convert(frontend::scalar(c, classes), x.dtype());
  }
  return one(how == 0 ? loss : how == 2 ? total(loss) : total(loss) / total(p.weight));
}

// ---- Distances ----

/// Computes the distance of each row of a to each row of b: [..., rows of a, rows of b].
Values distances(Call& c) {
  auto [a, b] = in_common_type(c, "x1", "x2");
  c.ignore({"compute_mode"});
  if (a.rank() < 2 || b.rank() < 2) c.fail("E140", cat("needs matrices, has ", a.value.shape(), ", ", b.value.shape()));
  Dims left = a.dims(), right = b.dims();
  left.insert(left.end() - 1, 1), right.insert(right.end() - 2, 1);
  Expr apart = reshape(a, left) - reshape(b, right);
  return one(norm_of(apart, c.number("p", 2), {apart.rank() - 1}, false));
}

/// Computes the distance of each pair of rows i < j.
Values distances_of_pairs(Call& c) {
  Expr x = c.tensor("self");
  auto rows = x.dims().at(0).constant();
  constexpr int64_t most = 4096;
  if (!rows || *rows > most) c.unsupported(cat("of ", x.dims()[0], " rows is not supported: at most ", most));
  auto [first, second] = pairs(c, *rows, 1);
  Expr apart = gather(x, first) - gather(x, second);
  return one(norm_of(apart, c.number("p", 2), {1}, false));
}

Values distance(Call& c) {
  auto [x, y] = in_common_type(c, "self", "other");
  Expr apart = x - y;
  return one(norm_of(apart, c.number("p", 2), frontend::axes_from(0, apart.rank()), false));
}

Expr distance_of_rows(Expr x, Expr y, double p, double epsilon, bool keep = false) {
  Expr apart = x - y + epsilon;
  return norm_of(apart, p, {apart.rank() - 1}, keep);
}

Values pairwise_distance(Call& c) {
  auto [x, y] = in_common_type(c, "x1", "x2");
  return one(distance_of_rows(x, y, c.number("p", 2), c.number("eps", 1e-6), c.flag("keepdim")));
}

Values triplet_margin(Call& c) {
  Expr anchor = c.tensor("anchor"), positive = c.tensor("positive"), negative = c.tensor("negative");
  double p = c.number("p", 2), epsilon = c.number("eps", 1e-6), margin = c.number("margin", 1);
  Expr far = distance_of_rows(anchor, negative, p, epsilon), near = distance_of_rows(anchor, positive, p, epsilon);
  if (c.flag("swap")) far = min(far, distance_of_rows(positive, negative, p, epsilon));
  return reduced_loss(c, max(near - far + margin, 0));
}

Values cosine_similarity(Call& c) {
  auto [x, y] = in_common_type(c, "x1", "x2");
  Dims dims = (x * y).dims();
  x = broadcast(x, dims), y = broadcast(y, dims);
  int64_t axis = c.axis_of("dim", x.rank(), 1);
  double epsilon = c.number("eps", 1e-8);
  auto unit = [&](Expr v) { return v / max(norm_of(v, 2, {axis}, true), epsilon); };
  return one(reduce(ReduceFn::sum, unit(x) * unit(y), {axis}, false));
}

constexpr Operator loss_rows[] = {
    {"aten.mse_loss.default", [](Call& c) { return of_pair(c, [](Expr x, Expr y) { return (x - y) * (x - y); }); }},
    {"aten.l1_loss.default", [](Call& c) { return of_pair(c, [](Expr x, Expr y) { return abs(x - y); }); }},
    {"aten.smooth_l1_loss.default", smooth_l1},
    {"aten.huber_loss.default", huber},
    {"aten.soft_margin_loss.default",
     [](Call& c) { return of_pair(c, [](Expr x, Expr y) { return log1p(exp(-y * x)); }); }},
    {"aten.binary_cross_entropy.default", binary_cross_entropy},
    {"aten.binary_cross_entropy_with_logits.default", binary_cross_entropy_with_logits},
    {"aten.kl_div.default", kl_divergence},
    {"aten.poisson_nll_loss.default", poisson},
    {"aten.margin_ranking_loss.default", margin_ranking},
    {"aten.hinge_embedding_loss.default", hinge_embedding},
    {"aten.cosine_embedding_loss.default", cosine_embedding},
    {"aten.multi_margin_loss.default", multi_margin},
    {"aten.triplet_margin_loss.default", triplet_margin},
    {"aten.nll_loss.default", only_class_loss},
    {"aten.nll_loss_nd.default", only_class_loss},
    {"aten.nll_loss2d.default", only_class_loss},
    {"aten.nll_loss_forward.default", class_loss},
    {"aten.nll_loss2d_forward.default", class_loss},
    {"aten.cross_entropy_loss.default", cross_entropy},
    {"aten.cdist.default", distances},
    {"aten._cdist_forward.default", distances},
    {"aten.pdist.default", distances_of_pairs},
    {"aten._pdist_forward.default", distances_of_pairs},
    {"aten.dist.default", distance},
    {"aten.pairwise_distance.default", pairwise_distance},
    {"aten.cosine_similarity.default", cosine_similarity},
};

}  // namespace

std::span<const Operator> loss_operators() { return loss_rows; }

}  // namespace weft::torch
