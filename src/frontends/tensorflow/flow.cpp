// SPDX-License-Identifier: Apache-2.0
#include "frontends/tensorflow/flow.h"

#include <algorithm>

#include "base/error.h"
#include "frontends/tensorflow/counting.h"
#include "ir/core_ops.h"
#include "ops/build.h"

namespace weft::tensorflow {

using namespace frontend;

const OpenList* reserved(Call& c, Value value) {
  auto* known = value.def->as<Constant>();
  bool is_handle = known && known->tensor.dtype == DType::string && known->tensor.elements() == 1;
  return is_handle ? c.graphs().find_list((*known->tensor.strings)[0]) : nullptr;
}

Expr zeros(const Builder& b, DType type, const Dims& dims) {
  if (type != DType::string) return full(b, type, dims, 0);
  return broadcast({&b, constant(b.module(), make_string_tensor({}, {""}))}, dims);
}

Expr filled(const Builder& b, const OpenList& list, const Dims& element) {
  Dims dims = {list.count};
  dims.insert(dims.end(), element.begin(), element.end());
  return zeros(b, list.type, dims);
}

namespace {

/// Builds the body once to learn the element sizes of lists that were created without element sizes.
void open_lists(Call& c, const FlowLoop& loop, Values& carried) {
  std::vector<size_t> open;
  for (size_t k = 0; k < carried.size(); ++k) {
    if (!loop.stays[k] && reserved(c, carried[k])) open.push_back(k);
  }
  if (open.empty()) return;
  Program::Mark mark = c.program().mark();
  std::vector<Dims> elements;
  build_branch(c, "trip", [&](const Builder& body) {
    Values inner;
    for (Value value : carried) inner.push_back(inside(body, value));
    Values next = loop.step(body, inner);
    for (size_t k : open) {
      if (reserved(c, next[k])) c.unsupported("fills a list whose elements have no known sizes");
      if (!next[k].type().is_tensor() || next[k].rank() < 1)
        c.fail("E158", "carries a list, and its body makes no list of it");
      elements.emplace_back(next[k].dims().begin() + 1, next[k].dims().end());
    }
    return Values();
  });
  c.program().forget_since(mark);
  for (size_t i = 0; i < open.size(); ++i) carried[open[i]] = filled(c, *reserved(c, carried[open[i]]), elements[i]);
}

}  // namespace

namespace {

/// The values that the built loop carries: all that change, except counters.
class Moving {
 public:
  Moving(const FlowLoop& loop, const Values& first, const std::optional<Counted>& counted)
      : loop_(loop), first_(first), counted_(counted) {}

  bool moves(size_t k) const { return !loop_.stays[k] && !(counted_ && counted_->counters[k]); }
  bool is_rows(size_t k) const { return counted_ && counted_->is_rows[k]; }
  Values first() const {
    Values moving;
    for (size_t k = 0; k < first_.size(); ++k) {
      if (moves(k)) moving.push_back(first_[k]);
    }
    return moving;
  }
  /// Returns all values at the start of a trip; `own` are the carried values.
  Values whole(const Builder& at, const Dim& trip, const Values& own) const {
    Values all;
    size_t next = 0;
    for (size_t k = 0; k < first_.size(); ++k) {
      all.push_back(moves(k)         ? own[next++]
                    : loop_.stays[k] ? inside(at, first_[k]).value
                                     : counter_at(at, first_[k], *counted_->counters[k], trip));
    }
    return all;
  }
  /// Returns the results of a trip: the carried values, then the rows written to lists. The lists themselves stay
  /// unchanged.
  Values after(const Builder& at, const Values& now, const Values& next) const {
    Values kept, rows;
    for (size_t k = 0; k < first_.size(); ++k) {
      if (!moves(k)) continue;
      Value row = is_rows(k) ? row_written(at, now[k], next[k]) : Value();
      if (is_rows(k) && !row) at.fail("E158", "writes a list in one trip and not in another");
      kept.push_back(row ? now[k] : next[k]);
      if (row) rows.push_back(row);
    }
    kept.insert(kept.end(), rows.begin(), rows.end());
    return kept;
  }
  /// Returns all values after the loop, from the results `given` of the built loop.
  Values results(const Builder& at, const Values& given) const {
    Values all = first_;
    size_t next = 0, row = first().size();
    for (size_t k = 0; k < first_.size(); ++k) {
      if (loop_.stays[k]) continue;
      if (!moves(k)) all[k] = counter_at(at, first_[k], *counted_->counters[k], counted_->trips);
      else all[k] = is_rows(k) ? given[row++] : given[next];
      next += moves(k);
    }
    return all;
  }

 private:
  const FlowLoop& loop_;
  const Values& first_;
  const std::optional<Counted>& counted_;
};

}  // namespace

Values run_loop(Call& c, const FlowLoop& loop) {
  Values first = loop.carried;
  open_lists(c, loop, first);
  auto counts = counted(c, loop, first);
  Moving moving(loop, first, counts);
  LoopForm form{.carried = moving.first()};
  form.body = [&](const Builder& at, const Dim& trip, const Values& own) {
    Values now = moving.whole(at, trip, own), after = moving.after(at, now, loop.step(at, now));
    if (!counts) after.insert(after.begin(), loop.holds(at, moving.whole(at, trip, after)));
    return after;
  };
  if (counts) {
    form.trips = counts->trips;
    form.rows = std::ranges::count(counts->is_rows, true);
  } else {
    form.condition = loop.holds(c, moving.whole(c, 0, form.carried)), form.gives_condition = true;
  }
  return moving.results(c, build_loop(c, std::move(form)));
}

}  // namespace weft::tensorflow
