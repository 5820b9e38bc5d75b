// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <variant>

#include "ort/compiled.h"
#include "ort/device.h"
#include "ort/memory.h"
#include "ort/model_writer.h"
#include "ort/options.h"

namespace weft::ort {

class Log;

/// Compiles each part of a graph once: the program that shows whether the part compiles also runs it. Programs are
/// found by a hash of the model, in memory and in files, so that a saved program of another model is not used.
class ProgramStore {
 public:
  /// `is_saved`: programs will be saved, regardless of the options. `memory` allocates the memory of the session's
  /// programs; if null, the library does.
  ProgramStore(const Options& options, const Device& device, const Log& log, bool is_saved,
               std::shared_ptr<Memory> memory);

  const Quantization& quantization() const { return quantization_; }
  bool is_on_gpu() const { return device_.is_gpu(); }
  /// Returns the program of a part, compiled if necessary. Throws the compiler's error, also at later calls.
  std::shared_ptr<Compiled> get(const ModelText& model);
  /// Loads a program that was saved inside or beside an EPContext model.
  std::shared_ptr<Compiled> load(std::span<const std::byte> saved) const;
  std::shared_ptr<Compiled> load(const std::string& path) const;
  /// Saves a program of `get` in the files that the options name. Call it for programs that will be used.
  void keep(const Compiled& program);
  /// Removes all programs from the store; programs in use stay alive.
  void clear() { known_.clear(); }

 private:
  CompileOptions compile_options() const;
  CompileOptions load_options() const;
  std::shared_ptr<Compiled> make(Program program, Compiled::Again again = {}) const;
  std::vector<std::pair<std::string, Tensor>> weights(const ModelText& model, bool are_kept) const;
  OnlineTuning::Tune tuning_of(std::string model, CompileOptions options) const;
  std::shared_ptr<Compiled> compile(const ModelText& model, const std::string& identity) const;
  std::string identity_of(const ModelText& model) const;
  std::shared_ptr<Compiled> try_load(const std::string& path) const;
  std::shared_ptr<Compiled> find_in_cache(const std::string& identity);
  std::shared_ptr<Compiled> find_in_file(const std::string& identity) const;
  std::string cache_path(const std::string& identity) const;

  const Options& options_;
  const Device& device_;
  const Log& log_;
  bool is_saved_;  // programs may be saved, so they keep their weights
  Quantization quantization_;
  std::shared_ptr<Memory> memory_;  // null: the library allocates
  std::map<std::string, std::variant<std::shared_ptr<Compiled>, Error>> known_;
  std::set<const Compiled*> loaded_;  // loaded from cache_dir, so not saved again
  int kept_ = 0;                      // number of programs saved at save_compiled_path
};

}  // namespace weft::ort
