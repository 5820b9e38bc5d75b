// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/chip.h"
#include "base/dtype.h"
#include "base/port.h"
#include "ir/module.h"

namespace weft {

/// A transformation of one module; returns true if it changed anything.
using Pass = std::function<bool(Module&)>;
/// The number of times that each pass changed something, by the pass's name.
using PassCounts = std::map<std::string_view, int64_t>;

/// What the pass `shard` did to one rank's program.
struct ShardReport {
  std::vector<DonationRequest> kept = {};  ///< inputs and outputs that are split among the ranks
  std::vector<std::string> notes = {};     ///< the values that were split; the products that were not, with reasons
};

/// The rank of a program among the ranks that compute one model.
struct Ranks {
  int64_t count = 1, number = 0;
  std::vector<DonationRequest> donations = {};
  ShardReport* report = nullptr;
  bool are_connected = false;  ///< GPUs: a kernel of one rank can write to the memory of all ranks
};

/// The inputs of a pass for one chip, besides the module.
struct PassContext {
  Chip chip = {};
  DType precision = DType::f32;            ///< of matrix products and convolutions
  std::vector<std::string> keep_f32 = {};  ///< names of nodes with products that stay f32; wildcards: * and ?
  Ranks ranks = {};
};

/// A run of passes over a program. Each pass is called once for each module:
///
///     Pipeline run(program, {.dump_directory = folder}, {.chip = chip});
///     run("normalise", normalise);
///
/// Also measures the passes' time, removes unread instructions, verifies the program (WEFT_VERIFY_PASSES, debug builds)
/// and prints it (WEFT_DEBUG=5, dump folder). If a pass fails and there is a dump folder (an option or WEFT_DUMP),
/// writes the program from before the pass and a command that runs the pass again.
class Pipeline {
 public:
  struct Options {
    std::filesystem::path dump_directory = {};
    std::string_view stop_after = {};
    size_t first_number = 1;  ///< number of the first file in the dump folder
  };

  Pipeline(Program& program, Options options, PassContext context = {})
      : program_(program), options_(std::move(options)), context_(std::move(context)) {}
  void operator()(std::string_view name, const Pass& pass);

  const PassContext& context() const { return context_; }
  /// True once the pass named by stop_after has run; later passes are skipped.
  bool stopped() const { return stopped_; }
  const std::vector<std::pair<std::string, double>>& seconds() const { return seconds_; }
  /// Returns how often each pass changed something. A pass that runs other passes adds their counts too.
  PassCounts& changes() { return changes_; }

 private:
  void run_on_all(std::string_view name, const Pass& pass);
  void show(std::string_view name);

  Program& program_;
  Options options_;
  PassContext context_;
  bool stopped_ = false;
  std::vector<std::pair<std::string, double>> seconds_;
  PassCounts changes_;
};

/// Repeats `pass` until it changes nothing, at most `limit` times.
Pass until_settled(Pass pass, int limit = 16);

}  // namespace weft
