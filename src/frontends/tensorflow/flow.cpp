// SPDX-License-Identifier: Apache-2.0
#include "frontends/tensorflow/flow.h"

#include "base/error.h"
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
  return broadcast({&b, constant(b.module(), make_text_tensor({}, {""}))}, dims);
}

Expr filled(const Builder& b, const OpenList& list, const Dims& element) {
  Dims dims = {list.count};
  dims.insert(dims.end(), element.begin(), element.end());
  return zeros(b, list.type, dims);
}

namespace {

/// What a trip makes of the handles of lists tells the sizes of their elements.
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

Values run_loop(Call& c, const FlowLoop& loop) {
  Values first = loop.carried, moving, results = loop.carried;
  open_lists(c, loop, first);
  for (size_t k = 0; k < first.size(); ++k) {
    if (!loop.stays[k]) moving.push_back(first[k]);
  }
  auto whole = [&](const Builder& at, const Values& own) {
    Values all;
    size_t next = 0;
    for (size_t k = 0; k < first.size(); ++k) all.push_back(loop.stays[k] ? inside(at, first[k]).value : own[next++]);
    return all;
  };
  auto body = [&](const Builder& at, const Dim&, const Values& own) {
    Values after = loop.step(at, whole(at, own)), kept;
    for (size_t k = 0; k < after.size(); ++k) {
      if (!loop.stays[k]) kept.push_back(after[k]);
    }
    kept.insert(kept.begin(), loop.holds(at, whole(at, kept)));
    return kept;
  };
  Values after = build_loop(
      c, {.condition = loop.holds(c, whole(c, moving)), .gives_condition = true, .carried = moving, .body = body});
  size_t next = 0;
  for (size_t k = 0; k < results.size(); ++k) {
    if (!loop.stays[k]) results[k] = after[next++];
  }
  return results;
}

}  // namespace weft::tensorflow
