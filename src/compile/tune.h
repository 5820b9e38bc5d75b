// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "compile/stages.h"
#include "kernel_build/tunings.h"

/// Tunes by measurement. Compiles the program repeatedly, each time with the next candidate of every decision. Times
/// the candidates' steps inside whole runs. These runs alternate with runs of the cost model's choice, so that other
/// load on the machine slows down both kinds of runs (docs/tuning.md).
namespace weft {

/// The measurements of one decision.
struct TunedProblem {
  std::string problem;
  int places = 0;          ///< how often the problem occurs in the program
  double nanoseconds = 0;  ///< time of the cost model's choice, for one occurrence
  std::string favourite;   ///< the cost model's choice
  std::string fastest;
  double gain = 1;   ///< the favourite's time divided by the fastest candidate's
  int measured = 0;  ///< measured candidates, the favourite included
};

struct TuneReport {
  std::vector<Tuning> tunings;  ///< all known measurements of the program's problems, older ones included
  std::vector<TunedProblem> problems;
  int rounds = 0;
  bool is_complete = false;        ///< the time was long enough for all rounds
  std::vector<std::string> notes;  ///< rounds that failed, and kernels that could not be measured, with the reason
};

/// Measures for at most `options.tune` seconds (but always the first round) and stores the times in the default store,
/// unless the options forbid caches. Throws E501 if the chip is not present, and the errors of running the program.
TuneReport tune(const ProgramSource& source, const Place& place, const CompileOptions& options);

/// Calls `tune` for the program in a model's file or a saved program.
TuneReport tune_file(const std::filesystem::path& path, const CompileOptions& options);

}  // namespace weft
