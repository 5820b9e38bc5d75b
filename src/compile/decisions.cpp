// SPDX-License-Identifier: Apache-2.0
// Makes lowering choose between candidates by stored or new measurements of this machine.
#include <algorithm>

#include "compile/stages.h"
#include "compile/tune.h"
#include "kernel_build/tunings.h"
#include "targets/gpu/device.h"
#include "targets/gpu/libraries.h"

namespace weft {

VendorLibraries find_libraries(const Place& place, const CompileOptions& options) {
  if (!place.runner.gpu || !options.vendor_libraries) return {};
  return gpu::find_libraries(place.runner.gpu);
}

std::string tuning_key(const Place& place) {
  return chip_key(place.chip, place.runner.gpu ? place.runner.gpu->info().name : "");
}

void decide_by_tunings(const ProgramSource& source, const Place& place, CompileOptions& options) {
  bool measures = options.tune > 0;
  if (!measures && (options.choose || !options.cache)) return;
  if (measures) options.libraries = find_libraries(place, options);
  std::vector<Tuning> known = measures ? tune(source, place, options).tunings : kept_tunings(tuning_key(place));
  auto is_by_library = [](const Tuning& tuning) { return gpu::is_library(tuning.candidate); };
  if (std::ranges::any_of(known, is_by_library)) options.libraries = find_libraries(place, options);
  options.choose = choose_by(known);
}

CompileOptions decided_by_tunings(const Chip& chip, CompileOptions options) {
  if (!options.choose && options.cache) options.choose = choose_by(kept_tunings(chip_key(chip)));
  return options;
}

}  // namespace weft
