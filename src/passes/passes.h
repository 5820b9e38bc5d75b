// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <span>

#include "passes/pipeline.h"

/// The passes, in the one list that compiling, `weft support`, `weft inspect --stage`, `weft-pass` and the tests walk.
namespace weft {

enum class PassGroup : uint8_t {
  shared,    ///< makes the program that all chips start from; saved programs keep it
  for_chip,  ///< prepares the program for the chip of the PassContext
};

/// A pass of the pipeline.
struct PassInfo {
  std::string_view name;
  PassGroup group;
  bool (*run)(Module&, const PassContext&, PassCounts&);
  bool (*applies)(const PassContext&);  ///< false: not needed for this chip or precision
};

/// All passes in the order in which they run.
std::span<const PassInfo> pass_list();

/// Runs the passes of one group that apply to the pipeline's context.
void run_passes(Pipeline& run, PassGroup group);

/// A pass by its name, also one of those that "normalise" and "raise" repeat; E503 with the list if there is none.
Pass find_pass(std::string_view name, const PassContext& context);

}  // namespace weft
