// SPDX-License-Identifier: Apache-2.0
/// Ends a program that is compiled for more than this processor has (WEFT_CHIP), before any of its own code runs.
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
