// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/chip.h"
#include "base/decision.h"

/// Measurements of tuning, stored between processes and used by later compilations:
///
///     TuningStore store(TuningStore::default_file());
///     store.put(measured);
///     Chooser choose = choose_by(store.known_for(chip_key(chip, "NVIDIA H200"), codegen_build()));
namespace weft {

/// The measured time of one candidate for a problem on a chip.
struct Tuning {
  std::string chip;       ///< chip_key of the device that was measured
  std::string library;    ///< codegen_build of the kernels; times of other builds are ignored
  std::string problem;    ///< Decision::problem
  std::string candidate;  ///< Candidate::name
  double nanoseconds = 0;
  bool operator==(const Tuning&) const = default;
};

/// Returns the chip and, unless `device` is empty, the device's name: "sm_90a, NVIDIA H200".
std::string chip_key(const Chip& chip, std::string_view device = {});

/// A SQLite database of tunings with the newest time of each candidate. Processes may share it. Errors throw E106.
class TuningStore {
 public:
  /// Creates the file at the first put, in a folder accessible to this user only.
  explicit TuningStore(std::filesystem::path file) : file_(std::move(file)) {}
  /// Returns WEFT_TUNINGS, or else "tunings.db" in cache_folder(); empty if there is no such folder.
  static std::filesystem::path default_file();
  const std::filesystem::path& file() const { return file_; }

  void put(std::span<const Tuning> tunings);
  /// Returns all tunings, ordered by chip, library, problem and nanoseconds.
  std::vector<Tuning> all() const;
  /// Returns the tunings of a chip and a build of the kernel library. If `chip` has no device name, returns the tunings
  /// of the device with the most entries.
  std::vector<Tuning> known_for(const std::string& chip, const std::string& library) const;
  /// Removes all tunings; returns how many.
  int64_t clear();

 private:
  std::filesystem::path file_;
};

/// Returns the default store's tunings for a chip; if the store cannot be read, warns once and returns none.
std::vector<Tuning> kept_tunings(const std::string& chip);

/// Returns a Chooser that takes the fastest measured candidate if it is at least 3 % faster than the cost model's
/// choice. Otherwise, or if the cost model's choice was not measured, it takes the cost model's choice.
Chooser choose_by(std::span<const Tuning> tunings);

/// Convert tunings to JSON text (schema weft.tunings.1) and back. parse_tunings throws E212 for malformed text.
std::string tunings_text(std::span<const Tuning> tunings);
std::vector<Tuning> parse_tunings(std::string_view text);

}  // namespace weft
