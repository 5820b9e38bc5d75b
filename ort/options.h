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

using Address = uintptr_t;
enum class ArenaStrategy { next_power_of_two, same_as_requested };

struct Options {
#define OPTION(type, name, value, has_variable, cpu_note, sentence) type name = value;
#include "ort/options.def"
#undef OPTION

  /// What the user should know: an option that changes nothing here, and why.
  std::vector<std::string> notes = {};

  /// The least of all limits that were given, 0: none.
  int64_t memory_limit() const;
  Address allocate() const { return external_alloc ? external_alloc : gpu_external_alloc; }
  Address free() const { return external_free ? external_free : gpu_external_free; }
  Address empty_cache() const { return external_empty_cache ? external_empty_cache : gpu_external_empty_cache; }
  /// Whatever changes the code of a program, as text: part of its identity.
  std::string identity() const;
};

/// `given` by name as the user spelt it; `variable` reads an environment variable, "" when it is not set. Variables
/// win. Throws E202 for a name that there is not (with the nearest), E203 for a value that does not parse, E502 for
/// options that do not go together or not with this device.
Options read_options(const std::map<std::string, std::string>& given,
                     const std::function<std::string(const std::string&)>& variable);

/// Names of all options.
std::vector<std::string> option_names();

}  // namespace weft::ort
