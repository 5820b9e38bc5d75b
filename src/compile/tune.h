// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "compile/stages.h"
#include "runtime/tunings.h"

/// Tuning by measurement: the program is compiled again and again, each time with the next candidate of every decision
/// at once, and its steps are timed where they stand, with their real neighbours, in turns with the cost model's
/// favourites, so that a busy machine slows both. docs/tuning.md says more.
namespace weft {

/// What was found about one problem.
struct TunedProblem {
  std::string problem;
  int places = 0;          ///< how often the program has it
  double nanoseconds = 0;  ///< of the favourite, one place
  std::string favourite;   ///< what the cost model likes
  std::string fastest;
  double gain = 1;   ///< the favourite's time over the fastest's
  int measured = 0;  ///< candidates, the favourite among them
};

struct TuneReport {
  std::vector<Tuning> tunings;  ///< all that is known now about the problems of the program, also from before
  std::vector<TunedProblem> problems;
  int rounds = 0;
  bool is_complete = false;        ///< every candidate worth a look was measured
  std::vector<std::string> notes;  ///< what could not be measured, and why
};

/// Measures for `options.tune.seconds` at most (the first round in any case) and keeps the times in the default store,
/// unless the options forbid caches. E501 where the chip is not here; errors of running the program as they come.
TuneReport tune(const ProgramSource& source, const Place& place, const CompileOptions& options);

/// The same for a model or a saved program.
TuneReport tune_file(const std::filesystem::path& path, const CompileOptions& options);

}  // namespace weft
