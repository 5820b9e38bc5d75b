// SPDX-License-Identifier: Apache-2.0
#include "passes/passes.h"

#include <cstdint>

#include "base/chip_features.h"
#include "base/error.h"
#include "base/watch.h"
#include "kernels/gpu_tasks.h"
#include "passes/byte_tables.h"
#include "passes/canonicalise_views.h"
#include "passes/channels_last.h"
#include "passes/expand_composites.h"
#include "passes/expand_quantize.h"
#include "passes/fold_constants.h"
#include "passes/guess_roundings.h"
#include "passes/hoist_invariants.h"
#include "passes/inline_control.h"
#include "passes/integer_products.h"
#include "passes/merge_branches.h"
#include "passes/merge_common.h"
#include "passes/raise_composites.h"
#include "passes/reduce_precision.h"
#include "passes/rows_last.h"
#include "passes/shard.h"
#include "passes/simplify_algebra.h"
#include "passes/simplify_indices.h"
#include "passes/split_gates.h"

namespace weft {
namespace {

/// A pass that "normalise" or "raise" repeats until nothing changes.
struct Repeated {
  std::string_view name;
  bool (*run)(Module&);
};

constexpr Repeated parts[] = {
    {"inline_control", inline_control},         {"fold_constants", fold_constants},
    {"simplify_indices", simplify_indices},     {"simplify_algebra", simplify_algebra},
    {"canonicalise_views", canonicalise_views}, {"merge_common", merge_common},
    {"hoist_invariants", hoist_invariants},     {"raise_composites", raise_composites},
};
/// The passes of "normalise"; each may enable others.
constexpr std::span<const Repeated> rewrites = std::span(parts).first<7>();

/// Repeats the passes in `rewrites` until none changes anything (see the limit of until_settled).
bool normalise(Module& module, const PassContext&, PassCounts& counts) {
  return until_settled([&](Module& m) {
    bool any = false;
    for (const Repeated& pass : rewrites) {
      check_watch();
      bool changed = pass.run(m);
      counts[pass.name] += changed;
      any |= changed;
      m.remove_dead();
    }
    return any;
  })(module);
}

/// Raises composites and normalises again, because views around a raised operator may now merge.
bool raise(Module& module, const PassContext& context, PassCounts& counts) {
  return until_settled([&](Module& m) {
    bool changed = raise_composites(m);
    counts["raise_composites"] += changed;
    m.remove_dead();
    if (changed) normalise(m, context, counts);
    return changed;
  })(module);
}

/// Gives a pass that needs only the module the signature of PassInfo::run.
template <bool (*pass)(Module&)>
bool plain(Module& module, const PassContext&, PassCounts&) {
  return pass(module);
}

IntegerFactors factors_of(const Chip& chip) {
  if (!is_cpu(chip.kind)) return IntegerFactors::signed_bytes;
  if (multiplies_tiles(chip)) return IntegerFactors::tile_bytes;
  return multiplies_bytes(chip) ? IntegerFactors::mixed_bytes : IntegerFactors::shorts;
}

bool products_of_integers(Module& module, const PassContext& context, PassCounts&) {
  return integer_products(module, factors_of(context.chip));
}

bool block_dots(Module& module, const PassContext& context, PassCounts&) {
  return expand_block_dots(module, is_cpu(context.chip.kind));
}

/// Expands attention that no kernel supports or that products compute faster. (In a 16-bit precision, GPU kernels store
/// f32 operands in 16 bits, which allows wider heads.)
bool attention(Module& module, const PassContext& context, PassCounts&) {
  int64_t widest = tasks::attention_widest_head(16),
          widest_of_f32 = tasks::attention_widest_head(bits(context.precision));
  AttentionHeads gpu_heads{.widest = widest, .widest_of_f32 = widest_of_f32, .widest_of_few_keys = 128};
  return expand_attention(module, is_cpu(context.chip.kind) ? AttentionHeads{} : gpu_heads);
}

bool precision(Module& module, const PassContext& context, PassCounts&) {
  return reduce_precision(module, context.precision, context.keep_f32, multiplies(context.precision, context.chip));
}

bool layouts(Module& module, const PassContext& context, PassCounts&) {
  return channels_last(module, !is_cpu(context.chip.kind));
}

bool gates(Module& module, const PassContext& context, PassCounts&) { return split_gates(module, context); }

/// Shards, then normalises, which shortens the chains of slices and gathers that sharding adds.
bool shards(Module& module, const PassContext& context, PassCounts& counts) {
  bool changed = shard(module, context);
  if (changed) normalise(module, context, counts);
  return changed;
}

bool always(const PassContext&) { return true; }
bool on_ranks(const PassContext& context) { return context.ranks.count > 1; }
bool on_cpu(const PassContext& context) { return is_cpu(context.chip.kind); }
bool on_gpu(const PassContext& context) { return !is_cpu(context.chip.kind); }
/// True if a pass must convert the operands of products. (On GPUs, kernels convert values when they store them.)
bool in_narrow_products(const PassContext& context) { return !on_gpu(context) && context.precision != DType::f32; }

constexpr PassInfo passes[] = {
#include "passes/passes.def"
};

}  // namespace

std::span<const PassInfo> pass_list() { return passes; }

void run_passes(Pipeline& run, PassGroup group) {
  for (const PassInfo& pass : passes) {
    if (pass.group != group || !pass.applies(run.context())) continue;
    run(pass.name, [&](Module& module) { return pass.run(module, run.context(), run.changes()); });
  }
}

Pass find_pass(std::string_view name, const PassContext& context) {
  std::vector<std::string_view> known;
  for (const PassInfo& pass : passes) {
    known.push_back(pass.name);
    if (pass.name != name) continue;
    return [&pass, context](Module& module) {
      PassCounts counts;
      return pass.run(module, context, counts);
    };
  }
  for (const Repeated& part : parts) {
    known.push_back(part.name);
    if (part.name == name) return part.run;
  }
  throw Error({.kind = ErrorKind::usage,
               .code = "E503",
               .what = cat("there is no pass '", printable(name), "'"),
               .hint = cat("the passes are ", known)});
}

}  // namespace weft
