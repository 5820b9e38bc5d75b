// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <span>

#include "passes/pipeline.h"

/// The list of passes, shared by the compiler, `weft inspect --support` and `--stage`, `weft-pass` and the tests.
namespace weft {

enum class PassGroup : uint8_t {
  shared,    ///< passes for all chips; saved programs contain their result
  for_chip,  ///< passes that run for each chip, after the shared ones
};

struct PassInfo {
  std::string_view name;
  PassGroup group;
  bool (*run)(Module&, const PassContext&, PassCounts&);
  bool (*applies)(const PassContext&);  ///< false: this chip, precision or number of ranks does not need the pass
};

/// Returns all passes in the order in which they run.
std::span<const PassInfo> pass_list();

/// Runs those passes of one group that apply to the pipeline's context.
void run_passes(Pipeline& run, PassGroup group);

/// Returns a pass by name, also one that "normalise" or "raise" repeats. Throws E503 for an unknown name.
Pass find_pass(std::string_view name, const PassContext& context);

}  // namespace weft
