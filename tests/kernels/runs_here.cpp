// SPDX-License-Identifier: Apache-2.0
/// Ends a program whose code needs features that this processor lacks (WEFT_CHIP), before any of that code runs.
#include <cstdio>
#include <cstdlib>

#include "base/chip.h"

namespace {

[[gnu::constructor(101)]] void end_unless_it_runs_here() {
  const weft::Chip chip = weft::chip_named(WEFT_CHIP), host = weft::host_chip();
  if (weft::runs_code_for(host, chip)) return;
  std::printf("compiled for %s; not run, for this processor is %s\n", to_string(chip).c_str(), to_string(host).c_str());
  std::fflush(stdout);
  std::_Exit(0);
}

}  // namespace
