// SPDX-License-Identifier: Apache-2.0
#include "passes/passes.h"

#include "base/error.h"
#include "base/watch.h"
#include "passes/canonicalise_views.h"
#include "passes/channels_last.h"
#include "passes/expand_composites.h"
#include "passes/expand_quantize.h"
#include "passes/fold_constants.h"
#include "passes/hoist_invariants.h"
#include "passes/inline_control.h"
#include "passes/integer_products.h"
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
    {"inline_control", inline_control},         {"fold_constants", fold_constants},
    {"simplify_indices", simplify_indices},     {"simplify_algebra", simplify_algebra},
    {"canonicalise_views", canonicalise_views}, {"merge_common", merge_common},
    {"hoist_invariants", hoist_invariants},
};

/// All rewrites until none finds anything.
bool normalise(Module& module, PassCounts& counts) {
  return until_settled([&](Module& m) {
    bool any = false;
    for (const NamedPass& pass : rewrites) {
      heed_watch();
      bool changed = pass.run(m);
      counts[pass.name] += changed;
      any |= changed;
      m.remove_dead();
    }
    return any;
  })(module);
}

/// What was raised may stand on views that then merge, and open the way for more.
bool raise(Module& module, PassCounts& counts) {
  return until_settled([&](Module& m) {
    bool changed = raise_composites(m);
    counts["raise_composites"] += changed;
    m.remove_dead();
    if (changed) normalise(m, counts);
    return changed;
  })(module);
}

struct Stage {
  std::string_view name;
  bool (*run)(Module&, PassCounts&);
};

/// The way of every program, in order.
constexpr Stage stages[] = {
    {"normalise", normalise},
    {"raise", raise},
};
constexpr NamedPass others[] = {
    {"raise_composites", raise_composites}, {"integer_products", integer_products}, {"byte_products", byte_products},
    {"tile_products", tile_products},       {"signed_products", signed_products},   {"fold_scales", fold_scales},
    {"expand_quantize", expand_quantize},   {"channels_last", channels_last},
};

}  // namespace

void add_passes(Pipeline& run) {
  for (const Stage& stage : stages) run(stage.name, [&](Module& module) { return stage.run(module, run.changes()); });
}

Pass find_pass(std::string_view name) {
  std::vector<std::string_view> known;
  using List = std::span<const NamedPass>;
  for (List list : {List(rewrites), List(others)}) {
    for (const NamedPass& pass : list) {
      if (pass.name == name) return pass.run;
      known.push_back(pass.name);
    }
  }
  for (const Stage& stage : stages) {
    known.push_back(stage.name);
    if (stage.name != name) continue;
    return [&stage](Module& module) {
      PassCounts counts;
      return stage.run(module, counts);
    };
  }
  throw Error({.kind = ErrorKind::usage,
               .code = "E503",
               .what = cat("there is no pass '", printable(name), "'"),
               .hint = cat("the passes are ", known)});
}

}  // namespace weft
