// SPDX-License-Identifier: Apache-2.0
// Imports ai.onnx.ml's tree ensembles. All trees are evaluated for all rows at once, level by level: a level is a few
// gathers from tables of nodes. Up to 64 levels are written out as instructions; deeper trees use a loop.
#include <algorithm>
#include <array>
#include <map>

#include "frontends/common/control.h"
#include "frontends/common/indexing.h"
#include "frontends/onnx/import/expr.h"
#include "frontends/onnx/ops/scores.h"
#include "ops/reduce.h"

namespace weft::onnx {
namespace {

/// The comparison of a node's feature with its value, numbered as in TreeEnsemble's nodes_modes.
enum class Mode : uint8_t { less_equal, less, greater_equal, greater, equal, not_equal, member, leaf };

/// The nodes of all trees, one table for each property. Both branches of a leaf are the leaf itself.
struct Forest {
  std::vector<Mode> mode = {};
  std::vector<int64_t> feature = {}, yes = {}, no = {}, leaf = {};
  std::vector<double> value = {};
  std::vector<bool> missing_is_yes = {};
  std::vector<std::vector<double>> members = {};  ///< the values that each node with Mode::member accepts
  std::vector<int64_t> roots = {};
  ReduceFn how = ReduceFn::sum;      ///< how the trees' results are combined
  std::vector<double> weights = {};  ///< [leaves, targets]; infinite if min and max must skip a leaf without a weight
  int64_t targets = 1, features = 0;

