// SPDX-License-Identifier: Apache-2.0
#include "passes/passes.h"

#include "base/error.h"
#include "passes/fold_constants.h"
#include "passes/merge_common.h"

namespace weft {
namespace {

struct NamedPass {
  std::string_view name;
  bool (*run)(Module&);
};

/// Single rewrites, each of which may open the way for another.
constexpr NamedPass rewrites[] = {
    {"fold_constants", fold_constants},
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

/// The way of every program, in order.
constexpr NamedPass stages[] = {
    {"normalise", normalise},
};

}  // namespace

void add_passes(Pipeline& run) {
  for (const NamedPass& pass : stages) run(pass.name, pass.run);
}

Pass find_pass(std::string_view name) {
  std::vector<std::string_view> known;
  for (std::span<const NamedPass> list : {std::span<const NamedPass>(rewrites), std::span<const NamedPass>(stages)}) {
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
