// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

/// The options of a session: those of the MIGraphX and ROCm providers, of AMD's plug-in, and Weft's own. options.def
/// lists them.
namespace weft::ort {

struct Device;

using Address = uintptr_t;
enum class ArenaStrategy { next_power_of_two, same_as_requested };
enum class ComputeMode { eager, balanced, maximum };

struct Options {
#define OPTION(type, name, value, has_variable, cpu_note, gpu_note, sentence) type name = value;
#include "ort/options.def"
#undef OPTION

  /// Messages for the user: options that have no effect here, and why.
  std::vector<std::string> notes = {};

  /// Returns max_mem of default_memory_arena_cfg, else the smaller of mem_limit and gpu_mem_limit (0: not set).
  int64_t memory_limit() const;
  /// True if kernels are measured while a program is compiled.
  bool tunes_at_once() const { return exhaustive_tune || miopen_conv_exhaustive_search; }
  bool tunes_while_serving() const { return tunable_op_enable && tunable_op_tuning_enable && !tunes_at_once(); }
  /// Returns the limit, in seconds, of the time for measuring kernels.
  double tune_seconds() const;
  /// Returns the folder of saved programs, which are found by content; "" for none.
  std::string cache_folder() const;
  Address allocate() const { return external_alloc ? external_alloc : gpu_external_alloc; }
  Address free() const { return external_free ? external_free : gpu_external_free; }
  Address empty_cache() const { return external_empty_cache ? external_empty_cache : gpu_external_empty_cache; }
  /// Returns the user's stream. Null if there is none or if it is the driver's default stream; runs are then
  /// synchronous.
  void* stream() const { return reinterpret_cast<void*>(user_compute_stream); }
  /// Returns the precision and the quantisation as text, such as "f16 int8". It is part of a program's identity.
  std::string identity() const;
};

/// Reads `given`, the options by name as the user wrote them, for a session on `device`. `variable` reads an
/// environment variable ("" if not set); variables win over options. Throws E202 for an unknown name (with the
/// nearest), E203 for a value that does not parse, E502 for options that contradict each other, and E501 or E502 for
/// options that contradict the device.
Options read_options(const std::map<std::string, std::string>& given, const Device& device,
                     const std::function<std::string(const std::string&)>& variable);

/// Returns the names of all options.
std::vector<std::string> option_names();

/// Returns a line about variables of AMD's providers that are set but have no effect; "" if there are none.
std::string idle_variables();

}  // namespace weft::ort
