// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "ir/module.h"
#include "ops/custom.h"
#include "passes/pipeline.h"
#include "runtime/executable.h"

/// Model in, executable out: the whole of Weft as a few functions.
///
///     auto model = compile_file("model.onnx", {.device = "cpu"});
///     auto outputs = model->new_context()->run(inputs);
namespace weft {

struct ProgramSource;

enum class Precision : uint8_t { f32, bf16, f16 };

/// The caller's knowledge of an input's sizes: each entry fixes a size or bounds it.
struct ShapeRequest {
  std::string input;
  struct Size {
    int64_t min = 0, max = INT64_MAX;  ///< equal: fixed
    int64_t best = -1;                 ///< the usual one, which tools measure with; -1: none given
  };
  std::vector<Size> sizes;
};

struct Progress {
  std::string phase;  ///< "kernels"
  size_t done = 0, total = 0;
};

/// Options of tuning: how long candidate kernels are measured before the fastest are chosen.
struct TuneOptions {
  double seconds = 0;  ///< 0: none; earlier measurements are used all the same
  /// The inputs of the measured runs; random ones if there is no function.
  std::function<std::vector<Tensor>(const Executable&)> inputs = {};
};

struct CompileOptions {
  /// "auto", "cpu", "ref", "gpu", "nvidia:0", or a chip to compile for ("amd:gfx942"). A named device is strict.
  /// "ref:cpu", "ref:amd:gfx942": the reference runs the program after the passes for that chip, to check them.
  /// "nvidia:0,nvidia:1", "cpu,cpu": products are split, and all of these compute a run together (passes/shard.h).
  std::string device = "auto";
  int threads = 0;               ///< 0: the WEFT_THREADS knob, else the cores that affinity and cgroup allow
  HostAllocator allocator = {};  ///< for weights, working memory and results, in place of the library's
  HostExecutor executor = {};    ///< runs kernels in place of the library's threads
  /// Bytes of the device's memory that one run may use (E401); 0: WEFT_MEMORY_LIMIT, else all of it.
  int64_t memory_limit = 0;
  std::vector<ShapeRequest> shapes = {};         ///< inputs not named keep the model's own sizes
  std::map<std::string, int64_t> symbols = {};   ///< symbols fixed to a number
  std::map<std::string, Tensor> constants = {};  ///< inputs fixed to a value: constants of the program
  std::map<std::string, std::vector<double>> constant_numbers = {};  ///< the same as numbers, of the input's own type
  /// Patterns of the inputs for whose values the program may be specialised (compile/specialise.h); not set: all.
  /// Throws E159 if the value of another input is needed, or if no likely value makes a program.
  std::optional<std::vector<std::string>> static_inputs = {};
  Precision precision = Precision::f32;
  std::vector<std::string> keep_f32 = {};  ///< source node names (glob patterns) that stay in f32
  /// Patterns of inputs that keep the default their model gives: folded into the program, and no inputs of it.
  std::vector<std::string> fixed_defaults = {};
  std::string tag = {}, signature = {};   ///< of a SavedModel: graph and signature; empty: the usual ones
  bool channels_first = false;            ///< inputs and outputs of a TensorFlow graph with 4 axes are [n, c, h, w]
  std::vector<std::string> outputs = {};  ///< values of a TensorFlow graph to give ("node", "node:1"), not its own
  std::vector<DonationRequest> donations = {};  ///< outputs that are to be written in the place of inputs
  std::vector<CustomOperator> operators = {};   ///< that models may use beside ONNX's own
  std::function<void(const Progress&)> progress = {};
  std::string dump_directory = {};  ///< receives the IR after every pass
  bool use_cache = true;            ///< of compiled kernels and of tunings, on disk
  TuneOptions tune = {};
  /// GPUs: vendors' libraries compete with Weft's kernels by measurement; such programs are not saved.
  bool vendor_libraries = true;
  VendorLibraries libraries = {};  ///< those on this machine, found by compile and tune
  int compute_units = 0;           ///< of the target GPU, found by compile and tune; 0: of the chip's usual model
  Chooser choose = {};             ///< among kernels that do the same work; empty: by earlier measurements
  Ranks ranks = {};                ///< which part of a split program is compiled, set by compile_ranks
  int64_t max_nodes = 0;      ///< most nodes with functions expanded (E153); 0: 50,000 + 16 for each node in the file
  int64_t max_nesting = 256;  ///< of graphs within graphs and of functions calling functions (E152)
  /// The compile ends with E403 when this time passes. Kernels in compilation still enter the cache, so a second try is
  /// shorter.
  std::optional<std::chrono::steady_clock::time_point> deadline = {};
  std::function<bool()> stop = {};  ///< compiling ends with E404 once it returns true; called from several threads
  bool recompile = true;  ///< false: a saved program for another chip is refused (E172) rather than compiled again
};

/// Reads a model (a file, or the folder of a SavedModel) and compiles it, or loads a saved program (.weft, recognised
/// by its first bytes). A saved program takes `threads`, `memory_limit`, `device`, `recompile`, `use_cache` and
/// `progress`; options that were fixed when it was compiled are refused (E502).
std::shared_ptr<Executable> compile_file(const std::filesystem::path& path, const CompileOptions& options = {});
/// Compiles or loads bytes likewise; external data is looked for in `folder`, nowhere if empty.
std::shared_ptr<Executable> compile_bytes(Bytes model, const CompileOptions& options = {},
                                          const std::filesystem::path& folder = {});
/// Compiles a program that is in the IR already.
std::shared_ptr<Executable> compile(std::unique_ptr<Program> program, const CompileOptions& options = {});

/// Writes a saved program: the executable's own code (or all the code that it was loaded with), and code for each of
/// `targets` ("cpu:x86-64-v4", "nvidia:sm_90a", "amd:all"), compiled now. E406 as for Executable::save, E501 for an
/// unknown target. Returns the figures of these compiles.
CompileReport save(const Executable& executable, const std::filesystem::path& path,
                   std::span<const std::string> targets, const CompileOptions& options = {});

/// Returns the program that a saved program was made of.
std::unique_ptr<Program> read_source(const ProgramSource& source);

/// A node of a model's main graph and whether a device runs it.
struct NodeSupport {
  std::string node;  ///< "node 12 'cat_3' (Concat)"
  std::string op;    ///< "Concat", "com.microsoft:Gelu"
  std::string why;   ///< why not; empty: it runs
};
/// Returns whether the device of the options supports each node of a model (.onnx), by the frontend, the passes and the
/// rules of lowering; no kernel is compiled. A node whose inputs come from a refused node is reported as unknown.
std::vector<NodeSupport> find_support(const std::filesystem::path& path, const CompileOptions& options = {});

/// Returns the model as the frontend gives it.
std::unique_ptr<Program> import_file(const std::filesystem::path& path, const CompileOptions& options = {});
/// Returns the program after the shared passes (`stage` empty), after the pass called `stage`, or after all passes for
/// the device of the options ("final"). E503 if there is no such pass.
std::unique_ptr<Program> optimised(std::unique_ptr<Program> program, const CompileOptions& options,
                                   std::string_view stage = {});

}  // namespace weft
