// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

/// The options of a session: those of the MIGraphX and ROCm providers in both spellings, of AMD's plug-in, and Weft's
/// own. options.def is the list.
namespace weft::ort {

struct Device;

using Address = uintptr_t;
enum class ArenaStrategy { next_power_of_two, same_as_requested };
enum class ComputeMode { eager, balanced, maximum };

struct Options {
#define OPTION(type, name, value, has_variable, cpu_note, gpu_note, sentence) type name = value;
#include "ort/options.def"
#undef OPTION

  /// What the user should know: an option that changes nothing here, and why.
  std::vector<std::string> notes = {};

  /// The least of all limits that were given, 0: none.
  int64_t memory_limit() const;
  /// Kernels are measured when a program is compiled; beside its runs.
  bool tunes_at_once() const { return exhaustive_tune || miopen_conv_exhaustive_search; }
  bool tunes_while_serving() const { return tunable_op_enable && tunable_op_tuning_enable && !tunes_at_once(); }
  /// For how long at most.
  double tune_seconds() const;
  /// The folder of saved programs that are found by content; "" for none.
  std::string cache_folder() const;
  Address allocate() const { return external_alloc ? external_alloc : gpu_external_alloc; }
  Address free() const { return external_free ? external_free : gpu_external_free; }
  Address empty_cache() const { return external_empty_cache ? external_empty_cache : gpu_external_empty_cache; }
  /// Work is to be queued on this stream of the user's; null: it is not, or the stream is the driver's default one,
  /// which each run then waits for.
  void* stream() const { return reinterpret_cast<void*>(user_compute_stream); }
  /// Whatever changes the code of a program, as text: part of its identity.
  std::string identity() const;
};

/// `given` by name as the user spelt it, for a session on `device`; `variable` reads an environment variable, "" when
/// it is not set. Variables win. Throws E202 for a name that there is not (with the nearest), E203 for a value that
/// does not parse, E502 for options that do not go together or not with this device.
Options read_options(const std::map<std::string, std::string>& given, const Device& device,
                     const std::function<std::string(const std::string&)>& variable);

/// Names of all options.
std::vector<std::string> option_names();

/// A line about variables of AMD's that are set and change nothing; "" where there are none.
std::string idle_variables();

}  // namespace weft::ort
