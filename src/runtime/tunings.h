// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/chip.h"
#include "base/decision.h"

/// What tuning measured, kept between processes and used by later compiles:
///
///     TuningStore store(TuningStore::default_file());
///     store.put(measured);
///     Chooser choose = choose_by(store.known_for(chip_key(chip, "NVIDIA H200"), codegen_build()));
namespace weft {

/// How long one candidate of a problem took on a chip.
struct Tuning {
  std::string chip;       ///< chip_key of what it ran on
  std::string library;    ///< build of the kernel library (codegen_build): another one's times say nothing about ours
  std::string problem;    ///< Decision::problem
  std::string candidate;  ///< Candidate::name
  double nanoseconds = 0;
  bool operator==(const Tuning&) const = default;
};

/// "sm_90a, NVIDIA H200": the code's chip and, for a GPU, which model of it; empty where that is not known.
std::string chip_key(const Chip& chip, std::string_view device = {});

/// A database (SQLite) of tunings; the newest time of a candidate is kept. Processes may share a file. Errors are E106.
class TuningStore {
 public:
  /// The file is made, in a folder for this user alone, when something is first put into it.
  explicit TuningStore(std::filesystem::path file) : file_(std::move(file)) {}
  /// WEFT_TUNINGS, else "tunings.db" beside the kernel cache; empty when there is no place for it.
  static std::filesystem::path default_file();
  const std::filesystem::path& file() const { return file_; }

  void put(std::span<const Tuning> tunings);
  /// Ordered by chip, library, problem and time.
  std::vector<Tuning> all() const;
  /// Those of a chip and a build of the kernel library. For a chip without its model, those of the model of which most
  /// is known.
  std::vector<Tuning> known_for(const std::string& chip, const std::string& library) const;
  /// Forgets everything; says how many tunings that was.
  int64_t clear();

 private:
  std::filesystem::path file_;
};

/// What the default store knows for a chip; nothing, after one warning, when it cannot be read.
std::vector<Tuning> kept_tunings(const std::string& chip);

/// Chooses the candidate that was measured to be fastest. The cost model's favourite must be among those measured, and
/// must be beaten by 3 %: what was not compared with it, or is as good, does not replace it.
Chooser choose_by(std::span<const Tuning> tunings);

/// As text (JSON, schema weft.tunings.1) and back. Throws E212 for a text that is none.
std::string tunings_text(std::span<const Tuning> tunings);
std::vector<Tuning> parse_tunings(std::string_view text);

}  // namespace weft
