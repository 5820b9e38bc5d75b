// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/chip.h"
#include "base/decision.h"

/// The measurements of tuning, kept between processes and used by later compiles:
///
///     TuningStore store(TuningStore::default_file());
///     store.put(measured);
///     Chooser choose = choose_by(store.known_for(chip_key(chip, "NVIDIA H200"), codegen_build()));
namespace weft {

/// The time of one candidate of a problem on a chip.
struct Tuning {
  std::string chip;       ///< chip_key of the device that it ran on
  std::string library;    ///< build of the kernel library (codegen_build); times of other builds do not apply
  std::string problem;    ///< Decision::problem
  std::string candidate;  ///< Candidate::name
  double nanoseconds = 0;
  bool operator==(const Tuning&) const = default;
};

/// "sm_90a, NVIDIA H200": the code's chip and, for a GPU, its model; without the model if that is not known.
std::string chip_key(const Chip& chip, std::string_view device = {});

/// A database (SQLite) of tunings; the newest time of a candidate is kept. Processes may share a file. Errors are E106.
class TuningStore {
 public:
  /// The file is created at the first put, in a folder accessible to this user only.
  explicit TuningStore(std::filesystem::path file) : file_(std::move(file)) {}
  /// WEFT_TUNINGS, else "tunings.db" beside the kernel cache; empty if there is no place for it.
  static std::filesystem::path default_file();
  const std::filesystem::path& file() const { return file_; }

  void put(std::span<const Tuning> tunings);
  /// Ordered by chip, library, problem and time.
  std::vector<Tuning> all() const;
  /// Tunings of a chip and a build of the kernel library. For a chip without a model: those of the model with the most
  /// entries.
  std::vector<Tuning> known_for(const std::string& chip, const std::string& library) const;
  /// Removes all tunings; returns how many.
  int64_t clear();

 private:
  std::filesystem::path file_;
};

/// The default store's tunings for a chip; empty, with one warning, if it cannot be read.
std::vector<Tuning> kept_tunings(const std::string& chip);

/// Chooses the candidate that was measured to be the fastest. It must have been compared with the cost model's choice
/// and be at least 3 % faster; otherwise that choice stays.
Chooser choose_by(std::span<const Tuning> tunings);

/// Measurements as text (JSON, schema weft.tunings.1) and back. Throws E212 for malformed text.
std::string tunings_text(std::span<const Tuning> tunings);
std::vector<Tuning> parse_tunings(std::string_view text);

}  // namespace weft
