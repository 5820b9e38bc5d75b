// SPDX-License-Identifier: Apache-2.0
#include "passes/passes.h"

#include "base/error.h"
#include "passes/canonicalise_views.h"
#include "passes/fold_constants.h"
#include "passes/merge_common.h"
#include "passes/raise_composites.h"
#include "passes/simplify_algebra.h"
#include "passes/simplify_indices.h"

namespace weft {
namespace {

struct NamedPass {
  std::string_view name;
  bool (*run)(Module&);
};

/// Single rewrites, each of which may open the way for another.
constexpr NamedPass rewrites[] = {
    {"fold_constants", fold_constants},     {"simplify_indices", simplify_indices},
    {"simplify_algebra", simplify_algebra}, {"canonicalise_views", canonicalise_views},
    {"merge_common", merge_common},
};

/// All rewrites until none finds anything.
bool normalise_once(Module& module) {
  bool changed = false;
  for (const NamedPass& pass : rewrites) {
    changed |= pass.run(module);
    module.remove_dead();
  }
  return changed;
}
bool normalise(Module& module) { return until_settled(normalise_once)(module); }

/// What was raised may stand on views that then merge, and open the way for more.
bool raise_once(Module& module) {
  bool changed = raise_composites(module);
  module.remove_dead();
  return changed && (normalise(module), true);
}
bool raise(Module& module) { return until_settled(raise_once)(module); }

/// The way of every program, in order.
constexpr NamedPass stages[] = {
    {"normalise", normalise},
    {"raise", raise},
};
constexpr NamedPass others[] = {
    {"raise_composites", raise_composites},
};

}  // namespace

void add_passes(Pipeline& run) {
  for (const NamedPass& pass : stages) run(pass.name, pass.run);
}

Pass find_pass(std::string_view name) {
  std::vector<std::string_view> known;
  using List = std::span<const NamedPass>;
  for (List list : {List(rewrites), List(others), List(stages)}) {
    for (const NamedPass& pass : list) {
      if (pass.name == name) return pass.run;
      known.push_back(pass.name);
    }
  }
  throw Error({.kind = ErrorKind::usage,
               .code = "E503",
               .what = cat("there is no pass '", printable(name), "'"),
               .hint = cat("the passes are ", known)});
}

}  // namespace weft
