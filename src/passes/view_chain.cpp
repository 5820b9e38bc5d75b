// SPDX-License-Identifier: Apache-2.0
#include "passes/view_chain.h"

#include <algorithm>

#include "ops/build.h"

namespace weft {

ViewChain::ViewChain(const Dims& source) : source_(source) {
  for (size_t a = 0; a < source.size(); ++a) {
    Axis axis;
    if (source[a] != Dim(1)) axis.push_back({source[a], {static_cast<int>(a)}});
    axes_.push_back(std::move(axis));
  }
}

bool ViewChain::reshape(const Dims& dims) {
  std::vector<Factor> rest;  // unused factors in reverse order
  for (const Axis& axis : axes_) rest.insert(rest.end(), axis.begin(), axis.end());
  std::ranges::reverse(rest);
  std::vector<Axis> axes;
  for (const Dim& dim : dims) {
    Axis axis;
    Dim wanted = dim;
    while (wanted != Dim(1)) {
      if (rest.empty()) return false;
      Factor next = rest.back();
      rest.pop_back();
      if (auto remaining = exact_divide(wanted, next.size)) {
        wanted = *remaining;
      } else if (auto inner = exact_divide(next.size, wanted)) {
        Factor tail{*inner, next.place};
        tail.place.push_back(1);
        next = {wanted, next.place};
        next.place.push_back(0);
        rest.push_back(std::move(tail));
        wanted = 1;
      } else {
        return false;
      }
      axis.push_back(std::move(next));
    }
    axes.push_back(std::move(axis));
  }
  if (!rest.empty()) return false;
  axes_ = std::move(axes);
  return true;
}

void ViewChain::transpose(const std::vector<int64_t>& permutation) {
  std::vector<Axis> axes;
  for (int64_t from : permutation) axes.push_back(axes_[from]);
  axes_ = std::move(axes);
}

ViewChain::Form ViewChain::form() const {
  Form best = form(true, false);
  for (auto [within_source, within_result] : {std::pair(true, true), std::pair(false, true), std::pair(false, false)}) {
    Form other = form(within_source, within_result);
    if (other.length() < best.length()) best = other;
  }
  return best;
}

ViewChain::Form ViewChain::form(bool within_source, bool within_result) const {
  std::vector<Factor> order;
  std::vector<bool> starts_axis;  // for each factor: true if it is the first factor of an axis of the result
  for (const Axis& axis : axes_) {
    for (const Factor& f : axis) starts_axis.push_back(&f == &axis.front());
    order.insert(order.end(), axis.begin(), axis.end());
  }
  std::vector<Factor> sorted = order;
  std::ranges::sort(sorted, {}, &Factor::place);
  std::vector<size_t> rank, group_of(sorted.size());  // rank[i]: place of order[i] in `sorted`
  for (const Factor& f : order) rank.push_back(std::ranges::find(sorted, f.place, &Factor::place) - sorted.begin());
  std::vector<bool> starts_group(sorted.size(), true);
  for (size_t i = 1; i < order.size(); ++i) {
    bool divided = (within_source && order[i].place[0] != order[i - 1].place[0]) || (within_result && starts_axis[i]);
    if (rank[i] == rank[i - 1] + 1 && !divided) starts_group[rank[i]] = false;
  }
  Form form;
  Dims split, permuted, result;
  for (size_t i = 0; i < sorted.size(); ++i) {
    if (starts_group[i]) split.push_back(sorted[i].size);
    else split.back() *= sorted[i].size;
    group_of[i] = split.size() - 1;
  }
  std::vector<int64_t> permutation;
  for (size_t i = 0; i < order.size(); ++i) {
    if (starts_group[rank[i]]) permutation.push_back(static_cast<int64_t>(group_of[rank[i]]));
  }
  for (int64_t group : permutation) permuted.push_back(split[group]);
  for (const Axis& axis : axes_) {
    Dim size = 1;
    for (const Factor& f : axis) size *= f.size;
    result.push_back(size);
  }
  if (std::ranges::is_sorted(permutation)) {
    if (result != source_) form.merge = result;
    return form;
  }
  if (split != source_) form.split = split;
  form.permutation = permutation;
  if (result != permuted) form.merge = result;
  return form;
}

Value ViewChain::Form::write(Module& module, Value x) const {
  if (split) x = module.append(Reshape{.dims = *split}, {x});
  if (permutation) x = module.append(Transpose{.permutation = *permutation}, {x});
  if (merge) x = module.append(Reshape{.dims = *merge}, {x});
  return x;
}

bool ViewChain::Form::is_written(Value x, Value result) const {
  auto undo = [&](const Op& op) {
    if (result == x || !(result.def->op == op)) return false;
    result = result.def->inputs[0];
    return true;
  };
  if (merge && !undo(Reshape{.dims = *merge})) return false;
  if (permutation && !undo(Transpose{.permutation = *permutation})) return false;
  if (split && !undo(Reshape{.dims = *split})) return false;
  return result == x;
}

}  // namespace weft