  size_t nodes() const { return mode.size(); }
  int64_t leaves() const { return static_cast<int64_t>(weights.size()) / targets; }
};

/// Returns the number of steps from a root to the deepest leaf. Trees may share branches; a cycle fails with E143.
int64_t depth(Call& c, const Forest& f) {
  constexpr int64_t unseen = -1, open = -2;
  std::vector<int64_t> height(f.nodes(), unseen), stack = f.roots;
  while (!stack.empty()) {
    int64_t node = stack.back();
    int64_t& own = height[node];
    if (f.mode[node] == Mode::leaf) own = 0;
    bool is_first = own == unseen;
    if (own >= 0) stack.pop_back();
    if (own >= 0) continue;
    own = open;
    for (int64_t branch : {f.yes[node], f.no[node]}) {
      if (height[branch] == open) c.fail("E143", "has a tree with a cycle");
      if (is_first && height[branch] == unseen) stack.push_back(branch);
    }
    if (!is_first) own = 1 + std::max(height[f.yes[node]], height[f.no[node]]);
  }
  int64_t most = 0;
  for (int64_t root : f.roots) most = std::max(most, height[root]);
  return most;
}

Expr table(const Builder& c, DType type, const std::vector<int64_t>& numbers) {
  return {&c, constant(c.module(), make_tensor(type, {std::ssize(numbers)}, std::span<const int64_t>(numbers)))};
}
Expr table(const Builder& c, DType type, std::vector<int64_t> dims, const std::vector<double>& numbers) {
  return {&c, constant(c.module(), make_tensor(type, std::move(dims), std::span<const double>(numbers)))};
}

/// Compares the features x[rows, trees] with the values of their trees' current nodes; true means the branch `yes`.
Expr takes_branch(const Builder& c, const Forest& f, Expr x, Expr node, Expr value) {
  auto compared = [&](Mode mode) {
    switch (mode) {
      case Mode::less: return x < value;
      case Mode::greater_equal: return x >= value;
      case Mode::greater: return x > value;
      case Mode::equal: return equal(x, value);
      case Mode::not_equal: return !equal(x, value);
      default: return x <= value;
    }
  };
  std::vector<Mode> used;
  for (Mode mode : f.mode) {
    if (mode != Mode::leaf && std::ranges::find(used, mode) == used.end()) used.push_back(mode);
  }
  std::vector<int64_t> modes;
  for (Mode mode : f.mode) modes.push_back(static_cast<int64_t>(mode));
  Expr yes = compared(used[0]);
  if (used.size() > 1) {
    Expr mode = gather(table(c, DType::i32, modes), node);
    for (size_t i = 1; i < used.size(); ++i)
      yes = select(equal(mode, static_cast<double>(used[i])), compared(used[i]), yes);
  }
  if (std::ranges::find(f.missing_is_yes, true) == f.missing_is_yes.end()) return yes;
  std::vector<int64_t> tracks(f.missing_is_yes.begin(), f.missing_is_yes.end());
  return yes | (is_nan(x) & gather(table(c, DType::boolean, tracks), node));
}

/// The tables of nodes that next_level reads, as constants.
struct Tables {
  Value features, values, yes, no;
};

/// Goes one level down: returns the nodes that follow `node`[rows, trees].
Expr next_level(const Builder& c, const Forest& f, const Tables& t, Expr x, Expr node) {
  Expr feature = gather_elements(x, gather(inside(c, t.features), node), 1);
  Expr branch = takes_branch(c, f, feature, node, gather(inside(c, t.values), node));
  return select(branch, gather(inside(c, t.yes), node), gather(inside(c, t.no), node));
}

/// Returns the leaf of each tree for each row of x[rows, features]: [rows, trees].
Expr leaves(Call& c, const Forest& f, Expr x) {
  constexpr int64_t max_written_out = 64;
  int64_t steps = depth(c, f);
  Dim rows = x.dims()[0];
  Expr node = broadcast(table(c, DType::i32, f.roots), {rows, std::ssize(f.roots)});
  Tables t{.features = table(c, DType::i32, f.feature),
           .values = table(c, x.dtype(), {std::ssize(f.value)}, f.value),
           .yes = table(c, DType::i32, f.yes),
           .no = table(c, DType::i32, f.no)};
  for (int64_t i = 0; i < steps && steps <= max_written_out; ++i) node = next_level(c, f, t, x, node);
  if (steps > max_written_out) {
    auto body = [&](const Builder& b, const Dim&, const Values& now) {
      return Values{next_level(b, f, t, inside(b, x), {&b, now[0]})};
    };
    node = {&c, loop_over(c, steps, {node}, 0, body)[0]};
  }
  return gather(table(c, DType::i32, f.leaf), node);
}

ReduceFn aggregate(Call& c, const std::string& name) {
  if (name == "SUM") return ReduceFn::sum;
  if (name == "AVERAGE") return ReduceFn::mean;
  if (name == "MIN") return ReduceFn::min;
  if (name == "MAX") return ReduceFn::max;
  c.fail("E145", cat("aggregate_function '", printable(name), "' is not SUM, AVERAGE, MIN or MAX"));
}

/// Returns the weight of a leaf for a target that it does not list; it has no effect if other leaves list the target.
double no_weight(const Forest& f) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  return f.how == ReduceFn::min ? infinity : f.how == ReduceFn::max ? -infinity : 0;
}

/// Returns the combined results of the trees: [rows, targets]; 0 where no leaf has a weight.
Expr evaluated(Call& c, const Forest& f, Expr x) {
  if (x.rank() == 1) x = reshape(x, {1, x.dims()[0]});
  if (x.rank() != 2) c.fail("E140", cat("needs x[rows, features], has ", x.value.shape()));
  Dim have = x.dims()[1];
  if (have.is_constant() && have.value() < f.features)
    c.fail("E143", cat("reads feature ", f.features - 1, " of ", have, " in ", x.value.shape()));
  Expr weights = table(c, x.dtype(), {f.leaves(), f.targets}, f.weights);
  Expr y = reduce(f.how, gather(weights, leaves(c, f, x)), {1}, false);
  return no_weight(f) == 0 ? y : select(equal(y, no_weight(f)), 0, y);
}

/// Returns input 0, converted to f32 unless it is f64: onnxruntime compares in these types.
Expr features(Call& c) { return c.dtype() == DType::f64 ? arg(c, 0) : convert(arg(c, 0), DType::f32); }

// ---- TreeEnsembleClassifier and TreeEnsembleRegressor: each property of the nodes is a list in an attribute.

Mode mode_named(Call& c, std::string_view name) {
  constexpr std::array<std::string_view, 8> names = {"BRANCH_LEQ", "BRANCH_LT",  "BRANCH_GTE",    "BRANCH_GT",
                                                     "BRANCH_EQ",  "BRANCH_NEQ", "BRANCH_MEMBER", "LEAF"};
  auto found = std::ranges::find(names, name);
  if (found == names.end() || *found == "BRANCH_MEMBER")
    c.fail("E145", cat("nodes_modes '", printable(name), "' is unknown"));
  return static_cast<Mode>(found - names.begin());
}

/// Returns the numbers of an attribute: a list of floats, or a tensor (for f64); empty if neither is given.
std::vector<double> attribute_numbers(Call& c, std::string_view name) {
  std::string tensor = cat(name, "_as_tensor");
  return c.has(tensor) ? to_doubles(c.tensor(tensor)) : c.floats(name);
}

using NodeIds = std::map<std::pair<int64_t, int64_t>, int64_t>;  ///< (tree id, node id) -> index in the tables

void expect_size(Call& c, std::string_view name, size_t have, size_t want) {
  if (have != want) c.fail("E140", cat("has ", have, " ", name, " for ", want, " nodes"));
}

void check_feature(Call& c, int64_t feature) {
  if (feature < 0 || feature >= INT32_MAX) c.fail("E143", cat("reads feature ", feature, ", not in [0, 2^31 - 1)"));
}

/// Clears all leaf weights. Refuses sizes out of proportion to `listed`, the number of weights in the model.
void make_room(Call& c, Forest& f, int64_t leaves, int64_t targets, size_t listed) {
  constexpr double free = 1 << 20, each = 64;
  if (targets < 1) c.fail("E145", cat("needs at least 1 target, has ", targets));
  double all = static_cast<double>(leaves) * static_cast<double>(targets);
  if (all > free + each * static_cast<double>(listed))
    c.fail("E401", cat("has ", leaves, " leaves for ", targets, " targets, and lists ", listed, " weights only"));
  f.targets = targets;
  f.weights.assign(leaves * targets, no_weight(f));
}

/// Reads the nodes of all trees, without the weights of leaves; fills `ids`.
Forest read_nodes(Call& c, NodeIds& ids) {
  auto trees = c.integers("nodes_treeids"), nodes = c.integers("nodes_nodeids");
  auto yes = c.integers("nodes_truenodeids"), no = c.integers("nodes_falsenodeids");
  auto modes = c.strings("nodes_modes");
  auto missing = c.integers("nodes_missing_value_tracks_true");
  Forest f{.feature = c.integers("nodes_featureids"), .value = attribute_numbers(c, "nodes_values")};
  c.ignore("nodes_hitrates"), c.ignore("nodes_hitrates_as_tensor");
  size_t count = nodes.size();
  if (count == 0) c.fail("E142", "has no nodes");
  expect_size(c, "nodes_treeids", trees.size(), count), expect_size(c, "nodes_modes", modes.size(), count);
  expect_size(c, "nodes_truenodeids", yes.size(), count), expect_size(c, "nodes_falsenodeids", no.size(), count);
  expect_size(c, "nodes_featureids", f.feature.size(), count), expect_size(c, "nodes_values", f.value.size(), count);
  missing.resize(count);
  for (size_t i = 0; i < count; ++i) {
    if (i == 0 || trees[i] != trees[i - 1]) f.roots.push_back(static_cast<int64_t>(i));
    if (!ids.try_emplace({trees[i], nodes[i]}, static_cast<int64_t>(i)).second)
      c.fail("E143", cat("has node ", nodes[i], " of tree ", trees[i], " twice"));
  }
  auto row = [&](int64_t tree, int64_t node) {
    auto found = ids.find({tree, node});
    if (found == ids.end()) c.fail("E143", cat("leads to node ", node, " of tree ", tree, ", which it does not have"));
    return found->second;
  };
  for (size_t i = 0; i < count; ++i) {
    f.mode.push_back(mode_named(c, modes[i]));
    bool is_leaf = f.mode[i] == Mode::leaf;
    f.yes.push_back(is_leaf ? static_cast<int64_t>(i) : row(trees[i], yes[i]));
    f.no.push_back(is_leaf ? static_cast<int64_t>(i) : row(trees[i], no[i]));
    f.missing_is_yes.push_back(missing[i] != 0);
    if (is_leaf) f.feature[i] = 0;
    check_feature(c, f.feature[i]);
    f.features = std::max(f.features, f.feature[i] + 1);
  }
  return f;
}

/// Reads the weights of leaves, which are listed as (tree, node, target, weight).
void read_weights(Call& c, Forest& f, const NodeIds& ids, std::string_view kind, int64_t targets) {
  auto trees = c.integers(cat(kind, "_treeids")), nodes = c.integers(cat(kind, "_nodeids"));
  auto target = c.integers(cat(kind, "_ids"));
  auto weight = attribute_numbers(c, cat(kind, "_weights"));
  expect_size(c, cat(kind, "_nodeids"), nodes.size(), target.size());
  expect_size(c, cat(kind, "_treeids"), trees.size(), target.size());
  expect_size(c, cat(kind, "_weights"), weight.size(), target.size());
  f.leaf.assign(f.nodes(), 0);
  int64_t count = 0;
  for (size_t i = 0; i < f.nodes(); ++i) {
    if (f.mode[i] == Mode::leaf) f.leaf[i] = count++;
  }
  make_room(c, f, count, targets, target.size());
  for (size_t i = 0; i < target.size(); ++i) {
    auto found = ids.find({trees[i], nodes[i]});
    if (found == ids.end() || f.mode[found->second] != Mode::leaf || target[i] < 0 || target[i] >= targets)
      c.fail("E143", cat("gives a weight for target ", target[i], " of ", targets, " to node ", nodes[i], " of tree ",
                         trees[i], ", which is not a leaf"));
    double& w = f.weights[f.leaf[found->second] * targets + target[i]];
    w = no_weight(f) == 0 ? w + weight[i] : f.how == ReduceFn::min ? std::min(w, weight[i]) : std::max(w, weight[i]);
  }
}

Expr with_base(Call& c, Expr scores, const std::vector<double>& base) {
  if (base.empty()) return scores;
  return scores + table(c, scores.dtype(), {std::ssize(base)}, base);
}

Values tree_regressor(Call& c) {
  NodeIds ids;
  Forest f = read_nodes(c, ids);
  f.how = aggregate(c, c.text("aggregate_function", "SUM"));
  read_weights(c, f, ids, "target", c.integer("n_targets"));
  if (f.targets == 1) std::ranges::replace(f.weights, no_weight(f), 0.0);  // as in onnxruntime
  Expr y = evaluated(c, f, features(c));
  y = convert(with_base(c, y, attribute_numbers(c, "base_values")), DType::f32);
  return {transformed(c, y, post_transform(c))};
}

/// Imports TreeEnsembleClassifier. If only one of two classes has weights, its score alone decides: the second class is
/// chosen for a score above 0.5 if all weights are >= 0, else for a score above 0.
Values tree_classifier(Call& c) {
  NodeIds ids;
  Forest f = read_nodes(c, ids);
  ClassLabels labels = class_labels(c, "classlabels_int64s");
  read_weights(c, f, ids, "class", labels.count());
  auto weighed = c.integers("class_ids");
  auto base = attribute_numbers(c, "base_values"), weights = attribute_numbers(c, "class_weights");
  bool one_class = labels.count() == 2 && !weighed.empty() &&
                   std::ranges::adjacent_find(weighed, std::not_equal_to()) == weighed.end();
  Expr scores = evaluated(c, f, features(c));
  if (!one_class) return classified(c, labels, convert(with_base(c, scores, base), DType::f32));
  bool is_share = std::ranges::all_of(weights, [](double w) { return w >= 0; });
  double boundary = is_share ? 0.5 : 0;
  if (weighed[0] == 1) {
    scores = convert(with_base(c, scores, base), DType::f32);
    return {label_above(c, labels, slice(scores, 1, 1, 1), boundary), transformed(c, scores, post_transform(c))};
  }
  Expr score = slice(scores, 1, 0, 1);
  if (!base.empty()) score = score + base.back();
  return classified_by_one(c, labels, convert(score, DType::f32), is_share, boundary);
}

// ---- TreeEnsemble: lists of nodes, leaves and roots, addressed by index.

/// Reads the members of each node with Mode::member. The sets are listed in the order of the nodes, each ended by NaN.
void read_members(Call& c, Forest& f) {
  f.members.resize(f.nodes());
  if (!c.has("membership_values")) return;
  auto all = to_doubles(c.tensor("membership_values"));
  auto next = all.begin();
  for (size_t i = 0; i < f.nodes(); ++i) {
    if (f.mode[i] != Mode::member) continue;
    auto end = std::find_if(next, all.end(), [](double v) { return v != v; });
    f.members[i].assign(next, end);
    next = end == all.end() ? end : end + 1;
  }
}

/// Replaces each node that tests membership by a chain of nodes that each test equality with one member.
void expand_members(Forest& f) {
  for (size_t i = 0, count = f.nodes(); i < count; ++i) {
    if (f.mode[i] != Mode::member) continue;
    auto members = f.members[i].empty() ? std::vector<double>{std::numeric_limits<double>::quiet_NaN()} : f.members[i];
    int64_t yes = f.yes[i], no = f.no[i];
    size_t node = i;
    for (size_t m = 0; m < members.size(); ++m) {
      if (m > 0) {
        f.no[node] = static_cast<int64_t>(f.nodes());
        node = f.nodes();
        f.feature.push_back(f.feature[i]), f.yes.push_back(yes), f.no.push_back(no), f.leaf.push_back(0);
        f.mode.push_back(Mode::equal), f.value.push_back(0), f.missing_is_yes.push_back(f.missing_is_yes[i]);
      }
      f.mode[node] = Mode::equal, f.value[node] = members[m], f.no[node] = no;
    }
  }
}

void push_leaf(Forest& f, int64_t leaf) {
  auto self = static_cast<int64_t>(f.nodes());
  f.mode.push_back(Mode::leaf), f.feature.push_back(0), f.value.push_back(0), f.missing_is_yes.push_back(false);
  f.yes.push_back(self), f.no.push_back(self), f.leaf.push_back(leaf);
}

Values tree_ensemble(Call& c) {
  Forest f{.feature = c.integers("nodes_featureids"),
           .yes = c.integers("nodes_truenodeids"),
           .no = c.integers("nodes_falsenodeids"),
           .value = to_doubles(c.tensor("nodes_splits")),
           .roots = c.integers("tree_roots")};
  c.ignore("nodes_hitrates");
  auto modes = to_int64s(c.tensor("nodes_modes"));
  auto yes_is_leaf = c.integers("nodes_trueleafs"), no_is_leaf = c.integers("nodes_falseleafs");
  auto missing = c.integers("nodes_missing_value_tracks_true");
  auto targets = c.integers("leaf_targetids");
  auto weights = to_doubles(c.tensor("leaf_weights"));
  size_t count = modes.size(), leaf_count = targets.size();
  expect_size(c, "leaf_weights", weights.size(), leaf_count);
  for (auto* column : {&f.feature, &f.yes, &f.no, &yes_is_leaf, &no_is_leaf})
    expect_size(c, "entries of a list", column->size(), count);
  expect_size(c, "nodes_splits", f.value.size(), count);
  missing.resize(count);
  auto check = [&](int64_t index, size_t limit, std::string_view what) {
    if (index < 0 || std::cmp_greater_equal(index, limit))
      c.fail("E143", cat("has ", what, " ", index, ", not in [0, ", limit, ")"));
  };
  constexpr std::array<std::string_view, 4> aggregates = {"AVERAGE", "SUM", "MIN", "MAX"};
  int64_t how = c.integer("aggregate_function", 1);
  check(how, aggregates.size(), "aggregate_function");
  f.how = aggregate(c, std::string(aggregates[how]));
  make_room(c, f, std::ssize(targets), c.integer("n_targets", 1), leaf_count);
  f.leaf.assign(count, 0);
  for (size_t i = 0; i < leaf_count; ++i) {
    check(targets[i], f.targets, "leaf_targetids");
    f.weights[i * f.targets + targets[i]] = weights[i];
  }
  for (size_t i = 0; i < count; ++i) {
    check(modes[i], 7, "nodes_modes");
    check_feature(c, f.feature[i]);
    f.mode.push_back(static_cast<Mode>(modes[i]));
    f.missing_is_yes.push_back(missing[i] != 0);
    f.features = std::max(f.features, f.feature[i] + 1);
    check(f.yes[i], yes_is_leaf[i] ? leaf_count : count, "nodes_truenodeids");
    check(f.no[i], no_is_leaf[i] ? leaf_count : count, "nodes_falsenodeids");
  }
  for (int64_t root : f.roots) check(root, count, "tree_roots");
  for (size_t i = 0; i < leaf_count; ++i) push_leaf(f, static_cast<int64_t>(i));
  for (size_t i = 0; i < count; ++i) {
    if (yes_is_leaf[i]) f.yes[i] += static_cast<int64_t>(count);
    if (no_is_leaf[i]) f.no[i] += static_cast<int64_t>(count);
  }
  read_members(c, f);
  expand_members(f);
  int64_t transform = c.integer("post_transform", 0);
  check(transform, 5, "post_transform");
  Expr y = evaluated(c, f, arg(c, 0));
  return {transformed(c, y, static_cast<PostTransform>(transform))};
}

constexpr Operator table_of_operators[] = {
    {"ai.onnx.ml", "TreeEnsemble", tree_ensemble},
    {"ai.onnx.ml", "TreeEnsembleClassifier", tree_classifier},
    {"ai.onnx.ml", "TreeEnsembleRegressor", tree_regressor},
};

}  // namespace

std::span<const Operator> tree_operators() { return table_of_operators; }

}  // namespace weft::onnx
